"""Numbers in the attributes of pages are for browsers, whatever the formats of the project."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

import fdbqueue
from fdbqueue.tasks import call, group
from tests.pages.addresses import LIST, of, text
from tests.pages.conftest import person
from tests.tasks import jobs, note_jobs

QUEUE = "tasks-default"
#: What people read, though it is an attribute.
TEXTS = {"title", "aria-label", "alt", "placeholder", "content"}
QUEUES = {"mail": {"kind": "fifo"}, "tickets": {"kind": "priority"}, "user-*": {"kind": "fifo"}}
SCHEDULES = {"often": {"task": "tests.tasks.jobs.note", "args": [1], "every": 100}}


class Attributes(HTMLParser):
    """Collects the attributes of a page, and what is shown."""

    def __init__(self, page):
        super().__init__()
        self.found, self.shown = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found += [(tag, name, value) for name, value in attrs if name not in TEXTS]

    def handle_data(self, data):
        self.shown += data


@pytest.fixture
def addresses(configure, settings, work, db):
    """Return the addresses of every kind of page, with something on it."""
    configure(schedules=SCHEDULES, backoff=None)
    settings.FDBQUEUE = {**settings.FDBQUEUE, "QUEUES": QUEUES}
    mail, tickets = fdbqueue.queue("mail"), fdbqueue.queue("tickets")
    mail.push_many(range(120))
    tickets.push_many([("x" * 1_500, number * 100) for number in range(12)])
    for number in range(21):
        fdbqueue.queue(f"user-{number}").push(number)
    mail.bury(mail.peek().id, reason="refused")
    mail.lease(seconds=5_000, worker="ann")
    jobs.note.enqueue("x")
    result = group([call(note_jobs.fail_half_way), call(jobs.fail, "x")]).enqueue()
    work()
    first, second = (part.id for part in result.parts())
    item = tickets.peek()
    return [
        LIST,
        of("mail"),
        of("tickets"),
        *(f"{of('mail')}?state={state}" for state in ("leased", "dead")),
        *(f"{of(QUEUE)}?state={state}" for state in ("done", "dead")),
        of("tickets", item),
        *(f"{of(QUEUE)}tasks/{one}/" for one in (first, second)),
        f"{LIST}?name=user-*",
        *(f"{LIST}-/{page}/" for page in ("workers", "failures", "functions", "schedules")),
        f"{LIST}-/find/?id=x",
    ]


def test_no_attribute_has_a_number_that_was_written_for_people(addresses, settings):
    """With and without separators of thousands; what is shown has them."""
    settings.FORMAT_MODULE_PATH = ["tests.pages.formats"]
    viewer = person("viewer", "view_queue")
    for is_grouped in (True, False):
        settings.USE_THOUSAND_SEPARATOR = is_grouped
        for address in addresses:
            page = Attributes(text(viewer.get(address)))
            assert len(page.found) > 50, address
            wrong = [one for one in page.found if re.search("[¤§]", one[2] or "")]
            assert not wrong, (address, wrong)
        assert "¤" in Attributes(text(viewer.get(of("mail")))).shown
