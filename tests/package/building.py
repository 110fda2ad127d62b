"""Build the package, and install it with nothing but its requirements."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_SECONDS = 300
_IGNORED = shutil.ignore_patterns(
    *(".git", ".venv*", ".nox", ".*_cache", ".hypothesis", "__pycache__", "*.egg-info"),
    *("build", "dist", "var", "images", "sample_data"),
)


class Built(NamedTuple):
    """What is released: a source archive, and the wheel built from that."""

    sdist: Path
    wheel: Path

    def names(self) -> set[str]:
        """Return the names of the files in the wheel."""
        with zipfile.ZipFile(self.wheel) as archive:
            return set(archive.namelist())

    def source_names(self) -> set[str]:
        """Return the names of the files in the source archive, without its folder's."""
        with tarfile.open(self.sdist) as archive:
            return {name.partition("/")[2] for name in archive.getnames()}

    def metadata(self, field: str) -> list[str]:
        """Return the values of a field of the wheel's metadata."""
        return self._metadata().get_all(field, [])

    def body(self) -> str:
        """Return the wheel's description."""
        return str(self._metadata().get_payload())

    def _metadata(self) -> Message:
        with zipfile.ZipFile(self.wheel) as archive:
            (name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
            return Parser().parsestr(archive.read(name).decode())


def build(folder: Path) -> Built:
    """Build both from a copy of the sources, so that nothing is left in the tree."""
    sources = shutil.copytree(ROOT, folder / "sources", ignore=_IGNORED)
    code = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    _run([sys.executable, "-c", code, str(folder)], sources)
    (sdist,) = folder.glob("*.tar.gz")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    _run([*pip, "--wheel-dir", str(folder), str(sdist)], folder)
    (wheel,) = folder.glob("*.whl")
    return Built(sdist, wheel)


def install(built: Built, folder: Path) -> Path:
    """Make a virtual environment with the wheel and what it requires, and return its Python.

    No extras, and no registry is asked: what is required is copied, with what that requires,
    from the environment that the tests run in. So it is there only if it is required.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin/python"
    (packages,) = folder.glob("lib/python*/site-packages")
    wheel_requires = _needed(built.metadata("Requires-Dist"))
    for found in _closure(wheel_requires, {}).values():
        _copy(found, packages)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    _run([*pip, "--no-deps", "--no-index", str(built.wheel)], folder)
    _run([sys.executable, "-m", "pip", "--python", str(python), "check"], folder)
    return python


def _needed(requirements: list[str]) -> Iterator[str]:
    """Yield the names that are required without an extra, on this Python."""
    from packaging.requirements import Requirement

    for requirement in map(Requirement, requirements):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement.name


def _closure(names: Iterator[str], found: dict[str, Distribution]) -> dict[str, Distribution]:
    for name in names:
        key = name.lower()
        if key not in found:
            found[key] = distribution(name)
            _closure(_needed(found[key].requires or []), found)
    return found


def _copy(found: Distribution, packages: Path) -> None:
    """Copy the files of a distribution that are in its environment's packages."""
    for file in found.files or []:
        if ".." not in file.parts and Path(file.locate()).is_file():
            target = packages / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file.locate(), target)  # with its time, so that its bytecode is valid


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
