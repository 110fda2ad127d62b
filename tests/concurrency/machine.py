"""Random operations on a queue, each held against what the model says."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from fdb.subspace_impl import Subspace
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fdbqueue.exceptions import ItemNotFound, LeaseLost
from fdbqueue.service import Item, Queue, SeveralQueues
from fdbqueue.service.consume.finding import SeveralGroup
from fdbqueue.service.idempotency import Responses
from fdbqueue.service.storage.tables import TableKeys
from tests.concurrency.census import STATES, rows, unique_keys
from tests.concurrency.clock import Clock
from tests.concurrency.kinds import Kind
from tests.concurrency.model import Entry, Model

MAX_ATTEMPTS = 3

_ENDS = st.sampled_from(["min", "max"])
_COUNTS = st.integers(1, 4)
_SECONDS = st.sampled_from([1, 5, 30])
_DELAYS = st.sampled_from([None, None, 1, 5, 30])
_PICKS = st.integers(0, 9)
_UNIQUE = st.sampled_from(["a", "b"])
_WORKERS = st.sampled_from([None, None, "w1", "w2"])
_REASONS = st.sampled_from(["it broke", "no answer"])


class Directory:
    """Where the machine's queue is found, and one before it that has no items."""

    def __init__(self, kind: Kind, database: Any, subspace: Subspace, queue: Queue) -> None:
        self.database = database
        empty = kind.open(database, Subspace(rawPrefix=subspace.key() + b"\xff\xfe"))
        self.responses = Responses(TableKeys(subspace.key() + b"\xff\xfd"), "several queues")
        self._queues = {"main": queue, "before": empty}

    def queue(self, name: str) -> Queue:
        return self._queues[name]

    def matching(self, patterns: Any) -> Any:
        raise AssertionError(patterns)


