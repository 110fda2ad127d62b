"""The demo project under gunicorn, as a process with files and queues of its own."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import requests

from tests.forgetting import forget_queues

if TYPE_CHECKING:
    from typing_extensions import Self

ROOT = Path(__file__).resolve().parents[2]
WORKERS, THREADS = 2, 4
DEADLINE_SECONDS = 60
_STOP_SECONDS = 60
#: Gunicorn leaves the socket it is given to the garbage collector.
_WARNINGS = "error,ignore::ResourceWarning:gunicorn.arbiter"
_BOOTED = re.compile(r"Booting worker with pid: (\d+)")


def environment_of(settings: str, folder: Path, prefix: str) -> dict[str, str]:
    """Return the environment of a project with all its files in a folder."""
    return {
        **os.environ,
        "DJANGO_DEBUG": "1",
        "DJANGO_SETTINGS_MODULE": settings,
        "FDBQUEUE_PATH": str(folder / "queues.sqlite3"),
        "FDBQUEUE_TEST_DJANGO": str(folder / "django.sqlite3"),
        "FDBQUEUE_TEST_PREFIX": prefix,
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": _WARNINGS,
    }


def manage(environment: dict[str, str], *arguments: str) -> str:
    """Run a command of the project's, and return what it printed."""
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class Server:
    """A server that runs from its making to the end of its ``with`` block.

    Args:
        folder: An empty folder for its files.
        settings: Its settings module.
        environment: What it finds in its environment besides.
        config: The module of its settings of gunicorn.
        commands: What is run of ``manage.py`` before it starts.
        tables: A file of Django's to copy instead, which takes less than a command.
    """

    def __init__(
        self,
        folder: Path,
        settings: str = "tests.live.server_settings",
        environment: dict[str, str] | None = None,
        config: str = "tests.live.gunicorn_conf",
        commands: Sequence[Sequence[str]] = (("migrate", "--verbosity", "0"),),
        tables: Path | None = None,
    ) -> None:
        self._config = config
        self.prefix = secrets.token_hex(8)
        self.environment = {**environment_of(settings, folder, self.prefix), **(environment or {})}
        self.path = self.environment["FDBQUEUE_PATH"]
        self._errors, self._answered = folder / "errors.log", folder / "answered.log"
        if tables is not None:
            shutil.copyfile(tables, self.environment["FDBQUEUE_TEST_DJANGO"])
        else:
            for command in commands:
                self.manage(*command)
        self._start()

    def manage(self, *arguments: str) -> str:
        """Run a command of the project's, and return what it printed."""
        return manage(self.environment, *arguments)

    def _start(self) -> None:
        with (
            socket.create_server(("127.0.0.1", 0), backlog=128) as listening,
            self._errors.open("a") as errors,
        ):
            self.address = f"http://127.0.0.1:{listening.getsockname()[1]}"
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "gunicorn", "project.wsgi"),
                    *("--config", f"python:{self._config}"),
                    *("--bind", f"fd://{listening.fileno()}"),
                    *("--error-logfile", str(self._errors)),
                    *("--access-logfile", str(self._answered)),
                ],
                cwd=ROOT,
                env=self.environment,
                pass_fds=[listening.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
            )
        try:  # it is listening already: this is answered when it is up, and fails when it is not
            requests.get(
                f"{self.address}/api/queues/", timeout=DEADLINE_SECONDS, allow_redirects=False
            )
        except requests.RequestException as error:
            self.stop()
            raise AssertionError(self.errors) from error
        except BaseException:  # what ends this process shall not leave that one
            self.stop()
            raise

    @property
    def api(self) -> str:
        """The address of the queues."""
        return f"{self.address}/api/queues"

    @property
    def workers(self) -> list[int]:
        """The numbers of all worker processes that it has started."""
        return [int(number) for number in _BOOTED.findall(self.errors)]

    @property
    def errors(self) -> str:
        """What it has logged."""
        return self._errors.read_text()

    def answered(self, part: str) -> list[str]:
        """Return the requests that are over whose first line has this part, with their statuses."""
        return [line for line in self._answered.read_text().splitlines() if part in line]

    def stop(self) -> None:
        """End it, by its process's number."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()  # its workers notice
            self._process.wait()
        forget_queues(self.prefix)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
