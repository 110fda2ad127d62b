"""Clients that do all that a queue can, at random, and remember what each call returned.

Every value is pushed once. When the queue has been drained, the books must balance: what
was pushed was taken, each value once, under the id that its push returned, with as many
attempts as it was given up.
"""

from __future__ import annotations

import functools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fdbqueue.service import Item, Queue, run, transactions
from tests.concurrency.census import assert_counted
from tests.concurrency.clients import together
from tests.concurrency.kinds import Kind

MAX_ATTEMPTS = 3
_MOST = 4
_DEADLINE_SECONDS = 60


class GaveUpError(Exception):
    """Ends a block that had leased an item."""


class Ledger:
    """What all clients of a queue have done together."""

    def __init__(self) -> None:
        self.pushed: dict[str, str | None] = {}
        self.taken: list[tuple[str, str | None]] = []
        self.redriven = 0
        self._given_up: Counter[str] = Counter()
        self._lock = threading.Lock()

    def push(self, text: str, item_id: str | None = None) -> None:
        """Note a value that was pushed, and the id it was given where that is known."""
        with self._lock:
            self.pushed[text] = item_id

    def take(self, text: str, item_id: str | None) -> None:
        """Note a value that was taken for good."""
        with self._lock:
            self.taken.append((text, item_id))

    def give_up(self, text: str) -> None:
        """Note, before it happens, that a leased item is given up."""
        with self._lock:
            self._given_up[text] += 1

    def redrive(self, count: int) -> None:
        """Note how many dead letters were put back."""
        with self._lock:
            self.redriven += count

    def attempts(self, text: str) -> int:
        """Return the attempts of an item; they start again when it is redriven."""
        return self._given_up[text] % MAX_ATTEMPTS

    def balance(self) -> None:
        """Check that all that was pushed was taken once, and died as often as it should."""
        taken = Counter(text for text, _ in self.taken)
        lost = sorted(set(self.pushed) - set(taken))
        twice = sorted(text for text, count in taken.items() if count > 1)
        assert (lost, twice, set(taken) - set(self.pushed)) == ([], [], set())
        for text, item_id in self.taken:
            assert self.pushed[text] in {None, item_id}
        assert self.redriven == sum(n // MAX_ATTEMPTS for n in self._given_up.values())


class Client:
    """One client of a queue.

    Args:
        kind: The queue's kind.
        queue: The queue, made with ``max_attempts=MAX_ATTEMPTS``.
        ledger: Where it notes what it does.
        name: Different for each client.
        seed: Of its dice.
    """

    def __init__(self, kind: Kind, queue: Queue, ledger: Ledger, name: object, seed: int) -> None:
        self._kind = kind
        self._queue = queue
        self._ledger = ledger
        self._name = name
        self._dice = random.Random(f"{seed} {name}")
        self._count = 0
        self._operations = [
            *(self._push, self._push, self._push, self._push_many, self._push_delayed),
            *(self._push_unique, self._push_unique),
            *(self._pop, self._pop, self._pop_many, self._lease, self._lease, self._lease_many),
            *(
                self._lease_one_after_another,
                self._lease_one_after_another,
                self._leased,
                self._replace,
                self._redrive,
            ),
            *(self._push_again, self._pop_again, self._lease_again),
        ]

    def work(self, operations: int) -> None:
        """Do so many operations."""
        for _ in range(operations):
            self._dice.choice(self._operations)()

    # Pushing

    def _text(self) -> str:
        self._count += 1
        return f"{self._name}-{self._count}"

    def _priority(self) -> Any:
        return self._dice.choice(self._kind.priorities)

    def _push(self, **options: Any) -> None:
        text, priority = self._text(), self._priority()
        item = self._queue.push(self._kind.value(text), priority, **options)
        assert (self._kind.text(item.value), item.priority) == (text, priority)
        assert item.id is not None
        self._ledger.push(text, item.id)

    def _push_delayed(self) -> None:
        self._push(delay=0.001)

    def _push_unique(self) -> None:
        """Push under one of few keys, perhaps several times under one idempotency key."""
        text, priority = self._text(), self._priority()
        push = self._dice.choice(
            [self._queue.push, functools.partial(self._again, self._queue.push)]
        )
        item = push(
            self._kind.value(text),
            priority,
            delay=self._dice.choice([None, None, 0.001]),
            unique=self._dice.choice("abcd"),
            unique_while=self._dice.choice(["ready", "pending"]),
        )
        assert item.existing is (self._kind.text(item.value) != text)
        if not item.existing:
            self._ledger.push(text, item.id)

    def _push_many(self) -> None:
        texts = [self._text() for _ in range(self._dice.randint(1, _MOST))]
        values = [self._kind.value(text) for text in texts]
        pairs = self._kind.pairs(values, [self._priority() for _ in texts])
        assert self._queue.push_many(pairs) == len(texts)
        for text in texts:
            self._ledger.push(text)

    # Taking

    def _taken(self, items: Iterable[Item | None]) -> None:
        for item in items:
            if item is not None:
                text = self._kind.text(item.value)
                assert item.attempts == self._ledger.attempts(text)
                self._ledger.take(text, item.id)

    def _pop(self) -> None:
        pop = self._dice.choice([self._queue.pop, self._queue.pop_min, self._queue.pop_max])
        self._taken([pop(wait=self._dice.choice([None, None, 0.001]))])

    def _pop_many(self) -> None:
        count, end = self._dice.randint(1, _MOST), self._dice.choice(["min", "max"])
        items = self._queue.pop_many(count, end=end)
        assert len(items) <= count
        self._taken(items)

    def _replace(self) -> None:
        """Pop an item and push another in one transaction of the client's own."""
        text, priority = self._text(), self._priority()

        def replace(tr: Any) -> Item | None:
            item = self._queue.pop(tr=tr)
            self._queue.push(self._kind.value(text), priority, tr=tr)
            return item

        popped = run(self._queue.database, replace)
        self._ledger.push(text)
        self._taken([popped])

    # Leasing

    def _lease(self) -> None:
        lease = self._dice.choice([self._queue.lease_min, self._queue.lease_max])
        item = lease(seconds=60)
        if item is not None:
            self._end(item)

    def _lease_many(self) -> None:
        items = self._queue.lease_many(self._dice.randint(1, _MOST), seconds=60)
        if self._dice.random() < 0.5:
            assert self._queue.ack_many(items) == len(items)
            self._taken(items)
        else:
            for item in items:
                self._end(item)

    def _lease_one_after_another(self) -> None:
        """Acknowledge each item in the transaction that leases the next, as workers do."""
        done: list[Item] = []
        end = self._dice.choice(["min", "max"])
        for _ in range(self._dice.randint(2, _MOST)):
            items = self._queue.lease_many(1, seconds=60, end=end, ack=done)
            self._taken(done)
            done = items
        for item in done:
            self._end(item)

    def _end(self, item: Item) -> None:
        text = self._kind.text(item.value)
        assert item.attempts == self._ledger.attempts(text)
        if self._dice.random() < 0.3:
            item = self._queue.extend(item, seconds=90)
            assert self._kind.text(item.value) == text
        if self._dice.random() < 0.4:
            self._queue.ack(self._dice.choice([item, item.lease]))
            self._taken([item])
        else:
            self._ledger.give_up(text)
            self._queue.nack(item, delay=self._dice.choice([None, 0.001]))

    def _leased(self) -> None:
        gives_up = self._dice.random() < 0.5
        try:
            with self._queue.leased(seconds=60) as item:
                if item is not None and gives_up:
                    self._ledger.give_up(self._kind.text(item.value))
                    raise GaveUpError
        except GaveUpError:
            return
        self._taken([item])

    def _redrive(self) -> None:
        self._ledger.redrive(self._queue.redrive(limit=_MOST))

    # Under a key

    def _again(self, operation: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call once, or more often, as who has heard no answer; return the one answer."""
        self._count += 1
        key = f"{self._name}-{self._count}"
        answers = [
            operation(*arguments, **options, once=key) for _ in range(self._dice.randint(1, 3))
        ]
        assert answers == answers[:1] * len(answers)
        return answers[0]

    def _push_again(self) -> None:
        text = self._text()
        item = self._again(self._queue.push, self._kind.value(text), self._priority())
        self._ledger.push(text, item.id)

    def _pop_again(self) -> None:
        count, end = self._dice.randint(1, _MOST), self._dice.choice(["min", "max"])
        self._taken(self._again(self._queue.pop_many, count, end=end))

    def _lease_again(self) -> None:
        for item in self._again(self._queue.lease_many, self._dice.randint(1, _MOST), seconds=60):
            self._end(item)

    # In the end

    def drain(self) -> None:
        """Take all that is left, and check the counts on the way."""
        give_up_at = time.monotonic() + _DEADLINE_SECONDS
        assert_counted(self._queue)
        while True:
            self._ledger.redrive(self._queue.redrive())
            items = self._queue.pop_many(100)
            self._taken(items)
            held = assert_counted(self._queue)
            if not items and not any(held.values()):
                return
            assert time.monotonic() < give_up_at, held


def work_and_check(
    kind: Kind,
    databases: Sequence[Any],
    subspace: Any,
    *,
    threads: int,
    operations: int,
    seed: int,
    deadline_seconds: float = 120,
) -> None:
    """Let threads work on one queue through several databases, then drain it and check.

    Their receipts are in ``subspace["receipts"]``.
    """
    ledger = Ledger()
    clients = []
    for database in databases:
        transactions.keep_receipts_at(database, subspace["receipts"])
    for number in range(threads):
        database = databases[number % len(databases)]
        queue = kind.open(database, subspace["queue"], max_attempts=MAX_ATTEMPTS)
        clients.append(Client(kind, queue, ledger, number, seed))
    together(
        threads,
        lambda number: clients[number].work(operations),
        deadline_seconds=deadline_seconds,
    )
    clients[0].drain()
    ledger.balance()
    minutes = queue.history(minutes=1_440)
    assert sum(minute.pushes for minute in minutes) == len(ledger.pushed)
    assert sum(minute.pops for minute in minutes) == len(ledger.taken)
