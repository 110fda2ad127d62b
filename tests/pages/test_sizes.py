"""The pages at large sizes: what they read is bounded, and they say what they left out."""

from __future__ import annotations

import re

from fdbqueue import conf
from tests.families import multiply
from tests.pages.addresses import LIST, text
from tests.thorough import size

WORKERS, FAILURES, FAMILY = f"{LIST}-/workers/", f"{LIST}-/failures/", f"{LIST}?name=user-*"
FIND = f"{LIST}-/find/?id=nothing"
QUEUES = size(30_000, 12_000)


def cost_of(viewer, watched, address, status=200):
    """Return the text of a page, and how many reads it took."""
    watched.reads.clear()
    response = viewer.get(address)
    assert response.status_code == status, address
    return re.sub(r"\s+", " ", text(response)), len(watched.reads)


def model(queue, name, *, leases, letters):
    """Return a member with an item, leases of ten workers, and dead letters of three reasons."""
    found = queue(name)
    found.push_many({"number": number} for number in range(leases + letters + 1))
    for number, item in enumerate(found.page(limit=letters).items if letters else ()):
        found.bury(item.id, reason=f"reason {number % 3}")
    for worker in range(10 if leases else 0):
        found.lease_many(leases // 10, seconds=3_600, worker=f"<b>worker-{worker}</b>")
    return found


def test_very_many_queues(viewer, queue, watched):
    """The pages cover 1,000 of them, and lead to the others; the list has one row for them."""
    names = [f"user-{number:05}" for number in range(QUEUES)]
    of_one = model(queue, names[0], leases=0, letters=1)
    multiply(conf.catalog(), of_one, names[1 : QUEUES // 10])
    pages = [LIST, f"{LIST}?q={names[-1]}", FAMILY, f"{LIST}?name={names[-1]}*", FAILURES]
    before = [cost_of(viewer, watched, page)[1] for page in pages]
    multiply(conf.catalog(), of_one, names[QUEUES // 10 :])
    after = [cost_of(viewer, watched, page)[1] for page in pages]
    for page, first, last in zip(pages, before, after, strict=True):
        assert last < 1.6 * first + 20, page
    shown, reads = cost_of(viewer, watched, FAILURES)
    assert "This page covers only 1,000 queues, in order of name." in shown
    assert re.search(r"\d+ of 99\d dead letters in 1,000 queues are counted", shown)
    shown, reads = cost_of(viewer, watched, FIND, status=404)
    assert "Only 1,000 queues were looked at" in shown
    assert 'id="further"' in shown
    assert reads < 12_000
