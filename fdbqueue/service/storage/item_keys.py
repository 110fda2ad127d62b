r"""The keys of ready items, how their rows are read, and what they are decoded to.

The layouts are those of FoundationDB's recipes, byte for byte, directly under the queue's subspace:

    priority queue   subspace[priority][count][random] = value     recipe "Priority Queues"
    FIFO queue       subspace[index][random] = value               recipe "Queues"

``count`` starts at 0 for each priority, ``index`` at 1; ``random`` is 20 bytes. Besides:

- *In commit order* the count or index is the commit's versionstamp, which sorts after all numbers,
  and ``random`` a number that grows with each push.
- *A long value's* key ends with the number of its chunks, and holds the first.
- *A unique key's* tag stands after the random bytes; in commit order, after the number of chunks.
- *With shards* a byte stands in front, a hash of the end of the place; the index or count is the
  read version of the push.

What follows the prefix and the shard is the item's *place*, in every state the same; in URL-safe
base64 it is its id.
"""

from __future__ import annotations

import binascii
import functools
import heapq
import itertools
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, cast

import fdb.tuple
from fdb import fdboptions
from fdb.subspace_impl import Subspace

from fdbqueue.engines.protocols import SnapshotTransaction, Transaction
from fdbqueue.exceptions import CorruptItem, InvalidInput
from fdbqueue.service import tuples
from fdbqueue.service.items import Item, Priority
from fdbqueue.service.sizes import MAX_KEY_BYTES

RANDOM_BYTES = 20
#: The first byte of a tag: the key is kept until the item is taken, or until it is done.
UNTIL_TAKEN, UNTIL_DONE = b"\x01", b"\x02"
#: The length of a tag.
TAG_BYTES = 21
#: An element of 20 random bytes is not longer than this once it is packed; one with a tag is.
LONGEST_RANDOM = 2 * RANDOM_BYTES + 2

_DOUBLE = struct.Struct(">d")
#: The tuple layer's type codes for the elements that are packed here.
_BYTES, _TEXT, _FLOAT = b"\x01", b"\x02", b"\x21"
_ZERO, _LONGEST = 0x14, 0x1C
#: From this number on, the tuple layer writes the length of an integer, too.
_TOO_LARGE = (1 << 64) - 1
_SIGN = 0x80

#: A priority, a count and the random bytes, as the tuple layer encodes them.
_SUFFIX_BYTES = 48
#: Starts the id of a foreign key, which is not an item's, so that it can be inspected, too.
FOREIGN = "~"

#: The streaming mode that reads all of a range at once.
WANT_ALL: int = fdboptions.StreamingMode["want_all"][0]

Bounds = tuple[bytes, bytes]


#: Which end of a queue: ``"min"`` is the lowest priority and the earliest pushed.
End = Literal["min", "max"]
ENDS: tuple[End, End] = ("min", "max")


class Position(NamedTuple):
    """The parts of a place: the priority (None in a FIFO queue), and the order among equals.

    ``sequence`` is the recipes' count or index, or a versionstamp in commit order. ``chunks``
    is the number of keys that hold the value. ``tag`` is that of the item's unique key, empty
    if it has none.
    """

    priority: Priority | None
    sequence: int | fdb.tuple.Versionstamp
    chunks: int
    tag: bytes = b""


class Row(NamedTuple):
    """A stored item: its place, and its value or the first chunk of it."""

    place: bytes
    value: bytes


class Loaded(NamedTuple):
    """A decoded item, or the error of decoding it, and what its removal needs to know.

    ``pushed_at`` is the stored time, in microseconds, which may be known of an item that cannot
    be decoded. ``has_attempts`` says that the attempts
    are in a row of their own. ``data`` is the whole stored value, all chunks of it.
    """

    row: Row
    position: Position
    item: Item | CorruptItem
    pushed_at: int | None
    has_attempts: bool
    data: bytes = b""


class Place(NamedTuple):
    """A place to write an item at; in commit order the commit fills in the stamp.

    ``stamp_at`` is the offset in ``data`` of the ten bytes of the stamp, None when there is
    none.
    """

    data: bytes
    stamp_at: int | None = None

    def set(self, tr: Transaction, prefix: bytes, value: bytes, tail: bytes = b"") -> int:
        """Set the key of this place under a prefix, and return the key's length."""
        key = prefix + self.data + tail
        if self.stamp_at is None:
            tr[key] = value
        else:
            offset = struct.pack("<I", len(prefix) + self.stamp_at)
            tr.set_versionstamped_key(key + offset, value)
        return len(key)

    def name_in(self, tr: Transaction, key: bytes) -> None:
        """Set a key to this place."""
        if self.stamp_at is None:
            tr[key] = self.data
        else:
            tr.set_versionstamped_value(key, self.data + struct.pack("<I", self.stamp_at))

    def stamped(self, stamp: bytes) -> bytes:
        """Return the place as the commit with a versionstamp made it."""
        if self.stamp_at is None:
            return self.data
        end = self.stamp_at + len(stamp)
        return self.data[: self.stamp_at] + stamp + self.data[end:]


