r"""The keys of everything that a queue stores besides its ready items (:class:`TableKeys`).

Each take reads the range from READY_TAKEN_WAKES to the present moment in DUE. Moments are
microseconds since the epoch, in eight big-endian bytes.
"""

from __future__ import annotations

import enum
import functools
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import fdb.tuple

from fdbqueue.service.clock import moment
from fdbqueue.service.items import Failure, Item, Priority
from fdbqueue.service.sizes import MAX_KEY_BYTES
from fdbqueue.service.storage.family_index import Member
from fdbqueue.service.storage.item_keys import Bounds, Row, packed_number

_META = b"\xff"
_PART_META, _PART_VALUE = b"\x00", b"\x01"
_LATEST = 2**63
_MOMENT = struct.Struct(">Q")

#: How many failures of an item are kept.
FAILURES_KEPT = 3

#: The length of the names of help requests and handoffs.
HANDOFF_NAME_BYTES = 8
#: The length of the names of responses.
RESPONSE_NAME_BYTES = 16


#: What is stored of a hidden item besides its value: ``until``, ``attempts``, and ``pushed_at`` or
#: -1. After them a lease has its secret, when it began, and the name of its worker; and a dead
#: letter its reason.
_FACTS = struct.Struct(">QIq")
#: The length of the secret of a lease.
SECRET_BYTES = 8


class State(enum.Enum):
    """The state of a hidden item: the byte of its table."""

    LEASED = b"\x0a"
    DELAYED = b"\x0b"
    DEAD = b"\x0c"

    __hash__ = object.__hash__  # Enum's own hash is a Python function, and slow


#: How users call the states.
STATE_NAMES = {State.LEASED: "leased", State.DELAYED: "delayed", State.DEAD: "dead"}
#: Read once, because an enumeration's values are slow to read.
_STATES = [(state, state.value) for state in State]


class Kind(enum.IntEnum):
    """What expires at a moment."""

    HANDOFF = 0
    LEASE = 1
    DELAY = 2


class Due(NamedTuple):
    """A key of the table DUE: when, what, and which place or handoff."""

    moment: int
    kind: Kind
    rest: bytes


