"""What is shipped: the wheel, the migrations, the commands of the repository."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from django.core.management import call_command

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names of the files in a wheel built from the sources that git would ship."""
    target = tmp_path_factory.mktemp("wheel")
    build = ["pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir"]
    sources = _sources(target / "sources")
    subprocess.run(
        [sys.executable, "-m", *build, str(target), str(sources)], check=True, capture_output=True
    )
    (built,) = target.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        return set(archive.namelist())


def _sources(target: Path) -> Path:
    """Copy what belongs to the package, so that the build leaves nothing in the tree."""
    for name in ["pyproject.toml", "README.md", "LICENSE"]:
        target.mkdir(exist_ok=True)
        (target / name).write_bytes((ROOT / name).read_bytes())
    for path in (ROOT / "fdbqueue").rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            copy = target / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    return target


def test_the_wheel_holds_every_file_of_the_package(wheel):
    """Templates, static files, migrations and py.typed are there with the modules."""
    ours = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "fdbqueue").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert ours <= wheel
    assert any(name.endswith(".html") for name in ours)
    assert "fdbqueue/py.typed" in ours


def test_the_wheel_holds_nothing_else(wheel):
    """No tests, no demo project, no benchmarks."""
    tops = {name.partition("/")[0] for name in wheel}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"fdbqueue"}


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
