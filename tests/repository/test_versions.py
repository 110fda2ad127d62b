"""The versions that the package says it supports, and those that the matrix runs."""

from __future__ import annotations

import ast
import re

import tomllib
from packaging.requirements import Requirement

from tests.repository.compose import ROOT, text


def project():
    """Return the project's table of pyproject.toml."""
    return tomllib.loads(text("pyproject.toml"))["project"]


def classified(prefix):
    """Return the versions of the classifiers that begin alike."""
    pattern = rf"{re.escape(prefix)} :: (\d+\.\d+)"
    return {match[1] for one in project()["classifiers"] if (match := re.fullmatch(pattern, one))}


def constant(name):
    """Return a constant of noxfile.py, which needs nox to be imported."""
    for node in ast.parse(text("noxfile.py")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    raise LookupError(name)


def required(name):
    """Return the range of a dependency."""
    found = {one.name: one for one in map(Requirement, project()["dependencies"])}
    return found[name].specifier


def test_each_django_of_the_matrix_is_classified_and_allowed():
    """And no other."""
    djangos = set(constant("PYTHONS"))
    assert classified("Framework :: Django") == djangos
    assert all(f"{one}.1" in required("django") for one in djangos)
    assert "5.1.9" not in required("django")
    assert "6.2.0" not in required("django")


def test_each_python_of_the_matrix_is_classified():
    """And no other; the oldest is required."""
    pythons = {one for several in constant("PYTHONS").values() for one in several}
    assert classified("Programming Language :: Python") == pythons
    oldest = min(pythons, key=lambda one: tuple(map(int, one.split("."))))
    assert project()["requires-python"] == f">={oldest}"


def test_each_django_with_tasks_of_its_own_has_a_lane_for_them():
    """On a Python of the matrix, and the documentation says which."""
    pythons, lanes = constant("PYTHONS"), constant("MORE_ON")
    assert set(lanes) == {one for one in pythons if one.startswith("6.")}
    assert all(python in pythons[django] for django, python in lanes.items())
    folders = constant("MORE_FOLDERS")
    assert {"tests/tasks", "tests/commands", "tests/monitoring"} <= set(folders)
    assert all((ROOT / folder).is_dir() for folder in folders)
    for django, python in lanes.items():
        assert f"Django {django} on Python {python}" in text("docs/stability.md")


def test_each_binding_of_the_matrix_is_allowed():
    """And no series before or after them."""
    allowed = required("foundationdb")
    assert all(f"{one}.1" in allowed for one in constant("BINDINGS"))
    assert not [one for one in ["7.1.67", "8.1.0", "9.0.0"] if one in allowed]