class TableKeys:
    r"""The keys of one queue's tables.

    All are under ``subspace.key() + b"\xff"``, which no tuple key and no recipe's range read
    reaches. Then follows a byte for each table:

        01  READY_TAKEN_WAKES               items ready; ever taken; ever extended or delayed
        02  RETRIED                         set while table 09 may have rows
        02 01  PAUSED                       since when nothing is to be taken, and why
        02 02  FORMAT       JSON            kind, codec, priority type, order, layout
        03  REQUEST   name                  a help request
        04  DUE       moment, kind, rest    what expires then: a place or a name
        05  HIDDEN                          how many are leased, delayed, dead; leases shortened
        05 01  TOKENS                       tokens of the rate, in millionths, and when counted
        05 02  LEASING                      nothing: leases under a limit conflict here
        06  LEVEL     tuple(priority)       items ready of that priority
        07  MINUTE    minute                pushes and pops of that minute
        08  AGE       moment, place         ready items by when they were pushed
        09  ATTEMPTS  place                 attempts that the stored value cannot hold
        0a  LEASED    place, part           0: the lease's facts; 1: the item's value
        0b  DELAYED                         as LEASED
        0c  DEAD                            as LEASED
        0d  CHUNK     place, number         the later chunks of a long value
        0e  RECOUNTED                       written by each recount that corrects counts
        0f  HIGH                            the highest count or index ever hidden
        10  HANDOFF   name, number          the items of a handoff
        11  RESPONSE  name, number          the saved response of an idempotency key
        12  EXPIRY    moment, name          when a response expires
        13  UNIQUE    digest                the place of the item that has a unique key
        14  FAILURE   place, attempt % 3    one of the last three failures of an item
        15  REASON    first line of it      dead letters of that reason
        16  DEATH     moment, place         dead letters by when they died

    Args:
        prefix: The bytes of the queue's subspace.
        member: The queue's rows in the index of its family; None if it is in none.
    """

    def __init__(self, prefix: bytes, member: Member | None = None) -> None:
        self.member = member
        tables = prefix + _META
        self.ready_taken_wakes = tables + b"\x01"
        self.retried = tables + b"\x02"
        self.paused = tables + b"\x02\x01"
        self.format = tables + b"\x02\x02"
        self.hidden = tables + b"\x05"
        self.tokens = tables + b"\x05\x01"
        self.leasing = tables + b"\x05\x02"
        self.recounted = tables + b"\x0e"
        self.high = tables + b"\x0f"
        self._requests = tables + b"\x03"
        self._due = tables + b"\x04"
        self._levels = tables + b"\x06"
        self._minutes = tables + b"\x07"
        #: Returns the key of a minute's history; minutes are numbered from the Unix epoch.
        self.minute: Callable[[int], bytes] = functools.partial(_minute_key, self._minutes)
        self._ages = tables + b"\x08"
        self._attempts = tables + b"\x09"
        #: The prefix of the keys of the later chunks of values.
        self.chunk_prefix = tables + b"\x0d"
        self._handoffs = tables + b"\x10"
        self._responses = tables + b"\x11"
        self._expiries = tables + b"\x12"
        self._uniques = tables + b"\x13"
        self._failures = tables + b"\x14"
        self._reasons = tables + b"\x15"
        self._deaths = tables + b"\x16"
        #: The prefixes of the keys of hidden items, by their states.
        self.states = {state: tables + byte for state, byte in _STATES}
        # The ranges of whole tables.
        self.bounds: Bounds = (tables, tables + b"\xff")
        self.formats: Bounds = (self.format, tables + b"\x02\x03")
        self.dues: Bounds = (self._due, self._due + b"\xff")
        self.levels: Bounds = (self._levels, self._minutes)
        self.minutes: Bounds = (self._minutes, self._ages)
        #: What an empty queue may have: numbers, its format, its history.
        self.of_empty: tuple[Bounds, ...] = (
            (self.ready_taken_wakes, self.paused),
            self.formats,
            (self.hidden, self._ages),
            (self.recounted, self._handoffs),
        )
        self.ages: Bounds = (self._ages, self._attempts)
        self.all_attempts: Bounds = (self._attempts, self._attempts + b"\xff")
        #: All handoffs, whatever bytes their names are.
        self.handoffs: Bounds = (self._handoffs, self._responses)
        #: All responses, and the moments at which they expire.
        self.responses: Bounds = (self._responses, self._uniques)
        self.uniques: Bounds = (self._uniques, self._failures)
        self.reasons: Bounds = (self._reasons, self._deaths)
        self.deaths: Bounds = (self._deaths, tables + b"\x17")

    @property
    def without_queue(self) -> tuple[Bounds, Bounds]:
        """The ranges that may have keys if there is no queue, the first one first.

        A clear leaves the format. A pop under a key saves a response, also if nothing was pushed.
        """
        return self.formats, self.responses

    # The queue's state, read by poppers

    def present(self, moment: int) -> Bounds:
        """Return the range from READY_TAKEN_WAKES to what expires by a moment."""
        return self.ready_taken_wakes, self._due + _MOMENT.pack(moment + 1)

    def request(self, name: bytes) -> bytes:
        """Return the key of a help request."""
        return self._requests + name

    def request_name(self, key: bytes) -> bytes:
        """Return the name of a help request."""
        return key[len(self._requests) :]

    def is_request(self, key: bytes) -> bool:
        """Tell whether a key in the range of :meth:`present` is a request's."""
        return key.startswith(self._requests)

    # What expires

    def due(self, moment: int, kind: Kind, rest: bytes) -> bytes:
        """Return the key that says that a place or a handoff expires at a moment."""
        return self._due + _moment(moment) + bytes((kind,)) + rest

    def due_prefix(self, moment: int, kind: Kind) -> bytes:
        """Return the part of such a key before the place."""
        return self._due + _moment(moment) + bytes((kind,))

    def parse_due(self, key: bytes) -> Due | None:
        """Return the parts of a key of the table DUE, None for a key of another table."""
        start = len(self._due)
        if not key.startswith(self._due) or len(key) < start + 9:
            return None
        moment, kind = struct.unpack_from(">QB", key, start)
        return Due(moment, Kind(kind), key[start + 9 :]) if kind in _KINDS else None

    def handoff(self, name: bytes, piece: int) -> bytes:
        """Return the key of a piece of a handoff."""
        return self._handoffs + name + struct.pack(">H", piece)

    def handoff_bounds(self, name: bytes) -> Bounds:
        """Return the range of a handoff's pieces."""
        return _numbered(self._handoffs + name)

    def handoff_name(self, key: bytes) -> bytes:
        """Return the name of the handoff that a piece belongs to."""
        start = len(self._handoffs)
        return key[start : start + HANDOFF_NAME_BYTES]

    # Saved responses

    def response(self, name: bytes, piece: int) -> bytes:
        """Return the key of a piece of a response."""
        return self._responses + name + struct.pack(">H", piece)

    def response_bounds(self, name: bytes) -> Bounds:
        """Return the range of a response's pieces."""
        return _numbered(self._responses + name)

    def response_expiry(self, moment: int, name: bytes) -> bytes:
        """Return the key that says when a response expires."""
        return self._expiries + _moment(moment) + name

    def response_expiries(self, moment: int) -> Bounds:
        """Return the range of the responses that expire before a moment."""
        return self._expiries, self._expiries + _moment(moment)

    def expiring_response(self, key: bytes) -> bytes:
        """Return the name of the response that such a key names."""
        return key[len(self._expiries) + 8 :]

    # Unique keys

    def unique(self, tag: bytes) -> bytes:
        """Return the key that says which item has a unique key, given the key's tag."""
        return self._uniques + tag[1:]

    # Counts and history

    def level(self, priority: Priority) -> bytes:
        """Return the key of the count of a priority."""
        return self._levels + packed_number(priority)

    def priority_of(self, key: bytes) -> Priority:
        """Return the priority of a count's key."""
        priority: Priority = fdb.tuple.unpack(key[len(self._levels) :])[0]
        return priority

    def minute_of(self, key: bytes) -> int:
        """Return the number of a minute."""
        number: int = struct.unpack(">I", key[len(self._minutes) :])[0]
        return number

    def age_prefix(self, pushed_at: int) -> bytes:
        """Return the part of a key in the table of ages before the place."""
        return self._ages + _moment(pushed_at)

    def parse_dated(self, key: bytes) -> tuple[int, bytes]:
        """Return when an item was pushed, or a dead letter died, and its place."""
        start = len(self._ages)  # as long as the prefix of the other table
        return struct.unpack_from(">Q", key, start)[0], key[start + 8 :]

    def reason(self, group: bytes) -> bytes:
        """Return the key of the count of a group of dead letters."""
        return (self._reasons + group)[:MAX_KEY_BYTES]  # a death must not fail by a long prefix

    def group_of(self, key: bytes) -> bytes:
        """Return the group of a count's key."""
        return key[len(self._reasons) :]

    def death(self, died_at: int, place: bytes) -> bytes | None:
        """Return the key that says when a dead letter died.

        None if a key cannot be that long: only other programs push items at such places.
        """
        key = self._deaths + _moment(died_at) + place
        return key if len(key) <= MAX_KEY_BYTES else None

    # What became of an item's attempts

    def failure(self, place: bytes, attempt: int) -> bytes:
        """Return the key of the failure of an attempt, which a later failure has, too."""
        return self._failures + place + bytes((attempt % FAILURES_KEPT,))

    def failures(self, place: bytes) -> Bounds:
        """Return the range of an item's failures."""
        prefix = self._failures + place
        return prefix, prefix + bytes((FAILURES_KEPT,))

    def attempts(self, place: bytes) -> bytes:
        """Return the key of the attempts of a ready item whose value cannot hold them."""
        return self._attempts + place

    # Hidden items

    def state_bounds(self, state: State) -> Bounds:
        """Return the range of the hidden items in a state."""
        prefix = self.states[state]
        return prefix, prefix + b"\xff"

    def hidden_keys(self, state: State, place: bytes) -> tuple[bytes, bytes]:
        """Return the keys of a hidden item's facts and of its value.

        For the state LEASED these are the keys of a lease.
        """
        prefix = self.states[state] + place
        return prefix + _PART_META, prefix + _PART_VALUE

    def hidden_place(self, state: State, key: bytes) -> tuple[bytes, bool]:
        """Return the place of a hidden item's key, and whether the key holds its value."""
        return key[len(self.states[state]) : -1], key.endswith(_PART_VALUE)

    # Long values

    def chunks(self, place: bytes) -> Bounds:
        """Return the range of the later chunks of a value."""
        return _numbered(self.chunk_prefix + place)


