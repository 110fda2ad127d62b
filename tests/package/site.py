"""A new project, made as the quickstart says, in an environment of its own."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.package import readme

DEADLINE_SECONDS = 120
PASSWORD = "not-a-secret-of-anybody"
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")
_PR_SET_PDEATHSIG = 1
_THIS_PROCESS = ctypes.CDLL(None)


def _end_with_the_tests() -> None:
    """Let this process end when its parent is killed."""
    _THIS_PROCESS.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Site:
    """A project whose commands run in processes of their own, in which warnings are errors.

    Args:
        python: The Python of its environment.
        folder: An empty folder.
    """

    def __init__(self, python: Path, folder: Path) -> None:
        self._python, self._folder = python, folder
        self._environment = {
            "PATH": f"{python.parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "PYTHONWARNINGS": "error",
            "PYTHONUNBUFFERED": "1",
            "DJANGO_SETTINGS_MODULE": "mysite.settings",
            "DJANGO_SUPERUSER_PASSWORD": PASSWORD,
        }
        self.run("-m", "django", "startproject", "mysite", ".", DJANGO_SETTINGS_MODULE="")
        self._append("settings.py", readme.file("settings.py"))
        self._include()
        self._append("urls.py", readme.file("urls.py"))

    def _append(self, name: str, text: str) -> None:
        with (self._folder / "mysite" / name).open("a", encoding="utf-8") as file:
            file.write("\n" + text)

    def _include(self) -> None:
        """Import include(), as the docstring of the new urls.py tells everybody to."""
        urls = self._folder / "mysite/urls.py"
        text = urls.read_text(encoding="utf-8")
        before, after = "import path\n", "import include, path\n"
        assert text.count(f"from django.urls {before}") == 1
        assert f"from django.urls {after}" in text.partition('"""\nfrom')[0]
        head, _, tail = text.rpartition(f"from django.urls {before}")
        urls.write_text(f"{head}from django.urls {after}{tail}", encoding="utf-8")

    def run(self, *arguments: str, text: str | None = None, **environment: str) -> str:
        """Run Python with these arguments, and return what it printed."""
        done = subprocess.run(
            [str(self._python), *arguments],
            cwd=self._folder,
            env={**self._environment, **environment},
            capture_output=True,
            text=True,
            input=text,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Warning" not in done.stderr, done.stderr
        return done.stdout

    def manage(self, *arguments: str, text: str | None = None) -> str:
        """Run a command of the project's, and return what it printed."""
        return self.run("manage.py", *arguments, text=text)

    @contextmanager
    def served(self) -> Iterator[str]:
        """Serve it by ``runserver`` on a free port, and give its address."""
        server = subprocess.Popen(
            [str(self._python), "manage.py", "runserver", "--noreload", "127.0.0.1:0"],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=(  # noqa: PLW1509  # one system call, and no lock
                _end_with_the_tests if sys.platform == "linux" else None
            ),
        )
        assert server.stdout is not None
        try:
            printed = []
            for line in server.stdout:  # it ends with the process at the latest
                printed.append(line)
                found = _ADDRESS.search(line)
                if found:
                    yield found[0]
                    break
            else:
                raise AssertionError("".join(printed))
        finally:
            server.terminate()
            rest, _ = server.communicate(timeout=DEADLINE_SECONDS)
        assert "Traceback" not in rest, rest