#: The tuple layer's code of a versionstamp, here because packing one needs the client library.
_STAMP_CODE = b"\x33"
_NO_STAMP = b"\xff" * 10 + b"\x00\x00"

_TAGS_BEGIN = (UNTIL_TAKEN, UNTIL_DONE)

#: Distinguishes and orders the pushes of one transaction. It begins at 1, because a packed 0 is so
#: short that the end of a place, which decides the shard, would have bytes of the versionstamp.
_pushes = itertools.count(1)
_NUMBER = struct.Struct(">Q")
#: The byte of the first shard; tuples begin with lower ones.
_FIRST_SHARD = 0x80
#: So many bytes at the end of a place decide its shard.
_HASHED_BYTES = 4
#: All places.
EVERY_PLACE: Bounds = (b"\x00", b"\xff")

_TO_URL = bytes.maketrans(b"+/", b"-_")
#: What only the other alphabet has becomes what neither has.
_FROM_URL = bytes.maketrans(b"-_+/", b"+/!!")


def text_of(data: bytes) -> str:
    """Return bytes in URL-safe base64 without padding, by fewer calls than ``base64`` makes."""
    return binascii.b2a_base64(data, newline=False).translate(_TO_URL).rstrip(b"=").decode()


def data_of(text: str) -> bytes:
    """Return the bytes that :func:`text_of` made a text of.

    Raises:
        ValueError: It has made no such text.
    """
    encoded = text.encode("ascii").translate(_FROM_URL)
    data = binascii.a2b_base64(encoded + b"=" * (-len(encoded) % 4))
    if binascii.b2a_base64(data, newline=False).rstrip(b"=") != encoded:
        raise ValueError(text)  # it passes over what is no base64
    return data


def random_suffix() -> bytes:
    """Return random bytes, which distinguish items pushed at the same moment."""
    return os.urandom(RANDOM_BYTES)


def numbered_suffix() -> bytes:
    """Return random bytes after the number of a push, which orders pushes of one read version.

    Items of different shards compare by the read version of their push.
    """
    return _NUMBER.pack(next(_pushes)) + os.urandom(RANDOM_BYTES - _NUMBER.size)


def _position(skipped: bool, place: bytes) -> Position:
    """Return the parts of a place; ``skipped`` says that it starts with a priority.

    Raises:
        ValueError: It is not the place of an item.
        TypeError: It is not the place of an item.
    """
    # The usual format by hand, in a third of the time: a pop and a drain parse every item's.
    level, at = number_at(place, 0) if skipped else (None, 0)
    number, at = number_at(place, at)
    if type(number) is int and ends_with_bytes(place, at) and (level is None) != skipped:
        tagged = b""
        if len(place) - at > LONGEST_RANDOM:
            tagged = place[at + 1 : -1].replace(b"\x00\xff", b"\x00")[RANDOM_BYTES:]
        return Position(level, number, 1, _checked(tagged) if tagged else b"")
    elements: Sequence[Any] = tuples.unpack(place)
    tag = b""
    if len(elements) == skipped + 4 and isinstance(elements[skipped], fdb.tuple.Versionstamp):
        tag = _checked(elements[-1])
        elements = elements[: -1 if tag else None]
    if not skipped + 2 <= len(elements) <= skipped + 3:
        raise ValueError(f"the key has {len(elements)} elements, not {skipped + 2}")
    priority = elements[0] if skipped else None
    if skipped and not _is_number(priority):
        raise TypeError("the key does not start with a number")
    sequence, random, *more = elements[skipped:]
    if not isinstance(sequence, int | fdb.tuple.Versionstamp) or isinstance(sequence, bool):
        raise TypeError("the key has neither a count nor a versionstamp")
    chunks = more[0] if more else 1
    if not isinstance(chunks, int) or isinstance(chunks, bool) or chunks < 1:
        raise TypeError("the key does not end with a number of chunks")
    if isinstance(random, bytes):
        tag = random[RANDOM_BYTES:]
    return Position(cast("Priority | None", priority), sequence, chunks, _checked(tag))


