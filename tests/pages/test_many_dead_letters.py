"""Very many dead letters, requeued by the pages: so many a request, and then the question again."""

from __future__ import annotations

import re

import pytest

from tests.pages.addresses import LIST, text
from tests.pages.conftest import person
from tests.pages.test_actions import at, do, fields
from tests.thorough import size

COUNT = size(100_000, 30_000)


@pytest.fixture
def fdbqueue_queues():
    """A queue whose items die at once."""
    return {"mail": {"kind": "fifo", "max_attempts": 1}}


@pytest.mark.nightly
def test_very_many_dead_letters(setting, settings, queue):
    """Each request says how many it has done, and asks whether to go on, until none is left."""
    settings.FDBQUEUE = {**setting, "PAGES": {"actions": True}}
    manager, mail = person("manager", "view_queue", "manage_queue"), queue("mail")
    mail.push_many(range(COUNT))
    while leased := mail.lease_many(500, seconds=60):
        mail.nack_many(leased)
    assert mail.counts().dead == COUNT
    address, done = at(LIST, "mail", "redrive"), 0
    assert f"Dead letters now: {COUNT:,}" in text(manager.get(address))
    while True:
        page = do(manager, address)
        number = int(re.search(r"([\d,]+) items? w", text(page))[1].replace(",", ""))
        assert 0 < number <= 10_100 or done == COUNT
        done += number
        if "There are more" not in text(page):
            break
        assert fields(page)["once"]
        assert f"Dead letters now: {COUNT - done:,}" in text(page)
    assert (done, mail.size(), mail.counts().dead) == (COUNT, COUNT, 0)
