"""The engines' modules import each other one way."""

from __future__ import annotations

import ast
import graphlib
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "fdbqueue" / "engines"


def imported(path):
    """Return the engines' modules that one imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def test_no_module_imports_one_that_imports_it():
    """There is an order of them in which each needs only those before it."""
    paths = {
        ".".join(path.relative_to(PACKAGE.parents[1]).with_suffix("").parts): path
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py"
    }
    graph = {name: imported(path) & paths.keys() for name, path in paths.items()}
    order = list(graphlib.TopologicalSorter(graph).static_order())
    assert set(order) == set(paths)


def test_no_class_has_more_than_one_base_of_ours():
    """Nor is one put together from several files."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                bases = {ast.unparse(base).partition("[")[0] for base in node.bases}
                assert len(bases - {"Protocol", "Generic", "NamedTuple", "Exception"}) <= 1
