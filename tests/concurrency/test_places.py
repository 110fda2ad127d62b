"""An item keeps its place while it is hidden: what is pushed later stays behind it."""

from __future__ import annotations

import pytest

from tests.concurrency.kinds import STRICT

#: Items at one place would be in the order of what is drawn at random.
TRIES = 8


def hidden_by_delay(queue, push):
    """Push an item that comes back by itself."""
    push("first", delay=5)


def hidden_by_lease(queue, push):
    """Push an item and lease it; the lease runs out."""
    push("first")
    queue.lease(seconds=5)


def hidden_by_delayed_nack(queue, push):
    """Push an item, lease it and give it up for a while."""
    push("first")
    queue.nack(queue.lease(seconds=60), delay=5)


def hidden_by_death(queue, push):
    """Push an item and bury it; what is dead is put back in the end."""
    push("first")
    queue.bury(queue.peek().id)


WAYS = [hidden_by_delay, hidden_by_lease, hidden_by_delayed_nack, hidden_by_death]


@pytest.mark.parametrize("hide", WAYS)
@pytest.mark.parametrize("kind", STRICT, ids=str)
def test_what_was_hidden_comes_before_what_was_pushed_later(database, subspace, clock, kind, hide):
    """However it was hidden, it is popped first when it has come back."""
    for number in range(TRIES):
        queue = kind.open(database, subspace[number])

        def push(text, queue=queue, **options):
            return queue.push(kind.value(text), kind.priorities[0], **options)

        hide(queue, push)
        push("second")
        push("third")
        clock.advance(10)
        queue.redrive()
        found = [kind.text(item.value) for item in queue.pop_many(9)]
        assert found == ["first", "second", "third"]
