"""Python processes that are forked from one that has imported what most of them need.

``Popen`` is ``subprocess.Popen`` for a Python with a script, ``-m`` or ``-c``, but for the start
of an interpreter and the imports, which take most of the time of a short process. All else
is the same: arguments, environment, folder, streams, signals, exit code. A plain process is started
where that cannot be, and in ``make nightly`` (``FDBQUEUE_TEST_PLAIN_STARTS=1``).

The *origin* is a process for each process of tests. It reads requests from a socket, and forks
twice for each: the *keeper* waits for the new process, and tells of its end through a pipe.
"""

from __future__ import annotations

import builtins
import contextlib
import gc
import importlib
import io
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
IS_PLAIN = os.environ.get("FDBQUEUE_TEST_PLAIN_STARTS") == "1" or sys.platform != "linux"
#: What is imported before, of what needs no settings and opens nothing.
NEEDED = (
    *("asyncio", "sqlite3", "fdb.tuple", "fdb.subspace_impl", "tests.engines.children"),
    *("fdbqueue.engines.embedded", "fdbqueue.service", "fdbqueue.conf", "fdbqueue.testing"),
    *("django", "django.core.management", "django.core.checks", "django.db.models", "django.test"),
    *("django.db.backends.sqlite3.base", "django.core.cache.backends.locmem"),
    *("django.core.handlers.wsgi", "django.contrib.staticfiles.handlers"),
    *("django.contrib.auth.hashers", "django.contrib.auth.validators", "django.db.migrations"),
    *("django.utils.feedgenerator", "django.shortcuts", "django.contrib.messages.storage.base"),
    *("csv", "prometheus_client", "typing_extensions", "importlib.resources", "cronsim"),
)
_STREAMS = 3
_FIRST = struct.Struct("!I")


#: With these in its environment an interpreter starts otherwise than one that is forked.
_DECIDING = ("PYTHONIOENCODING", "PYTHONUTF8", "PYTHONUNBUFFERED", "PYTHONHASHSEED", "LC_ALL")
_OPTIONS = {"cwd", "env", "stdin", "stdout", "stderr", "bufsize", "text", "start_new_session"}


