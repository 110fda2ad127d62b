"""What is said of a family: its name, how many members have something, and their sums.

A :class:`FamilyRow` has what the columns of queues show, so that these are not described again.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.utils.translation import gettext_lazy as _

from fdbqueue.columns import Column, Kind
from fdbqueue.columns.queues import FIGURES, KIND, NAME, QueueRow
from fdbqueue.columns.text import grouped
from fdbqueue.service import Counts, Family

#: A family counts at most so many of its members, and adds up no others.
MOST_MEMBERS = 1_000
_NO_COUNTS = Counts(0, 0, 0, 0)


class Members(NamedTuple):
    """How many members were found, and whether these are all."""

    number: int
    is_all: bool

    @classmethod
    def of(cls, names: Sequence[str]) -> Members:
        """Return how many there are of names, of which one more than are counted was asked for."""
        return cls(min(len(names), MOST_MEMBERS), len(names) <= MOST_MEMBERS)

    def as_text(self, write: Callable[[int], str] = "{:,}".format) -> str:
        """Return the number as text, ``1,000+`` if there are more."""
        return write(self.number) + ("" if self.is_all else "+")


@dataclass(slots=True)
class FamilyRow:
    """A family, how many of its members have something, and the sums of those that were read.

    Attributes:
        queue: The family: what columns of queues call the queue.
        members: How many members have something.
        address: The address of its page.
        counts, oldest, pushes, pops: As of a queue: sums, and the oldest of all.
        paused: How many of the members are paused.
        blocked: How many have an end that is blocked.
    """

    queue: Family
    members: Members
    address: str = ""
    counts: Counts = _NO_COUNTS
    oldest: datetime.datetime | None = None
    pushes: float = 0
    pops: float = 0
    paused: int = 0
    blocked: int = 0

    def add(self, row: QueueRow) -> None:
        """Add a member."""
        self.counts = Counts(
            self.counts.ready + row.counts.ready,
            self.counts.leased + row.counts.leased,
            self.counts.delayed + row.counts.delayed,
            self.counts.dead + row.counts.dead,
        )
        if row.oldest is not None:
            self.oldest = row.oldest if self.oldest is None else min(self.oldest, row.oldest)
        self.pushes += row.pushes
        self.pops += row.pops
        self.paused += row.pause is not None
        self.blocked += bool(row.ends.undecodable)


MEMBERS = Column[FamilyRow](
    name="members",
    heading=_("Members with items"),
    label="MEMBERS",
    value=lambda row: row.members,
    kind=Kind(
        written=lambda members: members.as_text(grouped), cell=Members.as_text, is_number=True
    ),
    fields=lambda members: {"members": members.number, "complete": members.is_all},
)


def _status(row: FamilyRow) -> str | None:
    found = (("blocked", row.blocked), ("paused", row.paused))
    return ", ".join(f"{count:,} {word}" for word, count in found if count) or None


STATUS = Column[FamilyRow](
    name="status",
    heading=_("Status"),
    value=lambda row: row,
    kind=Kind(cell=lambda row: _status(row) or "-"),
    fields=lambda row: {"blocked": row.blocked, "paused": row.paused},
    alarm=lambda row: "bad" if row.blocked else "warning" if row.paused else "",
)

#: What the list of queues and ``queue_list --family`` say of a family, and ``queue_stats``.
LISTED_FAMILIES: tuple[Column[Any], ...] = (NAME, KIND, MEMBERS)
FAMILY_STATS: tuple[Column[Any], ...] = (NAME, MEMBERS, *FIGURES, STATUS)
