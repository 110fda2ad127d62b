"""The page of the outbox: what waits, since when, and what cannot be moved."""

from __future__ import annotations

import re

import pytest
from django.db import connection

from fdbqueue.columns import DASH
from fdbqueue.tasks.outbox.models import OutboxTask
from fdbqueue.tasks.pages import outbox
from tests.pages.addresses import LIST, text
from tests.pages.conftest import person
from tests.tasks import letters
from tests.tasks.conftest import backend_of
from tests.tasks.test_pages import rows_in

PAGE = f"{LIST}-/outbox/"


@pytest.fixture(autouse=True)
def backend(empty_queues, settings, db):
    """A backend with an outbox."""
    return backend_of(settings, outbox=True)


def test_the_way_to_it_is_shown_if_a_backend_has_an_outbox(viewer, settings):
    """Where none has one, no page leads there."""
    assert PAGE in text(viewer.get(LIST))
    options = {**settings.TASKS["default"], "OPTIONS": {}}
    settings.TASKS = {"default": options}
    assert PAGE not in text(viewer.get(LIST))
    assert "No task backend has an outbox." in text(viewer.get(PAGE))


def test_rows_are_listed_with_what_is_wrong(viewer, backend):
    """Those that were set aside first; the tiles have the sums."""
    letters.send.enqueue("ada")
    result = letters.refuse.using(queue_name="other").enqueue("bob")
    bad = OutboxTask.objects.get(result_id=result.id)
    backend.outbox().put_aside(bad, "it is <no> JSON")
    OutboxTask.objects.update(enqueued_us=1_700_000_000_000_001)  # ages that stay as they are
    OutboxTask.objects.filter(set_aside_us=None).update(enqueued_us=1_700_000_000_000_000)
    response = viewer.get(PAGE)
    found = rows_in(response)
    assert [[row[1], row[2], *row[4:]] for row in found] == [
        ["tests.tasks.letters.refuse", "tasks-other", "Set aside", "it is <no> JSON"],
        ["tests.tasks.letters.send", "tasks-default", "Waits", DASH],
    ]
    assert "<no>" not in text(response)
    assert "Oldest waits" in text(response)
    assert [row[0] for row in rows_in(viewer.get(PAGE + "?sort=oldest"))] == [
        row[0] for row in found[::-1]
    ]
    assert rows_in(viewer.get(PAGE + "?function=JSON")) == found[:1]
    assert "None of the rows" in text(viewer.get(PAGE + "?function=nobody"))


def test_more_rows_than_are_read(viewer, monkeypatch):
    """The page says how many it has read."""
    monkeypatch.setattr(outbox, "_MAX_SHOWN", 2)
    for number in range(3):
        letters.send.enqueue(str(number))
    assert "2 of 3 rows were read" in text(viewer.get(PAGE))


def test_the_list_of_queues_says_what_needs_attention(viewer, backend):
    """What was set aside, what waits for long, a table that is gone."""
    result = letters.send.enqueue("ada")
    assert "trouble-outbox" not in text(viewer.get(LIST))
    OutboxTask.objects.update(enqueued_us=1_700_000_000_000_000)
    assert re.search(
        r'trouble-outbox"[^>]*>the oldest task waits for \d+ days', text(viewer.get(LIST))
    )
    backend.outbox().put_aside(OutboxTask.objects.get(result_id=result.id), "a reason")
    assert re.search(r'trouble-outbox"[^>]*>1 task set aside<', text(viewer.get(LIST)))
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE fdbqueue_tasks_outbox RENAME TO gone")
    assert re.search(r'trouble-outbox"[^>]*>could not be read<', text(viewer.get(LIST)))


def test_nothing_waits(viewer, settings):
    """Which is said, as is that there is no outbox."""
    assert "Nothing waits in an outbox" in text(viewer.get(PAGE))
    settings.TASKS = {"default": {"BACKEND": "fdbqueue.tasks.FdbQueueBackend"}}
    assert "No task backend has an outbox" in text(viewer.get(PAGE))


def test_a_database_that_cannot_be_read(viewer):
    """The page says which, and shows the rest."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE fdbqueue_tasks_outbox RENAME TO gone")
    assert "could not be read in the database: default" in text(viewer.get(PAGE))


def test_who_may_look_and_that_nothing_changes(viewer, client):
    """The page only shows."""
    assert viewer.post(PAGE).status_code == 405
    assert viewer.get(PAGE + "?sort=nothing").status_code == 400
    assert person("nobody").get(PAGE).status_code == 403
    assert client.get(PAGE).status_code == 302
