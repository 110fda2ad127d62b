"""Items, pages of items, and the other values that queues take and return."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

Priority = int | float
#: How long something lasts: a number of seconds, or a ``timedelta``.
Duration = float | datetime.timedelta


@dataclass(frozen=True, slots=True)
class Undecodable:
    """The value, in a page of items, of an item that the queue's codec cannot decode.

    Attributes:
        raw: The stored bytes.
        reason: Why the codec cannot decode them.
    """

    raw: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt at an item: its lease was given up, or expired.

    Attributes:
        at: When that was, in UTC: when its lease was given up, by the clock of the client that did
            so, or expired.
        worker: The name that the worker gave with its lease; None if it gave none.
        reason: Why.
        attempt: Which attempt it was, the first being 1.
        leased_at: When the lease began, by the clock of the client that leased it; None if that is
            not known.
    """

    at: datetime.datetime
    worker: str | None
    reason: str
    attempt: int
    leased_at: datetime.datetime | None = None


@dataclass(frozen=True, slots=True)
class DeadReason:
    """The dead letters that died of one reason.

    Attributes:
        reason: The first line of the reason, at most 200 characters of it.
        count: How many there are.
    """

    reason: str
    count: int


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a queue, as it was when it was read.

    Attributes:
        value: The pushed value.
        priority: The priority, of the queue's priority type; None in a FIFO queue.
        id: Names the item as long as it is in its queue. Empty for an item pushed in commit
            order in the caller's transaction, because only the commit decides it.
        pushed_at: When it was pushed, in UTC, by the clock of the client that pushed it;
            None when the codec does not store that.
        attempts: How many leases of it were given up or expired.
        size_bytes: The length of the stored value.
        state: ``"ready"``, ``"leased"``, ``"delayed"`` or ``"dead"``.
        lease: The token to acknowledge, give up or extend the lease with; None unless a lease
            returned the item.
        until: When the lease or the delay expires; None in other states.
        reason: Why it is dead.
        existing: Whether a push under a unique key has found it, and pushed nothing.
        queue: The name of its queue.
        died_at: When it became dead, in UTC, by the clock of the client that did that; None in
            other states.
        worker: The name of the worker that holds its lease; None if it gave none, and in
            other states.
        leased_at: When its lease began, by the clock of the client that leased it; extending it
            changes nothing. None in other states, and if leasing or extending returned the item.
        failures: The last three failed attempts at it, the latest last. Read by
            ``Queue.get``, and for dead items by ``Queue.page``; empty if another verb
            returned the item.
    """

    value: Any
    priority: Priority | None
    id: str
    pushed_at: datetime.datetime | None = None
    attempts: int = 0
    size_bytes: int = 0
    state: str = "ready"
    lease: str | None = None
    until: datetime.datetime | None = None
    reason: str | None = None
    existing: bool = False
    queue: str = ""
    died_at: datetime.datetime | None = None
    worker: str | None = None
    failures: tuple[Failure, ...] = ()
    leased_at: datetime.datetime | None = None


class Held(int):
    """The number of leases that were still held when they were acknowledged, given up or extended.

    Attributes:
        lost: The tokens of the other leases.
    """

    lost: tuple[str, ...]

    def __new__(cls, count: int, lost: Iterable[str] = ()) -> Self:
        """Return a count of held leases, with the tokens of the lost ones."""
        held = super().__new__(cls, count)
        held.lost = tuple(lost)
        return held


class _NotGiven:
    """The priority of a push that names none; the queue has a default."""

    def __repr__(self) -> str:
        return "NOT_GIVEN"


NOT_GIVEN: Any = _NotGiven()


@dataclass(frozen=True, slots=True)
class Push:
    """A value to push, with its priority and delay.

    Attributes:
        value: A value that the queue's codec can encode.
        priority: A number of the queue's priority type, 0 by default; not for a FIFO queue.
        delay: For how long to hide the item: seconds, or a ``timedelta``.
        not_before: The time, with its zone, until which to hide the item; in place of
            ``delay``.
        unique: A key that at most one item of the queue has at a time; None for none.
        unique_while: How long the item has its key: ``"ready"``, until it is taken, or
            ``"pending"``, until it is done: popped, acknowledged, dead or removed.
    """

    value: Any
    priority: Any = NOT_GIVEN
    delay: Duration | None = None
    not_before: datetime.datetime | None = None
    unique: str | None = None
    unique_while: str = "pending"


@dataclass(frozen=True, slots=True)
class Page:
    """Some items of a queue, in order.

    Attributes:
        items: The items; the value of one that cannot be decoded is :class:`Undecodable`.
        cursor: Where the next page starts, None on the last page.
    """

    items: list[Item]
    cursor: str | None
