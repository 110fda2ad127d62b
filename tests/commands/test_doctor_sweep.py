"""``queue_doctor --sweep``."""

from __future__ import annotations

import io
import json
import os

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from fdb.subspace_impl import Subspace

import fdbqueue
from fdbqueue import conf
from fdbqueue.service import IdempotencyKey, run
from tests.concurrency.conftest import clock

__all__ = ["clock"]


@pytest.fixture
def receipts(settings):
    """The subspace where this test's receipts are."""
    return Subspace((*settings.FDBQUEUE["PREFIX"], "receipt"))


@pytest.fixture
def leave(receipts):
    """Leave receipts as clients did that are long gone: at the database's first version."""

    def leave(count):
        client = os.urandom(16)
        transaction = conf.database().create_transaction()
        for slot in range(count):
            transaction[receipts.pack((client, slot))] = bytes(18)
        transaction.commit().wait()

    return leave


def left(receipts):
    """Return how many receipts there are."""
    return run(conf.database(), lambda tr: len(list(tr[receipts.range()])), read_only=True)


def test_receipts_of_clients_that_are_gone(call, leave, receipts, a_day_later):
    """Those that are old are removed and counted; a client that lives on loses nothing."""
    leave(3)
    printed = call("queue_doctor", "--sweep")
    assert printed == ("Removed 3 receipts and 0 saved responses.\n", "")
    assert left(receipts) <= 1
    fdbqueue.queue("mail").push("x")
    assert fdbqueue.queue("mail").pop().value == "x"


def test_receipts_that_are_not_old(call, leave, receipts):
    """What is younger than asked for stays."""
    fdbqueue.queue("mail").push("x")
    before = left(receipts)
    assert (
        call("queue_doctor", "--sweep", "--older-than", "600").out
        == "Removed 0 receipts and 0 saved responses.\n"
    )
    assert left(receipts) == before == 1


def test_the_least_age(call):
    """Receipts that may be needed yet are not for sweeping, from Python either."""
    with pytest.raises(CommandError, match="599 is less than 600"):
        call("queue_doctor", "--sweep", "--older-than", "599")
    with pytest.raises(CommandError) as caught:
        call_command("queue_doctor", "--sweep", older_than=599)
    assert caught.value.returncode == 1
    out = io.StringIO()
    call_command("queue_doctor", "--sweep", older_than=600, as_json=True, stdout=out)
    assert json.loads(out.getvalue()) == {"removed": 0, "responses": 0}


def test_answers_that_have_run_out(call, clock):
    """Those of all queues are removed, and the values of popped items with them."""
    for name in ("mail", "quakes"):
        queue = fdbqueue.queue(name)
        queue.push("popped")
        queue.pop_many(1, once=IdempotencyKey("short", kept_seconds=10))
        queue.push("kept", once=IdempotencyKey("long", kept_seconds=3_620))
    clock.advance(3_615)
    assert json.loads(call("queue_doctor", "--sweep", "--json").out)["responses"] == 2
    assert json.loads(call("queue_doctor", "--sweep", "--json").out)["responses"] == 0
    assert fdbqueue.queue("mail").push("kept", once="long") == fdbqueue.queue("mail").peek()


def test_answers_where_nothing_was_ever_pushed(call, clock):
    """Those of pops from a queue of a pattern, which no list shows, are removed too."""
    name = "user-7"
    fdbqueue.queue(name).pop_many(1, once=IdempotencyKey("short", kept_seconds=10))
    assert name not in conf.catalog().names()
    clock.advance(3_615)
    assert json.loads(call("queue_doctor", "--sweep", "--json").out)["responses"] == 1
    assert conf.catalog().names(with_responses=True) == conf.catalog().names()