class QueueMachine(RuleBasedStateMachine):
    """A queue and its model.

    Args:
        kind: The queue's kind, a strict one. A member is also taken from through its family.
        database: Where it is.
        subspace: Its own place there.
        clock: What the queue takes for the time.
    """

    def __init__(self, kind: Kind, database: Any, subspace: Subspace, clock: Clock) -> None:
        super().__init__()
        self.kind = kind
        self.database = database
        self.clock = clock
        if kind.is_member:
            catalog = kind.family(database, subspace, max_attempts=MAX_ATTEMPTS)
            self.queue = catalog.queue("user-1")
            self.several = catalog.several(["user-*"])
        else:
            self.queue = kind.open(database, subspace, max_attempts=MAX_ATTEMPTS)
            directory = Directory(kind, database, subspace, self.queue)
            group = SeveralGroup(database, lambda name: directory.queue(name).parts.consumer)
            self.several = SeveralQueues(directory, ("before", "main"), group)
        self.model = Model(MAX_ATTEMPTS)
        self.tokens: list[str] = []
        self.ids: dict[str, str] = {}
        self.pushed = 0

    # Comparing

    def _match(self, items: list[Item], entries: list[Entry], state: str) -> None:
        """Check that items are those of the model, in its order."""
        found = [(self.kind.text(item.value), item.priority) for item in items]
        assert found == [(entry.text, entry.priority) for entry in entries]
        for item, entry in zip(items, entries, strict=True):
            is_back = entry.state != state == "ready"
            assert item.attempts == (self.model.attempts(entry) if is_back else entry.attempts)
            assert item.state == state
            assert item.worker == (entry.worker if state == "leased" else None)
            assert (item.died_at is None) == (state != "dead")
            assert item.reason == (entry.reason if state == "dead" else None)
            assert item.id is not None
            assert self.ids.setdefault(self.kind.text(item.value), item.id) == item.id

    def _priority(self, pick: int) -> Any:
        return self.kind.priorities[pick % len(self.kind.priorities)]

    def _next(self) -> str:
        self.pushed += 1
        return str(self.pushed)

    def _picked(self, pick: int) -> tuple[str, Entry | None]:
        """Return the token of some lease, and what it holds."""
        number = max(0, len(self.tokens) - 1 - pick)
        return self.tokens[number], self.model.leased(number + 1)

    # Pushing

    @initialize(picks=st.lists(_PICKS, max_size=8))
    def begin(self, picks: list[int]) -> None:
        self.push_many(picks, None)

    @rule(pick=_PICKS, delay=_DELAYS)
    def push(self, pick: int, delay: int | None) -> None:
        text, priority = self._next(), self._priority(pick)
        item = self.queue.push(self.kind.value(text), priority, delay=delay)
        assert (self.kind.text(item.value), item.priority) == (text, priority)
        self.ids[text] = str(item.id)
        self.model.push(text, priority, (delay or 0) * 1_000_000)

    @rule(pick=_PICKS, delay=_DELAYS, unique=_UNIQUE, is_pending=st.booleans())
    def push_unique(self, pick: int, delay: int | None, unique: str, is_pending: bool) -> None:
        text, priority = self._next(), self._priority(pick)
        entry = self.model.push(
            text, priority, (delay or 0) * 1_000_000, unique, is_pending=is_pending
        )
        unique_while = "pending" if is_pending else "ready"
        item = self.queue.push(
            self.kind.value(text), priority, delay=delay, unique=unique, unique_while=unique_while
        )
        assert item.existing is (entry.text != text)
        self._match([item], [entry], entry.state)

    @rule(picks=st.lists(_PICKS, min_size=1, max_size=5), delay=_DELAYS)
    def push_many(self, picks: list[int], delay: int | None) -> None:
        texts, priorities = [self._next() for _ in picks], [self._priority(n) for n in picks]
        values = [self.kind.value(text) for text in texts]
        pushed = self.queue.push_many(self.kind.pairs(values, priorities), delay=delay)
        assert pushed == len(picks)
        for text, priority in zip(texts, priorities, strict=True):
            self.model.push(text, priority, (delay or 0) * 1_000_000)

    # Popping and peeking

    @rule(end=_ENDS)
    def pop(self, end: str) -> None:
        item = self.queue.pop_min() if end == "min" else self.queue.pop_max()
        self._popped([] if item is None else [item], end, 1)

    @rule(end=_ENDS, count=_COUNTS)
    def pop_many(self, end: str, count: int) -> None:
        self._popped(self.queue.pop_many(count, end=end), end, count)

    def _popped(self, items: list[Item], end: str, count: int) -> None:
        entries = self.model.taken(end, count)
        self._match(items, entries, "ready")
        self.model.take(entries)

    @rule(end=_ENDS, count=_COUNTS)
    def pop_from_several(self, end: str, count: int) -> None:
        items = self.several.pop_many(count, end=end)
        assert {item.queue for item in items} <= {self.queue.name}
        self._popped(items, end, count)

    @rule(end=_ENDS, count=_COUNTS)
    def peek(self, end: str, count: int) -> None:
        self._match(self.queue.peek_many(count, end=end), self.model.ends(end, count), "ready")

    @rule(pick=_PICKS, end=_ENDS)
    def nothing_happens_in_a_dropped_transaction(self, pick: int, end: str) -> None:
        transaction = self.database.create_transaction()
        self.queue.pop_many(2, end=end, tr=transaction)
        self.queue.lease_many(2, end=end, seconds=5, tr=transaction)
        self.queue.push(self.kind.value("never"), self._priority(pick), tr=transaction)
        transaction.cancel()

    # Pausing

    @rule(reason=st.text(max_size=5))
    def pause(self, reason: str) -> None:
        assert self.queue.pause(reason=reason).reason == reason
        self.model.is_paused = True

    @precondition(lambda self: self.model.is_paused)
    @rule()
    def resume(self) -> None:
        assert self.queue.resume()
        self.model.is_paused = False

    # Leasing

    @rule(end=_ENDS, count=_COUNTS, seconds=_SECONDS, worker=_WORKERS)
    def lease(self, end: str, count: int, seconds: int, worker: str | None) -> None:
        self._leased(
            self.queue.lease_many(count, end=end, seconds=seconds, worker=worker),
            *(end, count, seconds, worker),
        )

    @rule(end=_ENDS, count=_COUNTS, seconds=_SECONDS, worker=_WORKERS)
    def lease_from_several(self, end: str, count: int, seconds: int, worker: str | None) -> None:
        self._leased(
            self.several.lease_many(count, end=end, seconds=seconds, worker=worker),
            *(end, count, seconds, worker),
        )

    def _leased(
        self, items: list[Item], end: str, count: int, seconds: int, worker: str | None
    ) -> None:
        entries = self.model.taken(end, count)
        first = len(self.tokens) + 1
        for number, entry in enumerate(entries, first):
            self.model.lease([entry], number, seconds * 1_000_000, worker)
        self._match(items, entries, "leased")
        for item in items:
            assert item.lease is not None
            self.tokens.append(item.lease)

    @precondition(lambda self: self.tokens)
    @rule(pick=_PICKS)
    def ack(self, pick: int) -> None:
        token, entry = self._picked(pick)
        if entry is None:
            with pytest.raises(LeaseLost):
                self.queue.ack(token)
        else:
            self.queue.ack(token)
            self.model.take([entry])

    @precondition(lambda self: self.tokens)
    @rule(picks=st.sets(_PICKS, max_size=4))
    def ack_many(self, picks: set[int]) -> None:
        chosen = dict(self._picked(pick) for pick in picks)
        held = [entry for entry in chosen.values() if entry is not None]
        assert self.queue.ack_many(list(chosen)) == len(held)
        self.model.take(held)

    @precondition(lambda self: self.tokens)
    @rule(pick=_PICKS, delay=_DELAYS, reason=_REASONS)
    def nack(self, pick: int, delay: int | None, reason: str) -> None:
        token, entry = self._picked(pick)
        if entry is None:
            with pytest.raises(LeaseLost):
                self.queue.nack(token, delay=delay, reason=reason)
        else:
            self.queue.nack(token, delay=delay, reason=reason)
            self.model.nack(entry, (delay or 0) * 1_000_000, reason)

    @precondition(lambda self: self.tokens)
    @rule(pick=_PICKS, seconds=_SECONDS)
    def extend(self, pick: int, seconds: int) -> None:
        token, entry = self._picked(pick)
        if entry is None:
            with pytest.raises(LeaseLost):
                self.queue.extend(token, seconds)
        else:
            item = self.queue.extend(token, seconds)
            entry.until = self.model.now + seconds * 1_000_000
            self._match([item], [entry], "leased")

    @rule(seconds=_SECONDS)
    def let_time_pass(self, seconds: int) -> None:
        self.clock.advance(seconds)
        self.model.now += seconds * 1_000_000

    # The dead

    @precondition(lambda self: self.model.held())
    @rule(pick=_PICKS)
    def bury(self, pick: int) -> None:
        ready = self.model.held()
        entry = ready[pick % len(ready)]
        self.queue.bury(self._id(entry))
        self.model.bury(entry, "buried")
        with pytest.raises(ItemNotFound):
            self.queue.bury(self._id(entry))

    @rule(limit=st.sampled_from([None, None, 1, 2]))
    def redrive(self, limit: int | None) -> None:
        dead = self.model.held("dead")
        assert self.queue.redrive(limit=limit) == self.model.redrive(dead, limit)

    @rule(reason=_REASONS, limit=st.sampled_from([None, 1]))
    def redrive_those_of_a_reason(self, reason: str, limit: int | None) -> None:
        dead = [entry for entry in self.model.held("dead") if entry.reason == reason]
        assert self.queue.redrive(reason=reason, limit=limit) == self.model.redrive(dead, limit)

    @precondition(lambda self: any(self.model.counts().values()))
    @rule(pick=_PICKS)
    def remove(self, pick: int) -> None:
        held = [entry for state in STATES for entry in self.model.held(state)]
        entry = held[pick % len(held)]
        item_id = self._id(entry)
        self.queue.remove(item_id)
        self.model.take([entry])
        with pytest.raises(ItemNotFound):
            self.queue.remove(item_id)

    @precondition(lambda self: any(self.model.counts().values()))
    @rule(pick=_PICKS)
    def look_at_one(self, pick: int) -> None:
        held = [entry for state in STATES for entry in self.model.held(state)]
        entry = held[pick % len(held)]
        item = self.queue.get(self._id(entry))
        self._match([item], [entry], entry.state)
        failures = [(one.attempt, one.worker, one.reason) for one in item.failures]
        assert failures == entry.failures

    @precondition(lambda self: self.model.held("dead"))
    @rule(pick=_PICKS)
    def redrive_one(self, pick: int) -> None:
        dead = self.model.held("dead")
        entry = dead[pick % len(dead)]
        assert self.queue.redrive([self._id(entry)]) == self.model.redrive([entry])

    @rule()
    @precondition(lambda self: self.pushed > 15)
    def clear(self) -> None:
        self.queue.clear()
        self.model.take([entry for state in STATES for entry in self.model.held(state)])

    def _id(self, entry: Entry) -> str:
        """Return an item's id, which push_many did not tell."""
        if entry.text not in self.ids:
            for item in rows(self.queue, entry.state):
                self.ids[self.kind.text(item.value)] = str(item.id)
        return self.ids[entry.text]

    # Looking

    @rule(state=st.sampled_from(STATES), end=_ENDS, limit=_COUNTS)
    def page(self, state: str, end: str, limit: int) -> None:
        items: list[Item] = []
        after = None
        while True:
            page = self.queue.page(state=state, end=end, limit=limit, after=after)
            assert len(page.items) <= limit
            items += page.items
            after = page.cursor
            if after is None:
                break
        entries = self.model.held(state)
        self._match(items, entries if end == "min" else entries[::-1], state)

    @invariant()
    def keys_are_of_one_item_each(self) -> None:
        found = set(unique_keys(self.queue).values())
        places = self.queue.parts.store.keys
        assert found == {places.place_named(self._id(one)) for one in self.model.keys.values()}

    @invariant()
    def counts_are_exact(self) -> None:
        counts = self.queue.counts()
        assert {state: getattr(counts, state) for state in STATES} == self.model.counts()
        assert self.queue.size() == counts.ready
        found = self.queue.dead_by_reason()
        assert {one.reason: one.count for one in found} == self.model.reasons()
        if not self.kind.is_fifo:
            assert self.queue.by_priority() == self.model.levels()


def explore(kind: Kind, database: Any, subspace: Subspace, clock: Clock, examples: int) -> None:
    """Run so many random sequences of operations; show the shortest that fails."""
    numbers = itertools.count()
    run_state_machine_as_test(
        lambda: QueueMachine(kind, database, subspace[next(numbers)], clock),
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            database=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
