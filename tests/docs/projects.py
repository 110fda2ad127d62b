"""The projects that the documentation's blocks run in.

A page names its project in a comment, ``<!-- project: KIND -->``:

- ``ready``, by default: the project that the quickstart makes, with the queues of ``READY``
  below, a migrated database and no users;
- ``new``: the project that ``django-admin startproject mysite .`` makes;
- ``none``: an empty folder;
- ``demo``: the repository's own demo project, with the ``.venv`` of a checkout.
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.docs.blocks import ROOT
from tests.forgetting import forget_queues

KINDS = ("ready", "new", "none", "demo")
READY = """
INSTALLED_APPS += ["rest_framework", "rest_framework.authtoken", "fdbqueue", "fdbqueue.tasks"]
FDBQUEUE = {
    "ENGINE": "fdbqueue.engines.embedded",
    "OPTIONS": {"path": BASE_DIR / "queues.sqlite3"},
    "QUEUES": {
        "quakes": {"kind": "priority", "priority_type": "float"},
        "mail": {"kind": "fifo", "max_attempts": 5},
        "archive": {"kind": "fifo"},
        "user-*": {"kind": "fifo"},
    },
}
TASKS = {"default": {"BACKEND": "fdbqueue.tasks.FdbQueueBackend"}}
"""
URLS = """
from django.urls import include
urlpatterns += [path("api/", include("fdbqueue.api.urls"))]
"""
#: The settings of the page, on the engine under test.
_TESTED = """
import os
from {module}.settings import *
if "{module}" == "project":  # a page may add what the demo has already
    INSTALLED_APPS = list(dict.fromkeys(INSTALLED_APPS))
FDBQUEUE_AS_WRITTEN = FDBQUEUE = globals().get("FDBQUEUE", {{}})
_ours = {{"fdbqueue.engines.embedded", "fdbqueue.engines.foundationdb"}}
_engine = FDBQUEUE.get("ENGINE", "fdbqueue.engines.embedded")
if _engine in _ours and os.environ.get("FDB_CLUSTER_FILE"):
    FDBQUEUE = {{
        **FDBQUEUE,
        "ENGINE": "fdbqueue.engines.foundationdb",
        "OPTIONS": {{"cluster_file": os.environ["FDB_CLUSTER_FILE"]}},
        "PREFIX": ("fdbqueue-test", "{prefix}"),
        "QUEUES": {{
            name: {{**options, "subspace": ("fdbqueue-test", "{prefix}", *options["subspace"])}}
            if "subspace" in options
            else options
            for name, options in FDBQUEUE.get("QUEUES", {{}}).items()
        }},
    }}
elif _engine == "fdbqueue.engines.foundationdb":
    FDBQUEUE = {{
        **FDBQUEUE,
        "ENGINE": "fdbqueue.engines.embedded",
        "OPTIONS": {{"path": BASE_DIR / "queues.sqlite3"}},
    }}
"""


class Project(NamedTuple):
    """A folder with a project, and the environment of a shell in it."""

    folder: Path
    module: str
    environment: dict[str, str]
    prefix: str

    def file(self, name: str) -> Path:
        """Return the file that a block names: ``settings.py`` and ``urls.py`` are the project's."""
        inside = name in {"settings.py", "urls.py"}
        return self.folder / self.module / name if inside else self.folder / name

    def forget_queues(self) -> None:
        """Remove what was pushed on a cluster; a file goes with its folder."""
        forget_queues(self.prefix)


def make(kind: str, base: Path, ready: Path) -> Project:
    """Make a project of a kind.

    Args:
        kind: One of ``KINDS``.
        base: An empty folder.
        ready: A project of the kind ``ready``, to copy.
    """
    folder, module = base / "project", "project" if kind == "demo" else "mysite"
    prefix = secrets.token_hex(8)
    if kind == "ready":
        shutil.copytree(ready, folder)
    elif kind == "demo":
        skip = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "project", folder / "project", ignore=skip)
        shutil.copy(ROOT / "manage.py", folder)
        _make_venv(folder)
    else:
        folder.mkdir()
    environment = _environment(base, module, prefix)
    project = Project(folder, module, environment, prefix)
    if kind == "new":
        start(project)
    return project


def start(project: Project) -> None:
    """Begin a Django project."""
    command = [sys.executable, "-m", "django", "startproject", "mysite", "."]
    environment = {**project.environment, "DJANGO_SETTINGS_MODULE": ""}
    subprocess.run(command, cwd=project.folder, env=environment, check=True)


def make_ready(base: Path) -> Path:
    """Make the project that the others are copied from, and return its folder."""
    project = make("new", base, base)
    for name, text in (("settings.py", READY), ("urls.py", URLS)):
        with project.file(name).open("a", encoding="utf-8") as file:
            file.write(text)
    migrate = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
    subprocess.run(migrate, cwd=project.folder, env=project.environment, check=True)
    return project.folder


def _make_venv(folder: Path) -> None:
    """Make the environment that a checkout has, of the Python that runs the tests."""
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)


def _environment(base: Path, module: str, prefix: str) -> dict[str, str]:
    """Return an environment where ``fdbqueue`` is installed, and the repository is not there."""
    installed = base / "installed"
    installed.mkdir(parents=True)
    (installed / "fdbqueue").symlink_to(ROOT / "fdbqueue")
    (installed / "tested_settings.py").write_text(_TESTED.format(module=module, prefix=prefix))
    return {
        **os.environ,
        "DJANGO_COLORS": "nocolor",
        "DJANGO_SETTINGS_MODULE": "tested_settings",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(installed),
        "PYTHONWARNINGS": "error",
        "PYTHONUNBUFFERED": "1",
        "FDBQUEUE_PATH": "",  # the demo project's file is in its folder
    }
