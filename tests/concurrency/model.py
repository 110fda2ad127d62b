"""A queue as its documents describe it, in plain Python: what the real one is held against."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.concurrency.census import STATES


@dataclass
class Entry:
    """An item: its place is its priority, then when it was pushed.

    Attributes:
        text: Its value.
        priority: Its priority, None in a FIFO queue.
        number: The how-many-eth push it was.
        state: As the queue's pages call it.
        attempts: How often it was leased and given up.
        until: When it comes back, in microseconds, where it is leased or delayed.
        lease: The number of the lease that holds it.
        unique: Its unique key, None for none.
        is_pending: Whether it keeps the key until it is done.
        worker: Who holds it, or held it last.
        failures: The attempt, the worker and the reason of each failure.
        reason: Why it died the last time.
    """

    text: str
    priority: Any
    number: int
    state: str = "ready"
    attempts: int = 0
    until: int = 0
    lease: int = 0
    unique: str | None = None
    is_pending: bool = True
    worker: str | None = None
    failures: list[tuple[int, str | None, str]] = field(default_factory=list)
    reason: str = ""

    def fail(self, reason: str) -> None:
        """Note that an attempt failed."""
        self.attempts += 1
        self.failures = [*self.failures, (self.attempts, self.worker, reason)][-3:]
        self.reason = reason

    @property
    def place(self) -> tuple[Any, int]:
        """What it is ordered by."""
        return (0 if self.priority is None else self.priority, self.number)


class Model:
    """All items of a queue.

    What has fallen due comes back when somebody consumes, not before; a look at the ends
    shows it all the same.

    Args:
        max_attempts: How many attempts make an item dead.
    """

    def __init__(self, max_attempts: int | None) -> None:
        self.now = 0
        self._max_attempts = max_attempts
        self._entries: list[Entry] = []
        #: Whether consumers find nothing.
        self.is_paused = False
        self._numbers = 0
        #: Which item has a unique key.
        self.keys: dict[str, Entry] = {}

    # Looking

    def held(self, state: str = "ready") -> list[Entry]:
        """Return the items in a state, in the order of their places."""
        found = [entry for entry in self._entries if entry.state == state]
        return sorted(found, key=lambda entry: entry.place)

    def counts(self) -> dict[str, int]:
        """Return how many items are in each state."""
        found = Counter(entry.state for entry in self._entries)
        return {state: found[state] for state in STATES}

    def reasons(self) -> dict[str, int]:
        """Return how many items died of each reason."""
        return dict(Counter(entry.reason for entry in self.held("dead")))

    def levels(self) -> list[tuple[Any, int]]:
        """Return how many items of each priority are ready."""
        return sorted(Counter(entry.priority for entry in self.held()).items())

    def ends(self, end: str, count: int) -> list[Entry]:
        """Return what a consumer would find at one end now."""
        found = [entry for entry in self._entries if self._state(entry) == "ready"]
        found.sort(key=lambda entry: entry.place, reverse=end == "max")
        return found[:count]

    def attempts(self, entry: Entry) -> int:
        """Return the attempts that an item has when it has come back."""
        return entry.attempts + (entry.state == "leased" and entry.until <= self.now)

    # Pushing and consuming

    def push(
        self,
        text: str,
        priority: Any,
        delay_us: int = 0,
        unique: str | None = None,
        *,
        is_pending: bool = True,
    ) -> Entry:
        """Put an item behind those of its priority, unless another has its key; return either."""
        if unique in self.keys:
            return self.keys[unique]
        self._numbers += 1
        entry = Entry(text, priority, self._numbers, unique=unique, is_pending=is_pending)
        if unique is not None:
            self.keys[unique] = entry
        if delay_us:
            entry.state, entry.until = "delayed", self.now + delay_us
        self._entries.append(entry)
        return entry

    def free(self, entry: Entry) -> None:
        """Free the key of an item, if it has one."""
        if entry.unique is not None and self.keys.get(entry.unique) is entry:
            del self.keys[entry.unique]

    def consume(self) -> None:
        """Let everything come back that has fallen due."""
        for entry in [] if self.is_paused else self._entries:
            state = self._state(entry)
            if self.attempts(entry) > entry.attempts:
                entry.fail("its lease expired")
            entry.state = state
            if state == "dead":
                self.free(entry)

    def taken(self, end: str, count: int) -> list[Entry]:
        """Return what a consumer takes at one end now."""
        self.consume()
        return [] if self.is_paused else self.ends(end, count)

    def take(self, entries: Iterable[Entry]) -> None:
        """Remove items for good."""
        for entry in list(entries):
            self._entries.remove(entry)
            self.free(entry)

    def lease(
        self, entries: Iterable[Entry], lease: int, lasting_us: int, worker: str | None
    ) -> None:
        """Hide ready items."""
        for entry in entries:
            entry.worker = worker
            entry.state, entry.lease, entry.until = "leased", lease, self.now + lasting_us
            if not entry.is_pending:
                self.free(entry)

    def leased(self, lease: int) -> Entry | None:
        """Return the item that a lease still holds."""
        for entry in self._entries:
            if entry.state == "leased" and entry.lease == lease:
                return entry
        return None

    def nack(self, entry: Entry, delay_us: int, reason: str) -> None:
        """Give a leased item up."""
        entry.fail(reason)
        if self._dies(entry.attempts):
            self.bury(entry, reason)
        elif delay_us:
            entry.state, entry.until = "delayed", self.now + delay_us
        else:
            entry.state = "ready"

    def bury(self, entry: Entry, reason: str) -> None:
        """Make an item a dead letter."""
        entry.state, entry.reason = "dead", reason
        self.free(entry)

    def redrive(self, entries: Iterable[Entry], limit: int | None = None) -> int:
        """Put dead letters back, but for those whose key another item has; count them."""
        count = 0
        for entry in entries:
            if count == limit:
                break
            if entry.unique is None or self.keys.setdefault(entry.unique, entry) is entry:
                entry.state, entry.attempts, entry.failures = "ready", 0, []
                count += 1
        return count

    def _state(self, entry: Entry) -> str:
        """Return the state of an item once what has fallen due is done."""
        if entry.state not in {"leased", "delayed"} or entry.until > self.now:
            return entry.state
        if entry.state == "leased" and self._dies(entry.attempts + 1):
            return "dead"
        return "ready"

    def _dies(self, attempts: int) -> bool:
        return self._max_attempts is not None and attempts >= self._max_attempts
