"""What the documentation shows is what happens."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.cases import cases
from tests.docs.blocks import pages
from tests.docs.projects import KINDS

#: Programs of the documented shell sessions that a machine may lack.
PROGRAMS = ("curl", "jq")
WITH_BLOCKS = [page for page in pages() if page.blocks]
#: Pages that name keys outside the prefix of a test, or the embedded engine's file; the others
#: run on a cluster where there is one.
EMBEDDED_ONLY = frozenset(
    {
        "CONTRIBUTING.md",
        "docs/how-to/recipes.md",
        "docs/how-to/your-own-transaction.md",
        "docs/operations.md",
        "docs/queues.md",
    }
)


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: page.path)
def test_every_block_of_a_page_does_what_the_page_says(page, runner_of, monkeypatch):
    """Run from the top to the bottom, each block succeeds and prints what is shown."""
    for program in PROGRAMS:
        if f"{program} " in page.text and shutil.which(program) is None:
            message = f"{program} is not installed"
            pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    if page.path in EMBEDDED_ONLY:
        monkeypatch.delenv("FDB_CLUSTER_FILE", raising=False)
    runner_of(page).run()


def test_the_pages_that_need_the_embedded_engine_are_there():
    """A page that was renamed is not left on that list."""
    assert {page.path for page in WITH_BLOCKS} >= EMBEDDED_ONLY


@cases("page", pages())
def test_a_page_names_a_project_that_there_is(page):
    """A misspelt kind of project is not taken for the usual one."""
    assert page.project in KINDS
