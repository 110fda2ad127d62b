"""The tests on each Python with each Django that supports it: ``make matrix``.

A Python that is not installed is skipped; ``--error-on-missing-interpreters`` makes that a failure.
Versions of packages are those that pip takes today, within the ranges of ``pyproject.toml``: so
this finds what a new release breaks, and the pinned environment of ``make test`` does not.
"""

from __future__ import annotations

from collections.abc import Sequence

import nox

nox.needs_version = ">=2025.2"
nox.options.default_venv_backend = "virtualenv"
nox.options.sessions = ["tests"]

#: The Pythons of each Django, as its release notes have them.
PYTHONS = {
    "5.2": ["3.10", "3.11", "3.12", "3.13", "3.14"],
    "6.0": ["3.12", "3.13", "3.14"],
    "6.1": ["3.12", "3.13", "3.14"],
}
#: The series of the binding, each with a client library of its own version or a newer one.
BINDINGS = ["7.3", "7.4", "8.0"]
#: What does not depend on the versions of a server, a browser or another program; and what looks,
#: in a browser if there is one, whether the pages fit into the frame of this Django's admin.
FOLDERS = [
    *("tests/contract", "tests/api", "tests/pages", "tests/django", "tests/engines"),
    "tests/browser/test_layout.py",
]
#: What else is run with each Django that has Tasks of its own, on one Python: these take long.
MORE_FOLDERS = ["tests/tasks", "tests/commands", "tests/monitoring"]
MORE_ON = {"6.0": "3.12", "6.1": "3.14"}
EXTRAS = "api-docs,metrics,pages-live,progress,tasks"
#: Tasks are part of Django from 6.0 on.
TASKS = ["django-tasks>=0.12"]
NEEDED = [
    "pytest",
    "pytest-django",
    "pytest-timeout",
    "pytest-xdist",
    "hypothesis",
    "jsonschema",
    "markdown-it-py",
    "playwright",
    "PyYAML",
]


@nox.session
@nox.parametrize(
    ("python", "django"),
    [(python, django) for django, pythons in PYTHONS.items() for python in pythons],
)
def tests(session: nox.Session, django: str) -> None:
    """Run the tests, or those that are named behind ``--``, with one Django."""
    tasks = TASKS if django == "5.2" else []
    session.install(f".[{EXTRAS}]", f"django~={django}.0", *tasks, *NEEDED)
    _test(session, MORE_FOLDERS if MORE_ON.get(django) == session.python else [])


@nox.session(python="3.11")
@nox.parametrize("binding", BINDINGS)
def bindings(session: nox.Session, binding: str) -> None:
    """Run the tests with one series of FoundationDB's binding."""
    session.install(f".[{EXTRAS}]", f"foundationdb~={binding}.0", "django~=5.2.0", *TASKS, *NEEDED)
    _test(session)


def _test(session: nox.Session, more: Sequence[str] = ()) -> None:
    """Run pytest on the sources of the checkout."""
    session.run("python", "-m", "django", "--version")
    session.run("python", "-m", "pytest", "-q", *(session.posargs or [*FOLDERS, *more]))
