"""``queue_redrive``."""

from __future__ import annotations

import json

import pytest
from django.core.management.base import CommandError

import fdbqueue
from fdbqueue.service import run


@pytest.fixture
def dead():
    """The ids of three dead letters, 0 to 2, of a queue with one more item."""
    queue = fdbqueue.queue("mail")
    queue.push_many(range(4))
    ids = [item.id for item in queue.peek_many(3)]
    for item_id in ids:
        queue.bury(item_id)
    return ids


def values():
    return [item.value for item in fdbqueue.queue("mail")]


def test_all(call, dead):
    """All dead letters go back to their places."""
    assert call("queue_redrive", "mail", "--no-input").out == "Redrove 3 dead items in 'mail'.\n"
    assert values() == [0, 1, 2, 3]
    assert fdbqueue.queue("mail").counts().dead == 0


def test_some(call, dead):
    """By id, or so many; what is not dead is passed by."""
    with pytest.raises(CommandError) as caught:
        call("queue_redrive", "mail", "--id", dead[2])
    assert "Redrive 1 of 3 dead items in 'mail'?" in str(caught.value)
    printed = call(
        "queue_redrive", "mail", "--id", dead[2], "--id", dead[2], "--no-input", "--json"
    )
    assert json.loads(printed.out) == {"queue": "mail", "redriven": 1, "undecodable": 0}
    assert values() == [2, 3]
    call("queue_redrive", "mail", "--limit=1", "--no-input")
    assert values() == [0, 2, 3]
    printed = call("queue_redrive", "mail", "--id", dead[0], "--no-input")
    assert printed.out == "Redrove 0 dead items in 'mail'.\n"


def test_what_cannot_be_decoded(call):
    """It stays dead, and the error names it; --id requeues it all the same."""
    queue = fdbqueue.queue("mail")
    queue.push("good")
    run(queue.database, lambda tr: tr.set(queue.subspace.pack((0, b"before")), b"no JSON"))
    (bad, good) = queue.page().items
    queue.bury(good.id)
    queue.bury(bad.id)
    with pytest.raises(CommandError, match="1 item that cannot be decoded stayed dead") as caught:
        call("queue_redrive", "mail", "--no-input")
    assert (caught.value.returncode, values()) == (1, ["good"])
    printed = call("queue_redrive", "mail", "--id", bad.id, "--no-input")
    assert printed.err.endswith(f"will block the queue until queue_bury: {bad.id}.\n")
    assert queue.counts().dead == 0


@pytest.mark.parametrize("more", [[], ["--limit=5"], ["--reason=gone"]])
def test_nothing_is_asked_if_no_item_is_dead(call, more):
    """So a script without a terminal need not know."""
    assert call("queue_redrive", "mail", *more).out == "Redrove 0 dead items in 'mail'.\n"


def test_those_of_a_reason(call):
    """Only these, in their order, and at most the limit."""
    queue = fdbqueue.queue("mail")
    queue.push_many(range(6))
    for item in list(queue):
        queue.bury(item.id, reason=f"{'odd' if item.value % 2 else 'even'}\nmore")
    printed = call("queue_redrive", "mail", "--reason=odd", "--limit=2", "--no-input")
    assert printed.out == "Redrove 2 dead items in 'mail'.\n"
    assert values() == [1, 3]
    call("queue_redrive", "mail", "--reason", "odd\nmore", "--no-input")
    assert values() == [1, 3, 5]
    with pytest.raises(CommandError) as caught:
        call("queue_redrive", "mail", "--reason", "even\x1b")
    assert 'the ones that died of "even\\x1b"?' in str(caught.value)


@pytest.mark.parametrize("verb", ["redrive", "purge"])
def test_an_empty_reason_is_not_every_reason(call, verb):
    """It is that of the dead letters without one; so is a blank one."""
    mail = fdbqueue.queue("mail")
    for given in ("--reason=", "--reason= "):
        for reason in ("", "a", " ", "b"):
            mail.bury(mail.push(0).id, reason=reason)
        call(f"queue_{verb}", "mail", given, "--no-input")
        assert {item.reason for item in mail.page(state="dead").items} == {"a", "b"}


def test_a_reason_that_no_dead_letter_has(manage):
    """The exit code is 1, and the reasons that there are are said; without dead letters it is 0."""
    queue = fdbqueue.queue("mail")
    for reason in ("RuntimeError: 550 no mailbox", "odd\x1b", "odd\x1b"):
        queue.bury(queue.push(1).id, reason=reason)
    for command, done in (("queue_redrive", "redriven"), ("queue_purge", "removed")):
        found = manage(command, "mail", "--reason=550 no mailbox", "--no-input", "--json")
        assert found.returncode == 1
        assert json.loads(found.stdout)[done] == 0
        assert 'has the reason "550 no mailbox".' in found.stderr
        assert 'are "odd\\x1b" (2), "RuntimeError: 550 no mailbox" (1): ' in found.stderr
        assert queue.counts().dead == 3
    queue.clear()
    assert manage("queue_purge", "mail", "--reason=gone", "--no-input").returncode == 0
