"""The facts of a family: its name, how many members have something, and their sums.

A :class:`FamilyRow` has what the columns of queues show, so that these are not described again.
"""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from typing import Any, NamedTuple

from django.utils.translation import gettext_lazy as _

from fdbqueue.columns import NOTHING, Column, ValueKind
from fdbqueue.columns.queue_rows import QueueRow
from fdbqueue.columns.queues import FIGURES, NAME, pause_record, paused_text
from fdbqueue.columns.text import grouped
from fdbqueue.service import Counts, Family, Pause

#: A family counts at most so many of its members, and adds up no others.
MAX_MEMBERS = 1_000
_NO_COUNTS = Counts(0, 0, 0, 0)


class Members(NamedTuple):
    """How many members were found, and whether these are all."""

    number: int
    is_all: bool

    @classmethod
    def of(cls, names: Sequence[str]) -> Members:
        """Return how many there are of names, of which one more than are counted was asked for."""
        return cls(min(len(names), MAX_MEMBERS), len(names) <= MAX_MEMBERS)

    def as_text(self, write: Callable[[int], str] = "{:,}".format) -> str:
        """Return the number as text, ``1,000+`` if there are more."""
        return write(self.number) + ("" if self.is_all else "+")


@dataclass(slots=True)
class FamilyRow:
    """A family, how many of its members have something, and the sums of the members that were read.

    Attributes:
        queue: The family: what columns of queues call the queue.
        members: How many members have something.
        address: The address of its page.
        counts, oldest, pushes, pops: As of a queue: sums, and the oldest of all.
        pause: Since when and why the family itself is paused, None if it is not.
        paused: How many of the members are paused, by themselves or with it.
        blocked: How many have an end that is blocked.
    """

    queue: Family
    members: Members
    address: str = ""
    counts: Counts = _NO_COUNTS
    oldest: datetime.datetime | None = None
    pushes: float = 0
    pops: float = 0
    pause: Pause | None = None
    paused: int = 0
    blocked: int = 0

    def add(self, row: QueueRow) -> None:
        """Add a member."""
        self.counts = Counts(*map(operator.add, astuple(self.counts), astuple(row.counts)))
        if row.oldest is not None:
            self.oldest = row.oldest if self.oldest is None else min(self.oldest, row.oldest)
        self.pushes += row.pushes
        self.pops += row.pops
        self.paused += row.pause is not None
        self.blocked += bool(row.ends.undecodable)


def family_row(family: Family, tr: Any, *, with_later: bool = False) -> tuple[FamilyRow, list[str]]:
    """Read the facts of a family itself, and the names of its members that have something.

    Args:
        family: The family.
        tr: The transaction.
        with_later: Whether those are meant, too, that have something later.

    Returns:
        The row, and of the names one more than are counted if there are more.
    """
    pause = family.begin_paused(tr)
    names = family.with_something(tr, MAX_MEMBERS + 1, with_later=with_later)
    return FamilyRow(family, Members.of(names), pause=pause()), names


MEMBERS = Column[FamilyRow](
    "members",
    _("Members with items"),
    lambda row: row.members,
    ValueKind(
        written=lambda members: members.as_text(grouped), cell=Members.as_text, is_number=True
    ),
    label="MEMBERS",
    fields=lambda members: {"members": members.number, "complete": members.is_all},
)


def _status(row: FamilyRow) -> str:
    found = (("blocked", row.blocked), ("paused", 0 if row.pause else row.paused))
    words = [f"{count:,} {word}" for word, count in found if count]
    paused = [paused_text(row.pause)] if row.pause else []
    return ", ".join([*paused, *words]) or NOTHING


STATUS = Column[FamilyRow](
    "status",
    _("Status"),
    lambda row: row,
    ValueKind(cell=_status),
    fields=lambda row: {
        "blocked": row.blocked,
        "paused": row.paused,
        "pause": pause_record(row.pause),
    },
    alarm=lambda row: "bad" if row.blocked else "warning" if row.pause or row.paused else "",
)

#: What ``queue_list`` says of a family.
COMMAND_FAMILY_FIGURES: tuple[Column[Any], ...] = (NAME, MEMBERS, *FIGURES, STATUS)
