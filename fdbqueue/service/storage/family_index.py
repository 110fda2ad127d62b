r"""The keys of the index of a family: which of its members may have something to take, and when.

A *family* is a pattern; its *members* are the queues of a catalog that fit it. Its index has a byte
for each table:

    00  CLOCK    moment, name                a row LATER was worked out from a clock that said this
    01  READY    2 bytes of a hash, name     it may have something to take now
        HELD     limit, level, hash, name    it has, but not for a limit of that level
    02  LATER    moment, name                it may have something to take from then on
    03  WAKE     0 to 15                     changed with each row that is written for news
    04  PAUSED                               since when no member gives anything, and why
    05  LIMITED                              whether the end of a lease is news

HELD is within READY, after all names, which have no byte 255.

After every commit a member that has something to take now has a row READY, or LATER of a moment
that is over, or, if a limit keeps its items back, HELD. One that will have something at a moment
has READY, or LATER of that moment or before. A row too many costs one look.

Who gives a member something new writes its row without a read. Only a take from the family removes
rows, and depends on those, also on one that it wrote itself. Who writes HELD depends on READY, and
clears it; the end of a lease depends on LIMITED. While PAUSED, which each take from a member reads,
no row is removed.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

from fdbqueue.engines.protocols import SnapshotTransaction, Transaction
from fdbqueue.service.clock import MAX_AHEAD_US, now_us
from fdbqueue.service.options import Rate
from fdbqueue.service.storage.item_keys import Bounds

_CLOCK, _READY, _LATER, _WAKE = b"\x00", b"\x01", b"\x02", b"\x03"
_PAUSED, _LIMITED = b"\x04", b"\x05"
_HELD = _READY + b"\xff\xff\xff"
_MOMENT = _LEVEL = struct.Struct(">Q")
_HASH_BYTES = 2
#: A waiter watches so many keys, and each member changes one of them.
_WAKES = 16
_ONE = (1).to_bytes(8, "little")
#: Moments that writers note are rounded down to the second, so that a member whose items are
#: delayed by any moments has one row for each second at most.
_NEWS_ROUNDED_US = 1_000_000
#: The limits that keep items back.
BY_LEASES, BY_RATE = b"\x01", b"\x02"


class Levels(NamedTuple):
    """How far the limits go that a process knows for the members of a family.

    Attributes:
        leased: The most items that are leased at a time; None for no limit.
        rate: The most items that are taken in a day; None for no limit.
    """

    leased: int | None
    rate: int | None

    @classmethod
    def of(cls, max_leased: int | None, rate: Rate | None) -> Levels:
        """Return the levels of limits that a queue has."""
        return cls(max_leased, None if rate is None else rate.items_a_day)


NO_LIMITS = Levels(None, None)
#: Of limits that are stored, each member's in a row that all processes read.
STORED = Levels(2**63, 2**63)


class Hold(NamedTuple):
    """What keeps ready items back: which limit, and its level.

    ``max_leased`` holds leases alone; its level is itself, and that of a rate how many items it
    takes in a day. A consumer with a higher limit, or with none, looks at the member; if that is
    held nevertheless, it writes the row at its own level, which is higher. If one process has but a
    rate, another but ``max_leased``, they undo each other's rows.
    """

    limit: bytes
    level: int


class Prospect(NamedTuple):
    """When a queue, or a family, has something to take.

    Attributes:
        moment: From when on, in microseconds; 0 for now, None for never.
        since: When a moment that depends on the present clock was worked out at the latest; None
            for a moment that is stored elsewhere.
        hold: What keeps ready items back until then; None for nothing.
        watch: The keys of which one changes if there is something sooner; empty for none.
    """

    moment: int | None
    since: int | None = None
    hold: Hold | None = None
    watch: tuple[bytes, ...] = ()

    @property
    def is_now(self) -> bool:
        """Whether there may be something now."""
        return self.moment is not None and self.moment <= now_us()


NOW, NEVER = Prospect(0), Prospect(None)


class IndexRow(NamedTuple):
    """A row of the index.

    Attributes:
        name: The member's name.
        moment: From when it may have something; 0 for now.
        key: The row's key.
        passing: The keys that go once the member was looked at because of this row.
        hold: What keeps its items back from some; None for nothing.
    """

    name: str
    moment: int
    key: bytes
    passing: tuple[bytes, ...] = ()
    hold: Hold | None = None


class FamilyKeys:
    """The keys of one family's index.

    Args:
        prefix: The bytes of its subspace.
        family: The family's name.
        levels: How far the limits of its members go, as this process knows them.

    Attributes:
        family: As given.
        levels: As given.
        paused: The key that says that the family is paused.
        limited: The key that says that the end of a lease is news.
        wakes: The keys that a waiter watches.
        bounds: The range of all rows but those of CLOCK.
    """

    def __init__(self, prefix: bytes, family: str, levels: Levels = NO_LIMITS) -> None:
        self.family = family
        self.levels = levels
        self.paused, self.limited = prefix + _PAUSED, prefix + _LIMITED
        self._clock, self._held = prefix + _CLOCK, prefix + _HELD
        self._ready, self._later = prefix + _READY, prefix + _LATER
        self.wakes = tuple(prefix + _WAKE + bytes((number,)) for number in range(_WAKES))
        self.bounds = prefix + _READY, prefix + _WAKE

    def member(self, name: str) -> Member:
        """Return the rows of a member."""
        return Member(self, name)

    def ready_at(self, hashed: bytes) -> bytes:
        """Return the key of READY at which the members with a hash begin."""
        return self._ready + hashed

    def open_ranges(self, now: int, *, to_lease: bool) -> list[Bounds]:
        """Return the ranges, in order, of the members that may have something to take now.

        But for those that have it because a moment of LATER is over. A member may be in them twice.

        Args:
            now: The present, in microseconds.
            to_lease: Whether it is to be leased: then ``max_leased`` counts, too.
        """
        leased, rate = self.levels
        first = self._clock + _MOMENT.pack(now + MAX_AHEAD_US + 1)
        stop = self._later if rate is None else self._held + BY_RATE + _LEVEL.pack(rate)
        if not to_lease or leased is None:
            return [(first, stop)]
        below = self._held + BY_LEASES + _LEVEL.pack(leased)
        return [(first, below), (self._held + BY_RATE, stop)]

    def later(self, since: bytes | None, until: int) -> Bounds:
        """Return the range of the rows LATER after a key, up to a moment."""
        begin = self._later if since is None else since + b"\x00"
        return begin, self._later + _MOMENT.pack(until + 1)

    def later_at(self, moment: int) -> bytes:
        """Return what the key of a row LATER begins with."""
        return self._later + _MOMENT.pack(moment)

    def clock_at(self, since: bytes, name: bytes) -> bytes:
        """Return the key of a row CLOCK."""
        return self._clock + since + name

    @property
    def all_held(self) -> Bounds:
        """The range of the rows HELD."""
        return self._held, self._later

    def first_later(self, tr: SnapshotTransaction) -> Any:
        """Begin to read the first row LATER."""
        return tr.get_range(self._later, self.wakes[0], limit=1)

    def rows(self, found: Iterable[Any]) -> Iterable[IndexRow]:
        """Yield the rows that were read, in whichever table."""
        for row in found:
            key = bytes(row.key)
            if key.startswith(self._held):
                yield self._held_row(key)
            elif key.startswith(self._ready):
                yield IndexRow(_text(key[len(self._ready) + _HASH_BYTES :]), 0, key)
            elif key.startswith((self._later, self._clock)):
                yield self._moment_row(key, bytes(row.value))

    def _held_row(self, key: bytes) -> IndexRow:
        at = len(self._held) + len(BY_RATE)
        (level,) = _LEVEL.unpack_from(key, at)
        name = _text(key[at + _LEVEL.size + _HASH_BYTES :])
        return IndexRow(name, 0, key, (key,), Hold(key[at - len(BY_RATE) : at], level))

    def _moment_row(self, key: bytes, value: bytes) -> IndexRow:
        """Return a row of LATER or of CLOCK; its value is the moment of the row of the other."""
        at = len(self._later)
        (moment,) = _MOMENT.unpack_from(key, at)
        name = key[at + _MOMENT.size :]
        if len(value) != _MOMENT.size:
            return IndexRow(_text(name), moment, key, (key,))
        if key.startswith(self._later):
            return IndexRow(_text(name), moment, key, (key, self._clock + value + name))
        moment = _MOMENT.unpack(value)[0]
        return IndexRow(_text(name), moment, key, (key, self._later + value + name))


class Member:
    """The rows of one member in the index of its family.

    Attributes:
        family: The family's name.
        paused: The key that says that the family is paused.
        ready: The key that says that it may have something to take now.
        gives_at_end: Whether this process knows that the end of a lease is news, because a limit
            of the member keeps the rest back.
    """

    __slots__ = ("_keys", "_name", "_noted", "_wake", "family", "gives_at_end", "paused", "ready")

    def __init__(self, keys: FamilyKeys, name: str) -> None:
        self._keys = keys
        self._name = name.encode()
        digest = hashlib.blake2b(self._name, digest_size=_HASH_BYTES).digest()
        self._wake = keys.wakes[digest[-1] % _WAKES]
        self.family = keys.family
        self.paused = keys.paused
        self.ready = keys.ready_at(digest) + self._name
        self.gives_at_end = False
        #: The row LATER of a stored moment that this process has written last. Only a hint.
        self._noted: tuple[bytes, ...] = ()

    def announce(self, tr: Transaction, moment: int) -> None:
        """Write that there may be something to take from a moment on, and wake poppers.

        Nothing is read, and nothing but what reads the row can conflict.

        Args:
            tr: The transaction that makes it so.
            moment: From when, in microseconds; 0 for now.
        """
        _add_row(tr, self.ready if moment == 0 else self._at(moment - moment % _NEWS_ROUNDED_US))
        tr.add(self._wake, _ONE)

    def begin_end_is_news(self, tr: Transaction) -> Any:
        """Begin to read whether the end of a lease is news, and depend on it; None if it is.

        A row HELD is true until a lease ends, which a process without a limit does not know to be
        news. The first row HELD of ``max_leased`` writes LIMITED, which never goes: so of this
        transaction and that of the row one conflicts.
        """
        return None if self.gives_at_end else tr[self._keys.limited]

    def replace_rows(self, tr: Transaction, prospect: Prospect, passing: Iterable[bytes]) -> None:
        """Replace its rows, because there is nothing to take now, by when there is something next.

        The transaction depends on the rows that it removes: if someone writes one of them, it
        conflicts. The row that this process wrote last goes, too: else each lease that a look
        has met would leave one until the moment at which it would have expired.

        Args:
            tr: The transaction that saw it.
            prospect: When there is something, and for whom there is now.
            passing: The keys of other rows of the member that it was looked at for.
        """
        for key in (self.ready, *passing, *self._noted):
            tr.add_read_conflict_key(key)
            tr.clear(key)
        self._noted = ()
        for limit, level in zip((BY_LEASES, BY_RATE), self._keys.levels, strict=True):
            if level is not None:
                tr.clear(self._held(Hold(limit, level)))
        if prospect.moment is not None:
            self._write_exact_moment(tr, prospect.moment, prospect.since)
        if prospect.hold is not None:
            _add_row(tr, self._held(prospect.hold))
            if prospect.hold.limit == BY_LEASES and not tr.snapshot[self._keys.limited].present():
                tr[self._keys.limited] = b""

    def _write_exact_moment(self, tr: Transaction, moment: int, since: int | None) -> None:
        """Write the row LATER of a moment.

        One that was worked out as so long from now (a token) is wrong if the clock was. Its row
        says from when on it counts, and a row CLOCK stands there: a take that finds that more
        than a minute ahead looks at once.
        """
        key = self._at(moment)
        if since is None:
            _add_row(tr, key)
            self._noted = (key,)
            return
        tr[key] = said = _MOMENT.pack(max(0, since))
        tr[self._keys.clock_at(said, self._name)] = _MOMENT.pack(moment)

    def promote(self, tr: Transaction, passing: Iterable[bytes]) -> None:
        """Write one row READY in place of rows that it was looked at for.

        The transaction depends on these: it may look again, and replace them by what it saw.
        """
        _add_row(tr, self.ready)
        for key in passing:
            tr.add_read_conflict_key(key)
            tr.clear(key)

    def is_noted(
        self, tr: SnapshotTransaction, prospect: Prospect, now: int, *, to_lease: bool
    ) -> bool:
        """Tell whether the rows say what there is to take for consumers of this process.

        Args:
            tr: The transaction.
            prospect: When there is something for them.
            now: The present, in microseconds.
            to_lease: Whether they lease.
        """
        if prospect.moment is None or tr[self.ready].present():
            return True
        until = prospect.moment or now
        likely = self._at(until), self._at(until - until % _NEWS_ROUNDED_US)
        is_later = self._is_in(tr, self._keys.later(None, until), *likely)
        if prospect.moment == 0:
            ranges = self._keys.open_ranges(now, to_lease=to_lease)
            return is_later or any(self._is_in(tr, one) for one in ranges)
        if prospect.hold is None:
            return is_later
        return is_later and self._is_in(tr, self._keys.all_held, self._held(prospect.hold))

    def _is_in(self, tr: SnapshotTransaction, bounds: Bounds, *likely: bytes) -> bool:
        """Tell whether a row of this member is in a range; some keys are looked at first."""
        if any(tr[key].present() for key in likely):
            return True
        name = _text(self._name)
        return any(row.name == name for row in self._keys.rows(tr.get_range(*bounds)))

    def _at(self, moment: int) -> bytes:
        return self._keys.later_at(moment) + self._name

    def _held(self, hold: Hold) -> bytes:
        hashed = self.ready[-len(self._name) - _HASH_BYTES :]
        return self._keys.all_held[0] + hold.limit + _LEVEL.pack(hold.level) + hashed


def _text(name: bytes) -> str:
    return name.decode("ascii", "replace")


def _add_row(tr: Transaction, key: bytes) -> None:
    """Write a row so that the transaction may still come to depend on it.

    The engines drop a read conflict on a key that the transaction has *set*; an atomic operation
    keeps it.
    """
    tr.byte_max(key, b"")
