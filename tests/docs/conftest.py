"""Projects for the documentation's blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.docs.blocks import Page
from tests.docs.projects import make, make_ready
from tests.docs.running import Runner


@pytest.fixture(scope="session")
def ready_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project as the quickstart leaves it."""
    return make_ready(tmp_path_factory.mktemp("ready"))


@pytest.fixture
def runner_of(tmp_path: Path, ready_project: Path) -> Iterator[Callable[[Page], Runner]]:
    """Make what runs a page, in a project of its own."""
    with ExitStack() as stack:

        def make_runner(page: Page) -> Runner:
            project = make(page.project, tmp_path, ready_project)
            return stack.enter_context(closing(Runner(page, project)))

        yield make_runner