#: Keeps the parts of the latest places: a lease parses its item's, and the ack twice more.
_kept = functools.lru_cache(maxsize=1_000)


class ItemKeys:
    """The keys of one queue's items.

    Args:
        subspace: The queue's own subspace.
        shards: How many shards the queue has; 0 for none.

    Attributes:
        subspace, shards: As given.
        size_bytes: About how long a key is.
        bounds: The range of all items.
    """

    #: The index of the first item of an empty queue, or of an unused priority.
    first_index: int
    #: Whether places start with a priority.
    has_priorities: bool
    #: Returns the parts of a place, see :func:`_position`.
    position: Callable[[bytes], Position]

    def __init__(self, subspace: Subspace, shards: int = 0) -> None:
        self.subspace = subspace
        self.shards = shards
        self._prefix: bytes = subspace.key()
        self._prefixes = [self._prefix + bytes((_FIRST_SHARD + one,)) for one in range(shards)]
        self._place_at = len(self._prefix) + bool(shards)
        self.bounds = bounds(subspace)
        self.size_bytes = self._place_at + _SUFFIX_BYTES

    def level(self, priority: Priority | None) -> Bounds:
        """Return the range of the items that a push of this priority comes after."""
        raise NotImplementedError

    def between(self, low: Priority | None, high: Priority | None) -> Bounds:
        """Return the range of the places with priorities from ``low`` to ``high``."""
        raise NotImplementedError

    def ranges(self, begin: bytes, stop: bytes) -> list[Bounds]:
        """Return the ranges of the keys of ready items between two places: one for each shard."""
        if not self.shards:
            return [(self._prefix + begin, self._prefix + stop)]
        return [(prefix + begin, prefix + stop) for prefix in self._prefixes]

    def shard_range(self, shard: int) -> Bounds:
        """Return the range of the ready items of a shard."""
        prefix = self._prefixes[shard]
        return prefix, prefix + EVERY_PLACE[1]

    def elsewhere(self) -> list[Bounds]:
        """Return the ranges where items are under other numbers of shards, and none under this."""
        begin, stop = self.bounds
        first, behind = (self._prefix + bytes((_FIRST_SHARD + n,)) for n in (0, self.shards))
        return [(begin, first), (behind, stop)] if self.shards else [(behind, stop)]

    # Reading ready items

    def begin_ready(
        self, tr: SnapshotTransaction, begin: bytes, stop: bytes, limit: int, end: End
    ) -> Iterable[Any]:
        """Begin to read the rows of the ready items between two places, from one end.

        The rows of all shards are in one order. Of each shard about its part is read at first.
        """
        if not self.shards:
            return begin_rows(tr, self._prefix + begin, self._prefix + stop, limit, end)
        at_once = min(limit, 1 + 2 * limit // self.shards)
        reads = [(part, begin_rows(tr, *part, at_once, end)) for part in self.ranges(begin, stop)]
        return self._merged(
            [_rest(tr, read, *part, at_once, end) for part, read in reads], limit, end
        )

    def begin_heads(
        self, tr: SnapshotTransaction, shards: Sequence[int], limit: int, end: End, slot: int
    ) -> Iterable[Any]:
        """Begin to read rows near the heads of some shards, in one order.

        Args:
            tr: The transaction.
            shards: The shards.
            limit: How many rows of all of them; of each about its part is read.
            end: Which end.
            slot: Twice as many parts of each are skipped, if it has so many.

        Returns:
            Rows of these shards; if they are all there are, the first ones in exact order.
        """
        part = min(limit, 1 + 2 * limit // len(shards))
        # Twice, because another process may take some of those between while this one reads.
        skipped = slot * 2 * part
        reads: list[Iterable[Any]] = [
            begin_rows(tr, *self.shard_range(one), skipped + part, end) for one in shards
        ]
        if slot:
            reads = [_behind(read, skipped, part) for read in reads]
        elif len(shards) == self.shards:
            return self._until_one_ends(reads, part, limit, end)
        return self._merged(reads, limit, end)

    def _until_one_ends(
        self, reads: Sequence[Iterable[Any]], part: int, limit: int, end: End
    ) -> Iterator[Any]:
        """Yield rows in one order while the next of each shard is known."""
        left = dict.fromkeys(self._prefixes, part)
        for row in self._merged(reads, limit, end):
            yield row
            shard = row.key[: self._place_at]
            left[shard] -= 1
            if not left[shard]:
                return

    def _merged(self, reads: Sequence[Iterable[Any]], limit: int, end: End) -> Iterable[Any]:
        merged = heapq.merge(*reads, key=lambda row: self.place_of(row.key), reverse=end == "max")
        return itertools.islice(merged, limit)

    # Places and ids

    def place(self, priority: Priority | None, index: int, random: bytes, chunks: int = 1) -> Place:
        """Return the place of an item in the recipes' order."""
        data = packed(index) + packed(random)
        if priority is not None:
            data = packed_number(priority) + data
        return Place(data if chunks == 1 else data + packed(chunks))

    def place_in_commit_order(
        self, priority: Priority | None, chunks: int = 1, tag: bytes = b""
    ) -> Place:
        """Return the place of an item after all that is committed before it."""
        before = _STAMP_CODE if priority is None else packed_number(priority) + _STAMP_CODE
        number = next(_pushes)
        if tag:
            behind = fdb.tuple.pack((number, chunks, tag))
        else:
            behind = fdb.tuple.pack((number,) if chunks == 1 else (number, chunks))
        return Place(before + _NO_STAMP + behind, len(before))

    def prefix_of(self, place: bytes) -> bytes:
        """Return what is before a place in the key of its item, once that is ready."""
        if self.shards:
            return self._prefixes[zlib.crc32(place[-_HASHED_BYTES:]) % self.shards]
        return self._prefix

    def key(self, place: bytes) -> bytes:
        """Return the key of a ready item."""
        return self.prefix_of(place) + place if self.shards else self._prefix + place

    def place_of(self, key: bytes) -> bytes:
        """Return the place of a ready item."""
        return key[self._place_at :]

    def place_in_any(self, key: bytes) -> bytes:
        """Return the place of a ready item of a queue with any number of shards, or none."""
        at = len(self._prefix)
        return key[at + (key[at] >= _FIRST_SHARD) :]

    def usual_sequence(self, key: bytes, priority: Priority | None) -> int | None:
        """Return the sequence of a ready item with a priority, given its key in the usual format.

        None for any other key. Takes half the time of :meth:`position`, which counts because a
        push parses the last item of each priority.
        """
        at = self._place_at
        if priority is not None:
            at += len(_packed_number(priority))  # the two zeros are equal, and equally long
        sequence, at = number_at(key, at)
        return sequence if type(sequence) is int and ends_with_bytes(key, at) else None

    def id_of(self, place: bytes) -> str:
        """Return the id of the item at a place; the id of a foreign key starts with ``~``."""
        try:
            self.position(place)
        except (ValueError, TypeError):
            return FOREIGN + self.item_id(place)
        return self.item_id(place)

    #: Returns the id of the item at a place that is known to be valid.
    item_id = staticmethod(text_of)

    def place_named(self, item_id: str) -> bytes:
        """Return the place of the item with an id, which need not exist.

        Raises:
            InvalidInput: It is not an id of this kind of queue.
        """
        if not isinstance(item_id, str):
            raise InvalidInput(id=item_id, reason="an item's id is a string")
        foreign = item_id.startswith(FOREIGN)
        try:
            place = data_of(item_id.removeprefix(FOREIGN))
            if not foreign:
                self.position(place)
        except (ValueError, TypeError) as error:
            raise InvalidInput(id=item_id, reason="it is not an item's id in this queue") from error
        begin, stop = EVERY_PLACE
        if not begin <= place < stop or len(self.key(place)) > MAX_KEY_BYTES:
            raise InvalidInput(id=item_id, reason="it is not a place in this queue")
        return place


class PriorityKeys(ItemKeys):
    """``subspace[priority][count][random]``."""

    first_index = 0
    has_priorities = True
    position = staticmethod(_kept(functools.partial(_position, True)))

    def level(self, priority: Priority | None) -> Bounds:
        """Return the range of one priority."""
        assert priority is not None
        prefix = self._prefix + packed_number(priority)
        return prefix + b"\x00", prefix + b"\xff"

    def between(self, low: Priority | None, high: Priority | None) -> Bounds:
        """Return the range of the priorities from ``low`` to ``high``, None for no bound."""
        begin, stop = EVERY_PLACE
        if low is not None:
            begin = packed(low)
        if high is not None:
            stop = packed(high) + b"\xff"
        return begin, stop


class FifoKeys(ItemKeys):
    """``subspace[index][random]``."""

    first_index = 1
    has_priorities = False
    position = staticmethod(_kept(functools.partial(_position, False)))

    def level(self, priority: Priority | None) -> Bounds:
        """Return the range of all items: there are no priorities."""
        assert priority is None
        return self.bounds

    def between(self, low: Priority | None, high: Priority | None) -> Bounds:
        """Return the range of all places: there are no priorities."""
        assert low is None
        assert high is None
        return EVERY_PLACE


# The elements of places, by fewer calls than the tuple layer makes


def packed(element: Any) -> bytes:
    """Return ``fdb.tuple.pack((element,))``; for the elements of places in a third of the time.

    The results for several elements, joined, are the packed tuple of these elements.
    """
    kind = type(element)
    if kind is bytes:
        return _BYTES + element.replace(b"\x00", b"\x00\xff") + b"\x00"
    if kind is str:
        return _TEXT + element.encode().replace(b"\x00", b"\x00\xff") + b"\x00"
    if kind is int and 0 <= element < _TOO_LARGE:
        length = (element.bit_length() + 7) // 8
        return bytes((_ZERO + length,)) + element.to_bytes(length, "big")
    if kind is float:
        data = _DOUBLE.pack(element)
        if data[0] < _SIGN:
            return _FLOAT + bytes((data[0] + _SIGN,)) + data[1:]
    return fdb.tuple.pack((element,))


_packed_number = functools.lru_cache(maxsize=1_000, typed=True)(packed)


def packed_number(number: float) -> bytes:
    """Return what :func:`packed` does; in a third of the time, because few priorities recur."""
    if number or type(number) is int:
        return _packed_number(number)
    return packed(number)  # 0.0 and -0.0 are two, and equal


def number_at(data: bytes, at: int) -> tuple[int | float | None, int]:
    """Return the number that is packed at an offset of a tuple, and the offset of its end.

    None for anything but integers from 0 to 64 bits and floats from 0 up, and for a number
    that is cut off.
    """
    code = data[at] if at < len(data) else 0
    if _ZERO <= code <= _LONGEST:
        end = at + 1 + code - _ZERO
        found: int | float = int.from_bytes(data[at + 1 : end], "big")
    elif code == _FLOAT[0] and data[at + 1 : at + 2] >= b"\x80":
        end = at + 9
        sign, rest = data[at + 1], data[at + 2 : end]
        if len(rest) != _DOUBLE.size - 1:
            return None, at
        (found,) = _DOUBLE.unpack(bytes((sign - _SIGN,)) + rest)
    else:
        return None, at
    return (found, end) if end <= len(data) else (None, at)


def ends_with_bytes(data: bytes, at: int) -> bool:
    """Tell whether the rest of a packed tuple, from an offset on, is one element of bytes."""
    if data[at : at + 1] != _BYTES or len(data) < at + 2 or data[-1]:
        return False
    inside = data[at + 1 : -1]
    return b"\x00" not in inside or b"\x00" not in inside.replace(b"\x00\xff", b"")


def bounds(subspace: Subspace) -> Bounds:
    """Return the range of the tuples in a subspace."""
    found = subspace.range()
    return found.start, found.stop


def _checked(tag: object) -> bytes:
    """Return the tag of a unique key; empty for anything else that stands in its place."""
    if isinstance(tag, bytes) and len(tag) == TAG_BYTES and tag[:1] in _TAGS_BEGIN:
        return tag
    return b""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def begin_rows(
    tr: SnapshotTransaction, begin: bytes, stop: bytes, limit: int, end: End
) -> Iterable[Any]:
    """Begin to read the rows of a range of keys, from one end."""
    found: Iterable[Any] = tr.get_range(
        begin, stop, limit=limit, reverse=end == "max", streaming_mode=WANT_ALL
    )
    return found


def _rest(
    tr: SnapshotTransaction,
    read: Iterable[Any],
    begin: bytes,
    stop: bytes,
    at_once: int,
    end: End,
) -> Iterator[Any]:
    """Yield the rows of a range, of which the first are read already."""
    while True:
        count, key = 0, b""
        for row in read:
            count, key = count + 1, row.key
            yield row
        if count < at_once:
            return
        begin, stop = (key + b"\x00", stop) if end == "min" else (begin, key)
        read = begin_rows(tr, begin, stop, at_once, end)


def _behind(rows: Iterable[Any], skipped: int, part: int) -> Iterator[Any]:
    """Yield the rows after some; the last if there are not so many."""
    found = list(rows)
    yield from found[min(skipped, max(0, len(found) - part)) :]
