"""What is done in the caller's transaction: seen within it at once, and the caller's to commit."""

from __future__ import annotations

import pytest

from fdbqueue.exceptions import ItemNotFound, LeaseLost
from tests.concurrency.census import STATES, assert_counted


class Stage:
    """A queue with items in every state, and another one.

    Attributes:
        ready: The ids of the ready items, in order.
        leased: Two leased items.
        dead: The id of a dead letter.
    """

    def __init__(self, kind, database, subspace):
        self.kind = kind
        self.queue = kind.open(database, subspace["queue"])
        self.target = kind.open(database, subspace["target"])
        texts = [kind.value(text) for text in "abcdefg"]
        self.queue.push_many(kind.pairs(texts, kind.priorities[:1] * len(texts)))
        self.dead = self.queue.peek().id
        self.queue.bury(self.dead, reason="was bad")
        self.leased = self.queue.lease_many(2, worker="w")
        self.ready = [item.id for item in self.queue]
        self.push(delay=60)

    def push(self, **options):
        """Push another item."""
        return self.queue.push(self.kind.value("x"), self.kind.priorities[0], **options)

    def seen(self, tr=None):
        """Return what is there: all items of both queues in their states, counts and pauses."""
        held = [item for state in STATES for item in self.queue.page(state=state, tr=tr).items]
        return [
            self.queue.counts(tr=tr),
            self.target.counts(tr=tr),
            self.queue.paused(tr=tr),
            self.queue.dead_by_reason(tr=tr),
            self.target.page(tr=tr).items,
            [self.queue.get(item.id, tr=tr) for item in held],
        ]


def lose(stage, tr):
    """Acknowledge a lease, which is lost for everything else within the transaction."""
    stage.queue.ack(stage.leased[0], tr=tr)
    with pytest.raises(LeaseLost):
        stage.queue.ack(stage.leased[0], tr=tr)
    assert stage.queue.ack_many(stage.leased, tr=tr) == 1


def remove(stage, tr):
    """Remove an item, which is gone for everything else within the transaction."""
    stage.queue.remove(stage.ready[0], tr=tr)
    with pytest.raises(ItemNotFound):
        stage.queue.remove(stage.ready[0], tr=tr)


def fail(stage, tr):
    """Lease an item, give it up, and lease the same with an attempt."""
    item = stage.queue.lease(tr=tr)
    stage.queue.nack(item, reason="no", tr=tr)
    again = stage.queue.lease(worker="w", tr=tr)
    assert (again.id, again.attempts) == (item.id, 1)


#: What hides the queue from its own transaction if ids are given by the commit.
PUSHES = {
    "move": lambda stage, tr: stage.queue.move_many(stage.target, 2, tr=tr),
    "push": lambda stage, tr: stage.push(tr=tr),
    "push later": lambda stage, tr: stage.push(delay=10, tr=tr),
    "push unique": lambda stage, tr: stage.push(unique="key", tr=tr),
}
#: What else a transaction may do.
WRITES = {
    "ack": lose,
    "ack many": lambda stage, tr: stage.queue.ack_many(stage.leased, tr=tr),
    "ack while leasing": lambda stage, tr: stage.queue.lease_many(1, ack=stage.leased[:1], tr=tr),
    "bury": lambda stage, tr: stage.queue.bury(stage.ready[0], reason="bad", tr=tr),
    "clear": lambda stage, tr: stage.queue.clear(tr=tr),
    "extend": lambda stage, tr: stage.queue.extend(stage.leased[0], 900, tr=tr),
    "extend many": lambda stage, tr: stage.queue.extend_many(stage.leased, 900, tr=tr),
    "lease": lambda stage, tr: stage.queue.lease(seconds=5, worker="other", tr=tr),
    "lease from the max end": lambda stage, tr: stage.queue.lease_max(tr=tr),
    "lease and give up": fail,
    "lease more than there are": lambda stage, tr: stage.queue.lease_many(9, tr=tr),
    "nack": lambda stage, tr: stage.queue.nack(stage.leased[0], reason="no", tr=tr),
    "nack many": lambda stage, tr: stage.queue.nack_many(stage.leased, delay=9, tr=tr),
    "pause": lambda stage, tr: stage.queue.pause(reason="half", tr=tr),
    "pop": lambda stage, tr: stage.queue.pop(tr=tr),
    "pop from the max end": lambda stage, tr: stage.queue.pop_many(2, end="max", tr=tr),
    "remove": remove,
    "remove a leased item": lambda stage, tr: stage.queue.remove(stage.leased[0].id, tr=tr),
    "remove a dead letter": lambda stage, tr: stage.queue.remove(stage.dead, tr=tr),
    "requeue": lambda stage, tr: stage.queue.requeue(stage.leased[0], tr=tr),
}


@pytest.mark.parametrize("write", [*WRITES, *PUSHES])
def test_a_write_in_the_callers_transaction_is_the_callers_to_commit(
    kind, database, subspace, clock, stored, write
):
    """Dropped, it never was; committed, it is what the transaction saw, and nobody else before."""
    stage = Stage(kind, database, subspace)
    act = {**WRITES, **PUSHES}[write]
    before, rows = stage.seen(), stored()
    dropped = database.create_transaction()
    act(stage, dropped)
    dropped.cancel()
    assert stored() == rows
    kept = database.create_transaction()
    act(stage, kept)
    is_hidden = write in PUSHES and "commit" in kind.options.values()
    within = None if is_hidden else stage.seen(kept)
    assert stage.seen() == before
    kept.commit().wait()
    after = stage.seen()
    assert after != before
    assert is_hidden or after == within
    assert_counted(stage.target)
    assert_counted(stage.queue)