def popen(args: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """Start a Python process as ``subprocess.Popen`` does, forked if it can be."""
    environment = options.get("env") or os.environ
    changed = [name for name in _DECIDING if environment.get(name) != os.environ.get(name)]
    if IS_PLAIN or changed or not options.keys() <= _OPTIONS:
        return subprocess.Popen(args, **options)
    return Popen(args, **options)


def run(
    args: Sequence[str],
    *,
    timeout: float | None = None,
    check: bool = False,
    capture_output: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """Run a Python process to its end as ``subprocess.run`` does, forked if it can be."""
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with popen(args, **options) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(args, process.returncode, output, errors)
    if check:
        done.check_returncode()
    return done


class Popen(subprocess.Popen[Any]):
    """A process that is forked from the origin; ``args[0]`` is this Python."""

    def _execute_child(self, args: Any, *others: Any) -> None:
        names = subprocess.Popen._execute_child.__code__.co_varnames[2:]  # they differ by version
        given = dict(zip(names, others, strict=False))
        pipes = [
            given[end] for name in ("p2c", "c2p", "err") for end in (f"{name}read", f"{name}write")
        ]
        streams = [given["p2cread"], given["c2pwrite"], given["errwrite"]]
        request = {
            "arguments": [os.fsdecode(one) for one in args[1:]],
            "environment": dict(os.environ if given["env"] is None else given["env"]),
            "folder": os.fsdecode(given["cwd"] or os.getcwd()),
            "session": given["start_new_session"],
        }
        inherited = [number if fd == -1 else fd for number, fd in enumerate(streams)]
        self.pid, self._ended = _Origin.of_this_process().start(request, inherited)
        self._child_created = True
        self._close_pipe_fds(*pipes)

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if wait_flags & os.WNOHANG and not select.select([self._ended], [], [], 0)[0]:
            return 0, 0
        told = os.read(self._ended, _FIRST.size)
        os.close(self._ended)
        # a keeper that was killed tells nothing
        return self.pid, _FIRST.unpack(told)[0] if told else signal.SIGKILL

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None:
            pid, status = self._try_wait(os.WNOHANG)
            if pid == self.pid:
                self._handle_exitstatus(status)
        return self.returncode


class _Origin:
    """The process that others are forked from, seen from a process of tests."""

    _one: _Origin | None = None
    _lock = threading.Lock()

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._socket, theirs = socket.socketpair()
        command = [sys.executable, "-m", "tests.forked", str(theirs.fileno())]
        environment = dict(os.environ)
        environment.pop("DJANGO_SETTINGS_MODULE", None)  # each process has its own
        with theirs:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    @classmethod
    def of_this_process(cls) -> _Origin:
        """Return the origin of this process, started if there is none."""
        with cls._lock:
            if cls._one is None or cls._one._pid != os.getpid():
                cls._one = cls()
            return cls._one

    def start(self, request: dict[str, Any], streams: list[int]) -> tuple[int, int]:
        """Start a process; return its number, and a pipe that has its status when it ends."""
        told, tell = os.pipe()
        try:
            with self._lock:
                body = json.dumps(request).encode()
                socket.send_fds(self._socket, [_FIRST.pack(len(body))], [*streams, tell])
                self._socket.sendall(body)
                answer = self._socket.recv(_FIRST.size, socket.MSG_WAITALL)
        finally:
            os.close(tell)
        return _FIRST.unpack(answer)[0], told


def _serve(connection: socket.socket) -> dict[str, Any] | None:
    """Fork for each request; return it in the new process, and None if there will be none."""
    while True:
        first, fds, _, _ = socket.recv_fds(connection, _FIRST.size, _STREAMS + 1)
        if not first:
            return None
        request = json.loads(connection.recv(_FIRST.unpack(first)[0], socket.MSG_WAITALL))
        told, tell = os.pipe()
        if os.fork() == 0:
            connection.close()
            os.close(told)
            return _keep(request, fds, tell)
        for fd in (tell, *fds):
            os.close(fd)
        connection.sendall(os.read(told, _FIRST.size))
        os.close(told)
        _forget_keepers()


def _forget_keepers() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _keep(request: dict[str, Any], fds: list[int], tell: int) -> dict[str, Any]:
    """Fork the new process, and return the request in it; tell of its number and its end."""
    pid = os.fork()
    if pid == 0:
        os.close(tell)
        os.close(fds.pop())
        _take(fds)
        return request
    os.write(tell, _FIRST.pack(pid))
    os.close(tell)
    status_pipe = fds.pop()
    for fd in {*fds, 0, 1, 2}:
        os.close(fd)
    with contextlib.suppress(BrokenPipeError):
        os.write(status_pipe, _FIRST.pack(os.waitpid(pid, 0)[1]))
    os._exit(0)


def _take(fds: list[int]) -> None:
    """Make these the standard streams."""
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
    for fd in set(fds) - {0, 1, 2}:
        os.close(fd)
    streams = (open(number, mode, closefd=False) for number, mode in enumerate(("rb", "wb", "wb")))  # noqa: SIM115  # they stay open
    errors = ("strict", "strict", "backslashreplace")
    sys.stdin, sys.stdout, sys.stderr = (
        io.TextIOWrapper(stream, "utf-8", error, line_buffering=error != "strict")
        for stream, error in zip(streams, errors, strict=True)
    )


def _become(request: dict[str, Any]) -> None:
    """Run ``-c CODE …``, ``-m MODULE …`` or ``SCRIPT …``, as an interpreter does."""
    if request["session"]:
        os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    places = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [place for place in places if place and place not in sys.path]
    first, *others = _filtered(request["arguments"])
    if first not in {"-c", "-m"}:
        sys.argv = [first, *others]
        runpy.run_path(first, run_name="__main__")
        return
    sys.argv = [first, *others[1:]]
    if first == "-m":
        runpy.run_module(others[0], run_name="__main__", alter_sys=True)
        return
    main_module = sys.modules["__main__"] = ModuleType("__main__")
    exec(compile(others[0], "<string>", "exec"), vars(main_module))


def _filtered(arguments: list[str]) -> list[str]:
    """Set filters of warnings, as ``-W FILTER`` does; return the arguments after them."""
    filters = [one for one in os.environ.get("PYTHONWARNINGS", "").split(",") if one]
    while arguments[0] == "-W":
        filters.append(arguments[1])
        arguments = arguments[2:]
    for text in filters:
        action, _, category = (*text.split(":"), "", "", "")[:3]
        warnings.simplefilter(action, getattr(builtins, category or "Warning"))
    return arguments


if __name__ == "__main__":
    asked = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for module in NEEDED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    if found := _serve(asked):
        _become(found)
