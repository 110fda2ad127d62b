"""Processes that a test starts, exchanges lines with, and kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fdbqueue.engines import embedded
from tests import forked

if TYPE_CHECKING:
    from typing_extensions import Self

_DEADLINE_SECONDS = 60
_PREAMBLE = """
import os, signal, sys, threading
from fdbqueue.engines import embedded
from tests.engines.alone import alone
from tests.engines.children import run, say
database = embedded.open(sys.argv[1])
"""


def run(database: Any, work: Callable[[Any], object]) -> Any:
    """Run a transaction until it commits, and return it."""
    transaction = database.create_transaction()
    while True:
        try:
            work(transaction)
            transaction.commit().wait()
            return transaction
        except embedded.FDBError as error:
            transaction.on_error(error).wait()


def wait_until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Return once a condition holds that no event tells of; fail after a time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def code_of(future: Any) -> int | None:
    """Return the code of the error that a future ends with, None for none."""
    error = future.exception()
    return None if error is None else error.code


def say(word: object) -> None:
    """Tell the test something."""
    print(word, flush=True)  # noqa: T201  # the pipe to the test


class Child:
    """A Python process with ``database`` open on a file; it is killed when its time is over.

    Args:
        path: The database's file.
        script: What it runs, after the imports of the preamble.
        arguments: Its ``sys.argv[2:]``.
        deadline_seconds: How long it may take.
    """

    def __init__(
        self,
        path: Any,
        script: str,
        *arguments: object,
        deadline_seconds: float = _DEADLINE_SECONDS,
    ) -> None:
        root = str(Path(__file__).parents[2])
        self._process = forked.popen(
            [
                *(sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning"),
                *("-c", _PREAMBLE + script, str(path), *map(str, arguments)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": root},
        )
        self._watchdog = threading.Timer(deadline_seconds, self._process.kill)
        self._watchdog.daemon = True
        self._watchdog.start()

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def line(self) -> str:
        """Return the next line it says; an empty one when it has ended."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def expect(self, word: str) -> None:
        """Wait for a line that is this one."""
        said = self.line()
        assert said == word

    def tell(self, word: str = "go") -> None:
        """Give it a line to read."""
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def go_on(self) -> None:
        """Let it run again after it stopped itself."""
        self._process.send_signal(signal.SIGCONT)

    def end_input(self) -> None:
        """Let it come to the end of what it reads, and end well."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait() == 0

    def end(self) -> list[str]:
        """Return the lines left, once it has ended by itself and well."""
        assert self._process.stdout is not None
        lines = self._process.stdout.read().split()
        assert self._process.wait() == 0
        return lines

    def kill(self) -> list[str]:
        """End it by SIGKILL, and return what it had said before."""
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        self._process.kill()
        lines = [] if self._process.stdout.closed else self._process.stdout.read().split()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        self._watchdog.cancel()
        return lines
