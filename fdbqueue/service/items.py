"""What queues hand out."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

Priority = int | float

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


@dataclass(frozen=True, slots=True)
class Undecodable:
    """The value of an item that the queue's codec cannot read, in a page of items.

    Attributes:
        raw: The bytes stored.
        reason: Why they cannot be read.
    """

    raw: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a queue, as it was when it was read.

    Attributes:
        value: What was pushed.
        priority: Its priority, of the queue's priority type; None in a FIFO queue.
        id: Names the item in its queue for as long as it is there. Empty for an item pushed
            in commit order in the caller's transaction: only the commit decides it.
        pushed_at: When it was pushed, by the clock of the client that pushed it, in UTC;
            None where the codec keeps no such record.
        attempts: How often it was leased and given up.
        size_bytes: The length of the stored value.
        state: ``"ready"``, ``"leased"``, ``"delayed"`` or ``"dead"``.
        lease: The token to acknowledge, give up or extend the lease with; None but in
            what a lease returned.
        until: When the lease runs out, or the delay; None in other states.
        reason: Why it is dead.
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


class Held(int):
    """How many of some leases were still held, when all were acknowledged, given up or extended.

    Attributes:
        lost: The tokens of those that were not.
    """

    lost: tuple[str, ...]

    def __new__(cls, count: int, lost: Iterable[str] = ()) -> Self:
        """Return a count with the tokens of what it does not count."""
        held = super().__new__(cls, count)
        held.lost = tuple(lost)
        return held


class _NotGiven:
    """The priority of a push that was given none: the queue's own."""

    def __repr__(self) -> str:
        return "NOT_GIVEN"


NOT_GIVEN: Any = _NotGiven()


@dataclass(frozen=True, slots=True)
class Push:
    """One value to push, with what belongs to it.

    Attributes:
        value: What the queue's codec can encode.
        priority: A number of the queue's priority type; 0 where it is not given, and none
            in a FIFO queue.
        delay: For how many seconds to hide it.
        not_before: When to show it, with its time zone, in place of a delay.
    """

    value: Any
    priority: Any = NOT_GIVEN
    delay: float | None = None
    not_before: datetime.datetime | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Some items of a queue, in order.

    Attributes:
        items: The items; the value of one that cannot be decoded is :class:`Undecodable`.
        cursor: Where the next page starts, None where there is nothing more.
    """

    items: list[Item]
    cursor: str | None


def microseconds(time: datetime.datetime) -> int:
    """Return the microseconds since the Unix epoch of a time that knows its zone."""
    return (time - _EPOCH) // datetime.timedelta(microseconds=1)


#: The last moment that a datetime can tell, in microseconds since the Unix epoch.
LAST_MOMENT = microseconds(datetime.datetime.max.replace(tzinfo=datetime.timezone.utc))


def moment(microseconds: int) -> datetime.datetime:
    """Return the UTC time that many microseconds after the Unix epoch."""
    return _EPOCH + datetime.timedelta(microseconds=microseconds)


def first(items: list[Item]) -> Item | None:
    """Return the first item, None where there is none."""
    return items[0] if items else None
