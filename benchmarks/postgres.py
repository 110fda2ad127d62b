"""A PostgreSQL server of one's own, where its programs are installed."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Where Debian has the programs, which are not in its PATH.
_FOLDERS = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
#: Who runs the server where this process is root's, as whom it refuses to run.
_USER = "postgres"
_NAME = "benchmarks"
_START_SECONDS = 60


def programs() -> tuple[str, str] | None:
    """Return the paths of ``initdb`` and ``postgres``; None without them, or without psycopg."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *_FOLDERS])
    initdb, postgres = (shutil.which(name, path=path) for name in ("initdb", "postgres"))
    if initdb is None or postgres is None or importlib.util.find_spec("psycopg") is None:
        return None
    return initdb, postgres


@contextlib.contextmanager
def server(folder: Path, paths: tuple[str, str]) -> Iterator[dict[str, Any]]:
    """Run a server with its files and its socket in a folder; give Django's settings for it.

    It has PostgreSQL's own settings: each commit waits for its fsync. No port is opened.

    Raises:
        CalledProcessError: It cannot be made.
        TimeoutError: It does not start.
    """
    initdb, postgres = paths
    place = folder / "postgres"
    place.mkdir(mode=0o700)
    user: dict[str, Any] = {"cwd": place}
    if os.geteuid() == 0:
        folder.chmod(0o711)  # so that the user can pass through
        shutil.chown(place, _USER)
        user |= {"user": _USER, "extra_groups": []}
    options = ("--auth=trust", f"--username={_NAME}", "--encoding=UTF8", "--locale=C")
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([initdb, "--pgdata=data", *options], check=True, **silent, **user)
    command = [postgres, "-D", "data", "-k", str(place), "-c", "listen_addresses="]
    with subprocess.Popen(command, **silent, **user) as process:
        try:
            _wait_until_ready(process, place / "data" / "postmaster.pid")
            yield {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": "postgres",
                "USER": _NAME,
                "HOST": str(place),
                "CONN_MAX_AGE": None,
            }
        finally:
            process.send_signal(signal.SIGINT)  # which ends connections, too


def _wait_until_ready(process: subprocess.Popen[bytes], status: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not (status.exists() and status.read_text().rstrip().endswith("ready")):
        if process.poll() is not None or time.monotonic() > deadline:
            raise TimeoutError("PostgreSQL does not start")
        time.sleep(0.05)