#: The ends of a hidden item's keys.
META_TAIL, VALUE_TAIL = _PART_META, _PART_VALUE
#: After a hidden item's place, it sorts behind the item's keys.
HIDDEN_END = b"\x02"
_KINDS = frozenset(Kind)


def chunk_tail(number: int) -> bytes:
    """Return the end of the key of a chunk."""
    return struct.pack(">H", number)


@functools.lru_cache(maxsize=1_000)
def _minute_key(minutes: bytes, number: int) -> bytes:
    """Return the key of a minute: each push and each pop of that minute asks for the same one."""
    return minutes + struct.pack(">I", number)


def _numbered(prefix: bytes) -> Bounds:
    """Return the range of the numbered keys under a prefix."""
    return prefix, prefix + b"\xff\xff\xff"


def _moment(microseconds: int) -> bytes:
    return _MOMENT.pack(min(max(microseconds, 0), _LATEST))


class Hidden(NamedTuple):
    """A leased, delayed or dead item.

    Attributes:
        state: Which table it is in.
        row: Its place and its stored value.
        until: When the lease or the delay expires, or when it died; in microseconds.
        attempts: How many leases of it were given up or expired.
        pushed_at: When it was pushed, in microseconds, or None.
        secret: What only the holder of a lease knows, as part of its token.
        reason: Why it is dead, in UTF-8.
        worker: The name of the worker that holds the lease, in UTF-8; empty if it gave none.
        began: When the lease began, in microseconds; 0 for other items.
    """

    state: State
    row: Row
    until: int
    attempts: int
    pushed_at: int | None
    secret: bytes = b""
    worker: bytes = b""
    reason: bytes = b""
    began: int = 0


