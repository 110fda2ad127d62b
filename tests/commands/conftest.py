"""Queues for each test, and commands run on them: in this process and in processes of their own."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.core.management import CommandError, ManagementUtility, call_command
from fdb.subspace_impl import Subspace

from fdbqueue import conf
from fdbqueue.engines import embedded
from fdbqueue.service import run
from tests.commands.setting import fdbqueue_setting
from tests.forked import popen

ROOT = Path(__file__).resolve().parents[2]
EARTHQUAKES = ROOT / "project" / "sample_data" / "earthquakes.ndjson"
DEADLINE_SECONDS = 60

needs_full_device = pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="needs Linux's /dev/full"
)


class Printed(NamedTuple):
    """What a command printed."""

    out: str
    err: str


class Processes:
    """Start ``manage.py`` commands as processes of their own."""

    def __init__(self, prefix: str, path: str) -> None:
        self.environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.commands.process_settings",
            "FDBQUEUE_TEST_PREFIX": prefix,
            "FDBQUEUE_PATH": path,
            "PYTHONWARNINGS": "error",
        }
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, *arguments: str, redirect: str = "", **options: Any) -> subprocess.Popen[bytes]:
        """Start a command; its streams are pipes unless given, and nothing is buffered here.

        ``redirect`` is the shell's, such as ``<&-`` for no standard input at all.
        """
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        options = {"cwd": ROOT, "env": self.environment, "bufsize": 0, **streams, **options}
        command = [sys.executable, "manage.py", *arguments]
        if redirect:
            command = ["sh", "-c", f'exec "$@" {redirect}', "sh", *command]
        process = subprocess.Popen(command, **options) if redirect else popen(command, **options)
        self._started.append(process)
        return process

    def finish(
        self, process: subprocess.Popen[bytes], stdin: bytes | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Wait until a command ends; what it still printed is in the result."""
        with process:
            try:
                out, err = process.communicate(stdin, timeout=DEADLINE_SECONDS)
            finally:
                process.kill()
        return subprocess.CompletedProcess(
            process.args, process.returncode, (out or b"").decode(), (err or b"").decode()
        )

    def run(
        self, *arguments: str, stdin: bytes = b"", env: dict[str, str] | None = None, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        environment = {**self.environment, **(env or {})}
        return self.finish(self.start(*arguments, env=environment, **options), stdin)

    def close(self) -> None:
        """End what a test that failed has left running."""
        for process in self._started:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    with contextlib.suppress(OSError):  # what was to be written has no reader
                        stream.close()


@pytest.fixture
def place(tmp_path: Path) -> tuple[str, str]:
    """A random prefix, and the embedded engine's file."""
    return secrets.token_hex(8), str(tmp_path / "queues.sqlite3")


@pytest.fixture(autouse=True)
def queues(settings: Any, place: tuple[str, str]) -> Iterator[None]:
    """The queues of the setting, all empty; cleared at the end."""
    settings.FDBQUEUE = fdbqueue_setting(*place)
    yield
    settings.FDBQUEUE = fdbqueue_setting(*place)
    database, space = conf.database(), Subspace(("fdbqueue-test", place[0]))
    run(database, lambda tr: tr.clear_range(space.key(), space.key() + b"\xff\xff"))
    if hasattr(database, "close"):
        database.close()


@pytest.fixture(autouse=True)
def sigint() -> Iterator[None]:
    """Python's own handler, here and in new processes, even where the tests ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def engine_error() -> type[Exception]:
    """The class of errors of the setting's engine."""
    if not os.environ.get("FDB_CLUSTER_FILE"):
        return embedded.FDBError
    import fdb

    error: type[Exception] = fdb.FDBError
    return error


@pytest.fixture
def processes(place: tuple[str, str]) -> Iterator[Processes]:
    """Start commands as processes, on the test's queues; those that still run are ended."""
    with contextlib.closing(Processes(*place)) as started:
        yield started


@pytest.fixture
def call() -> Callable[..., Any]:
    """Call a command in this process, and return what it printed.

    With an exit code it must end with that one: what it says is returned.
    """

    def call(*arguments: str, code: int = 0) -> Any:
        out, err = io.StringIO(), io.StringIO()
        if code:
            with pytest.raises(CommandError) as caught:
                call_command(*arguments, stdout=out, stderr=err)
            assert caught.value.returncode == code
            return str(caught.value)
        call_command(*arguments, stdout=out, stderr=err)
        return Printed(out.getvalue(), err.getvalue())

    return call


@pytest.fixture
def manage(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command in this process as ``manage.py`` does: arguments, streams and exit code.

    All of its way is the real one but for the start of an interpreter, which takes longer than the
    command. What a process is needed for, such as a signal or a stream that is closed, is tested
    with ``processes``.
    """

    def manage(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
        utility = ManagementUtility(["manage.py", *arguments])
        command = utility.fetch_command(arguments[0])
        status: Any = 0
        with io.TextIOWrapper(tempfile.TemporaryFile()) as stream, monkeypatch.context() as patch:
            stream.buffer.write(stdin)
            stream.seek(0)
            patch.setattr("sys.stdin", stream)
            patch.setattr(gc, "freeze", lambda: None)  # of a process that ends with its command
            try:
                command.run_from_argv(utility.argv)
            except SystemExit as ended:
                status = ended.code
        return subprocess.CompletedProcess(utility.argv, status, *capfd.readouterr())

    return manage


@pytest.fixture
def ndjson(tmp_path: Path) -> Callable[[bytes | str], str]:
    """Write a file, and return its path."""

    def write(content: bytes | str) -> str:
        file = tmp_path / "items.ndjson"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(file)

    return write


@pytest.fixture
def a_day_later(monkeypatch):
    """Let the database be a day older: the embedded engine's versions begin at 0."""
    kind = type(conf.database().create_transaction())
    read_version = kind.get_read_version

    class Later:
        def __init__(self, future):
            self._future = future

        def wait(self):
            return self._future.wait() + 86_401 * 1_000_000

    monkeypatch.setattr(kind, "get_read_version", lambda tr: Later(read_version(tr)))
