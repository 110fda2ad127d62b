"""The package, built once and installed once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.package.building import Built, build, install


@pytest.fixture(scope="package")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The source archive and the wheel."""
    return build(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="package")
def python(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment where the wheel is installed, and no extra."""
    return install(built, tmp_path_factory.mktemp("environment") / "venv")