def packed_facts(hidden: Hidden) -> bytes:
    """Return what is stored of a hidden item besides its value."""
    pushed_at = -1 if hidden.pushed_at is None else hidden.pushed_at
    facts = _FACTS.pack(hidden.until, hidden.attempts, pushed_at)
    if hidden.state is State.LEASED:
        return facts + hidden.secret + packed_worker(hidden)
    return facts + hidden.reason


def unpacked_facts(state: State, row: Row, facts: bytes) -> Hidden:
    """Return the hidden item of a row and of its :func:`packed_facts`."""
    until, attempts, pushed_at = _FACTS.unpack_from(facts)
    rest, known_push = facts[_FACTS.size :], None if pushed_at < 0 else pushed_at
    if state is not State.LEASED:
        return Hidden(state, row, until, attempts, known_push, reason=rest)
    secret, (worker, began) = rest[:SECRET_BYTES], unpacked_worker(rest[SECRET_BYTES:])
    return Hidden(state, row, until, attempts, known_push, secret, worker, began=began)


def packed_worker(lease: Hidden) -> bytes:
    """Return what is stored of when a lease began, and of its worker."""
    return _MOMENT.pack(lease.began) + lease.worker


def unpacked_worker(data: bytes) -> tuple[bytes, int]:
    """Return the name of a lease's worker, and when the lease began."""
    (began,) = _MOMENT.unpack_from(data)
    return data[_MOMENT.size :], began


def described(item: Item, hidden: Hidden, failures: tuple[Failure, ...]) -> Item:
    """Return the item of a hidden row, with what is stored besides its value."""
    dead = hidden.state is State.DEAD
    return replace(
        item,
        state=STATE_NAMES[hidden.state],
        attempts=hidden.attempts,
        until=None if dead else moment(hidden.until),
        reason=hidden.reason.decode(errors="replace") if dead else None,
        died_at=moment(hidden.until) if dead else None,
        worker=hidden.worker.decode(errors="replace") or None,
        failures=failures,
        leased_at=moment(hidden.began) if hidden.state is State.LEASED else None,
    )
