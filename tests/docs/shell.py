"""Shell sessions of the documentation, typed into a real shell."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.docs.notation import is_as_shown
from tests.docs.skipped import reason

DEADLINE_SECONDS = 60
_LOOK_SECONDS = 0.02
#: A job has a group where job control was on when it began.
_END_JOBS = "for job in $(jobs -p); do kill -KILL -- -$job || kill -KILL $job; done >/dev/null 2>&1"
_ANSWER = re.compile(r"Type 'yes' to continue: (\w+)$", re.MULTILINE)
#: What stays in the foreground until somebody stops it; it runs to the end of the page.
_SERVERS = re.compile(r"make run$|(python manage\.py runserver|gunicorn|uvicorn)\b")


class Step(NamedTuple):
    """A command, and what the documentation shows that it prints."""

    command: str
    shown: str

    @property
    def is_server(self) -> bool:
        """Does it stay in the foreground?"""
        return bool(_SERVERS.match(self.command))

    @property
    def may_fail(self) -> bool:
        """Does the documentation show an error, and so a status other than 0?"""
        return any(sign in self.shown for sign in ("Error", "ERROR ", "^C"))


def steps(session: str) -> list[Step]:
    """Return the steps of a session: ``$ `` begins a command, ``> `` or a backslash goes on."""
    found: list[tuple[list[str], list[str]]] = []
    for line in session.splitlines():
        if line.startswith("$ "):
            found.append(([line[2:]], []))
            continue
        if not found:
            raise ValueError(f"a session begins with '$ ': {line!r}")
        command, shown = found[-1]
        if not shown and line.startswith("> "):
            command.append(line[2:])
        elif not shown and command[-1].endswith("\\"):
            command.append(line)
        else:
            shown.append(line)
    return [Step("\n".join(command), "\n".join(shown)) for command, shown in found]


def is_readable(stream: Any, seconds: float) -> bool:
    """Tell whether something, or its end, can be read of a stream within so many seconds.

    By poll(), for select() takes no descriptor above 1,023, and the tests may have as many.
    """
    poll = select.poll()
    poll.register(stream, select.POLLIN)
    return bool(poll.poll(seconds * 1_000))


class Shell:
    """A shell that keeps its variables and its folder from step to step.

    Args:
        folder: Where it begins.
        environment: Its environment.
        work: A folder for what is printed.
    """

    def __init__(self, folder: Path, environment: dict[str, str], work: Path) -> None:
        self._printed = work / "printed.txt"
        self._status = work / "status.txt"
        self._shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # by which all that it starts is found at the end
            preexec_fn=_hear_ctrl_c,  # noqa: PLW1509  # one system call, and no lock
        )
        # Where this process is killed, bash reads the end of its input, and ends what it started.
        self._say(f"trap {shlex.quote(_END_JOBS)} EXIT")

    def run(self, step: Step) -> str | None:
        """Run a step and return what is wrong with it, None for nothing."""
        if reason(step.command):
            return None
        command = step.command
        if answer := _ANSWER.search(step.shown):
            program = [sys.executable, str(Path(__file__).with_name("terminal.py")), answer[1]]
            command = shlex.join([*program, "bash", "-c", command])
        if "^C" in step.shown:
            status = self._interrupt(command, step.shown.partition("^C")[0].rstrip())
        else:
            status = self._say(f"{{ {command}\n}} </dev/null >{self._quoted} 2>&1")
        printed = self._text()
        shown = step.shown.replace("^C\n", "").replace("^C", "")
        if status != 0 and not step.may_fail:
            return f"$ {step.command}\n{printed}\nended with {status}"
        if step.shown and not is_as_shown(printed, shown):
            return f"$ {step.command}\n{printed}\nis not what is shown:\n{step.shown}"
        return None

    def _text(self) -> str:
        """Return what the step has printed; the last character may be half written yet."""
        if not self._printed.exists():
            return ""
        return self._printed.read_text(encoding="utf-8", errors="backslashreplace")

    @property
    def _quoted(self) -> str:
        return shlex.quote(str(self._printed))

    def _interrupt(self, command: str, before: str) -> int:
        """Run a command until it has printed what is shown, and press Ctrl-C."""
        if not before.strip():
            raise ValueError("before ^C something must be shown, so that it is known to run")
        self._printed.write_bytes(b"")  # bash goes on before its job has opened it
        self._say("set -m")  # a group of its own, which hears of Ctrl-C
        self._say(f"{{ exec bash -c {shlex.quote(command)}\n}} </dev/null >{self._quoted} 2>&1 &")
        group = int(self._ask('set +m; printf "%s\\n" "$!"'))
        self._wait_for(lambda: is_as_shown(self._text(), f"{before}..."), before)
        os.killpg(group, signal.SIGINT)
        return self._say('wait "$!"')

    def _wait_for(self, happened: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not happened():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what!r} was not printed: {self._text()}")
            time.sleep(_LOOK_SECONDS)

    def _say(self, command: str) -> int:
        """Run a command, and return its status."""
        return int(self._ask(f'(exit "${{__status:-0}}")\n{command}\n__status=$?\necho $__status'))

    def _ask(self, command: str) -> str:
        """Return the line that a command prints."""
        assert self._shell.stdin
        assert self._shell.stdout
        self._shell.stdin.write(command.encode() + b"\n")
        self._shell.stdin.flush()
        line, deadline = b"", time.monotonic() + DEADLINE_SECONDS
        while not line.endswith(b"\n"):
            if is_readable(self._shell.stdout, _LOOK_SECONDS):
                part = os.read(self._shell.stdout.fileno(), 4096)
                if not part:
                    raise AssertionError(f"the shell has ended at: {command}\n{line.decode()}")
                line += part
            elif time.monotonic() > deadline:
                raise TimeoutError(f"{command}\n{self._text()}")
        return line.decode().strip()

    def close(self) -> None:
        """End the shell, and all that it has started and left."""
        assert self._shell.stdin
        assert self._shell.stdout
        self._shell.kill()
        for process in _members(self._shell.pid):  # before the wait: so its number is still its own
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._shell.wait()
        with contextlib.suppress(BrokenPipeError):
            self._shell.stdin.close()
        self._shell.stdout.close()


def _hear_ctrl_c() -> None:
    """Let Ctrl-C end what is started, also where this process was told to ignore it.

    A shell's background job is; a process cannot undo that for a shell that it starts otherwise.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _members(session: int) -> list[int]:
    """Return the processes of a session: job control gives each job a group, not a session."""
    if Path("/proc/self").exists():
        listed = [name for name in os.listdir("/proc") if name.isdigit()]
    else:
        ps = subprocess.run(["ps", "-A", "-o", "pid="], stdout=subprocess.PIPE, check=True)
        listed = ps.stdout.decode().split()
    found = []
    for pid in map(int, listed):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) == session:
                found.append(pid)
    return found
