"""The migrations, the pinned requirements, and the commands of the repository."""

from __future__ import annotations

import importlib
import itertools
import re
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest
import tomllib
from django.core.management import call_command
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.cases import cases

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.django_db
def test_no_migration_is_missing():
    """``makemigrations --check`` has nothing to do in a user's project."""
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


@pytest.mark.parametrize("name", sorted(path.name for path in ROOT.glob("requirements*.txt")))
def test_every_requirement_is_pinned(name):
    """A file of requirements names one version of each package."""
    assert pinned(name)
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines(name))


def test_what_runs_needs_no_test_tools():
    """requirements.txt has what the package, its extras and the server require, and no more."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = itertools.chain(*project["optional-dependencies"].values())
    names = [Requirement(one).name for one in [*project["dependencies"], *extras]]
    assert set(pinned("requirements.txt")) == closure(
        [*names, "django-tasks", "gunicorn", "whitenoise"]
    )


def test_what_tests_need_comes_on_top():
    """requirements-dev.txt includes requirements.txt, and repeats none of it."""
    text = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")
    assert "--requirement requirements.txt" in text.splitlines()
    assert not pinned("requirements-dev.txt").keys() & pinned("requirements.txt").keys()


def lines(name):
    """Return the lines of a file of requirements that name packages."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith(("#", "--"))]


def pinned(name):
    """Return the packages of a file of requirements, each with its version."""
    pairs = (line.split("==") for line in lines(name))
    return {canonicalize_name(package): version for package, version in pairs}


def closure(names):
    """Return packages and what they require without extras, here."""
    found = set()
    left = list(names)
    while left:
        name = canonicalize_name(left.pop())
        if name not in found:
            found.add(name)
            required = map(Requirement, distribution(name).requires or [])
            left += [
                one.name
                for one in required
                if one.marker is None or one.marker.evaluate({"extra": ""})
            ]
    return found


SOAK = sorted((ROOT / "tests" / "soak").glob("test_*.py"))


@pytest.mark.parametrize("path", SOAK, ids=lambda path: path.stem)
def test_the_long_tests_can_be_imported(path):
    """Most runs leave them out, so a name that they use may go unnoticed."""
    importlib.import_module(f"tests.soak.{path.stem}")


@cases("target", ["install", "run", "test", "lint", "soak", "bench"])
def test_make_help_names_each_target(target):
    """``make help`` lists what the README tells people to use."""
    answer = subprocess.run(
        ["make", "--no-print-directory", "help"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert f"make {target} " in answer.stdout


def test_an_old_python_is_told_what_make_needs(tmp_path):
    """Instead of an error of pip's about a package that has no version for it."""
    old = tmp_path / "python3"
    begin = "import sys; sys.version_info = (3, 10, 13); exec(sys.argv[1])"
    old.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{begin}' \"$2\"\n")
    old.chmod(0o755)
    made = tmp_path / "venv"
    for target in ("run", "install"):
        done = subprocess.run(
            ["make", "--no-print-directory", target, f"VENV={made}", f"PYTHON={old}"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 2
        assert f"This needs Python 3.11 or newer, but {old} is " in done.stderr
        assert f"make {target} PYTHON=python3.11" in done.stderr
        assert not made.exists()
