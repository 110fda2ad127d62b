"""The migrations, the pinned requirements, and the commands of the repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from django.core.management import call_command

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.django_db
def test_no_migration_is_missing():
    """``makemigrations --check`` has nothing to do in a user's project."""
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


def test_every_requirement_is_pinned():
    """requirements.txt names one version of each package, and nothing but packages."""
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    requirements = [line for line in lines if line and not line.startswith("#")]
    assert requirements
    assert all(line.count("==") == 1 for line in requirements)


@pytest.mark.parametrize("target", ["install", "run", "test", "lint", "soak", "bench"])
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
