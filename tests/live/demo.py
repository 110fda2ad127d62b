"""The demo, as ``make run`` serves it, in a process with files and queues of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from tests.live.server import ROOT, environment_of

if TYPE_CHECKING:
    from typing_extensions import Self

#: For all that it prepares, on a machine that runs other tests.
STARTS_WITHIN_SECONDS = 120
STOPS_WITHIN_SECONDS = 60
_LAST_LINE = re.compile(r"Log in +user (\S+), password (\S+)")


def environment(folder: Path, prefix: str) -> dict[str, str]:
    """Return the environment of a demo with all its files in a folder."""
    return {**environment_of("tests.live.server_settings", folder, prefix), "PYTHONUNBUFFERED": "1"}


class Demo:
    """The demo, from its making to the end of its ``with`` block.

    Args:
        environment: Where it runs.
        arguments: What the command gets besides the port.
        python: The Python that runs it.

    Attributes:
        lines: What it has printed up to the login.
    """

    def __init__(
        self, environment: dict[str, str], *arguments: str, python: str = sys.executable
    ) -> None:
        self._is_stopped = False
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115  # the end closes it
        self._process = subprocess.Popen(
            [python, "manage.py", "demo", "--port", "0", *arguments],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._reader.join(STARTS_WITHIN_SECONDS)
        if not self.lines or not _LAST_LINE.fullmatch(self.lines[-1]):
            self._process.kill()
            self._process.communicate()
            raise AssertionError("\n".join([*self.lines, self._logged()]))

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip("\n"))
            if _LAST_LINE.fullmatch(self.lines[-1]):
                return

    @property
    def address(self) -> str:
        """The address that it has printed, without a slash at the end."""
        found = re.search(r"^Queues +(http://\S+?)/admin/\S*$", "\n".join(self.lines), re.MULTILINE)
        assert found, self.lines
        return found[1]

    @property
    def token(self) -> str:
        """The token for the REST API that it has printed."""
        found = re.search(r"token ([0-9a-f]{40})$", "\n".join(self.lines), re.MULTILINE)
        assert found, self.lines
        return found[1]

    def stop(self, signal: int) -> tuple[int, str, str]:
        """Send it a signal; return its exit code, what it printed after the login, and its log."""
        self._is_stopped = True
        self._process.send_signal(signal)
        printed, _ = self._process.communicate(timeout=STOPS_WITHIN_SECONDS)
        return self._process.returncode, printed, self._logged()

    def _logged(self) -> str:
        self._log.seek(0)
        return self._log.read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        code = self._process.poll()
        if code is None:
            self._process.kill()
            self._process.communicate()
        log = self._logged()
        self._log.close()
        if code is not None and not self._is_stopped:
            raise AssertionError(f"the demo has ended by itself, with {code}: {log}")
