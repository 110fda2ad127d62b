"""Imports run one way: engines and exceptions, service, conf, then everything Django."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "fdbqueue"

#: What each part may import of the package; the first match of a module's name counts.
LAYERS = {
    "fdbqueue.exceptions": (),
    "fdbqueue.engines": ("fdbqueue.engines", "fdbqueue.exceptions"),
    "fdbqueue.service": ("fdbqueue.service", "fdbqueue.engines.protocols", "fdbqueue.exceptions"),
    "fdbqueue.made": (),
    "fdbqueue.conf": (
        "fdbqueue.service",
        "fdbqueue.engines.protocols",
        "fdbqueue.exceptions",
        "fdbqueue.made",
    ),
    "fdbqueue": ("fdbqueue",),
}
WITHOUT_DJANGO = ("fdbqueue.engines", "fdbqueue.service", "fdbqueue.exceptions")


def modules() -> dict[str, Path]:
    """Return the modules of the package by name."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path) -> set[str]:
    """Return what a module imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            found.add(node.module or "")
    return found


def within(name: str, packages: tuple[str, ...]) -> bool:
    """Tell whether a module is one of the packages or inside one."""
    return any(name == package or name.startswith(package + ".") for package in packages)


@pytest.mark.parametrize("name", sorted(modules()))
def test_a_module_imports_only_what_is_below_it(name):
    """A lower layer never needs a higher one."""
    allowed = next(LAYERS[layer] for layer in LAYERS if within(name, (layer,)))
    ours = {i for i in imports(modules()[name]) if within(i, ("fdbqueue",))}
    if name == "fdbqueue":
        allowed = ("fdbqueue.exceptions", "fdbqueue.service", "fdbqueue.conf", "fdbqueue")
    assert {i for i in ours if not within(i, allowed)} == set()


@pytest.mark.parametrize("name", sorted(n for n in modules() if within(n, WITHOUT_DJANGO)))
def test_the_service_and_the_engines_know_no_django(name):
    """Below the settings neither Django nor Django REST framework is imported."""
    outside = {i.partition(".")[0] for i in imports(modules()[name])}
    assert not outside & {"django", "rest_framework"}


@pytest.mark.parametrize(
    "name", sorted(n for n in modules() if within(n, ("fdbqueue.engines.embedded",)))
)
def test_the_embedded_engine_needs_the_standard_library_alone(name):
    """Its imports are its own, the errors', and Python's."""
    outside = {i.partition(".")[0] for i in imports(modules()[name])} - {"fdbqueue"}
    assert outside <= set(sys.stdlib_module_names)


def test_only_the_cluster_engine_loads_the_client_library():
    """``fdb.impl``, which needs the library, is imported nowhere else."""
    users = {name for name, path in modules().items() if "fdb.impl" in imports(path)}
    assert users == {"fdbqueue.engines.foundationdb"}


def test_importing_the_package_reads_no_settings_and_loads_no_binding():
    """``import fdbqueue`` leaves Django and the binding alone."""
    code = "import sys, fdbqueue; print(*[m for m in ('django', 'fdb') if m in sys.modules])"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert answer.stdout.strip() == ""


def test_there_is_no_drawer_for_odds_and_ends():
    """No module is called utils, helpers, common or manager."""
    stems = {path.stem for path in modules().values()}
    assert not stems & {"utils", "helpers", "common", "manager"}
