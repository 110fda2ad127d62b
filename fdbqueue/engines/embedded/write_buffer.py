"""The writes of one transaction, as its own reads see them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from typing import Final

from fdbqueue.engines.embedded.fdb_errors import FDBError
from fdbqueue.engines.embedded.fdb_limits import VALUE_SIZE_LIMIT
from fdbqueue.engines.embedded.keys import Range, RangeSet, after

#: What a commit applies, in order: the operation's name, the key, and its parameter (the
#: end of the range for ``clear_range``).
Mutation = tuple[str, bytes, bytes]

#: What FoundationDB's client counts for a mutation and for a range besides their bytes.
MUTATION_BYTES, RANGE_BYTES = 44, 24
STAMP_BYTES = 10
_STAMPED = frozenset({"set_versionstamped_value", "set_versionstamped_key"})
_INDEPENDENT = _STAMPED | {"set", "clear"}
_FEW = 8


def sent_bytes(mutations: list[Mutation], ranges: list[Range]) -> int:
    """Return how many bytes the client counts for a commit, with the ranges of its conflicts."""
    size = 0
    for name, key, param in mutations:
        size += len(key) + (len(param) if name != "clear" else len(key) + 1) + MUTATION_BYTES
    for begin, end in ranges:
        size += len(begin) + len(end) + RANGE_BYTES
    return size


class Pending:
    """The operations waiting on one key whose value is not known before the commit.

    ``unreadable`` is set once the key's value depends on the versionstamp of the commit,
    and stays until the key is cleared.
    """

    __slots__ = ("operations", "unreadable")

    def __init__(self, operation: Mutation, *, unreadable: bool) -> None:
        self.operations = [operation]
        self.unreadable = unreadable

    def add(self, name: str, key: bytes, param: bytes) -> None:
        """Add the next operation. Two additions of one length in a row become one."""
        last, _, before = self.operations[-1]
        if name == last == "add" and len(before) == len(param):
            self.operations[-1] = name, key, OPERATIONS[name](before, param) or b""
        else:
            self.operations.append((name, key, param))

    @property
    def independent(self) -> bool:
        """Whether the outcome does not depend on what is stored."""
        return self.operations[0][0] in _INDEPENDENT

    def over(self, stored: bytes | None) -> bytes | None:
        """Return what the key holds when the operations run over ``stored``.

        If a stamp is to come, that is what was given for it.
        """
        for name, _, param in self.operations:
            if name == "set":
                stored = param
            elif name == "clear":
                stored = None
            elif name in _STAMPED:
                stored = param
            else:
                stored = OPERATIONS[name](stored, param)
        return stored


#: What the buffer holds for a key: the bytes set, None when cleared, or what is pending.
Entry = bytes | None | Pending


class Unmodified:
    """The answer of :meth:`WriteBuffer.get` for a key this transaction has not written."""


UNMODIFIED: Final = Unmodified()


def stamp_position(param: bytes) -> int:
    """Return where the versionstamp goes: the little-endian offset in the last four bytes.

    Raises:
        FDBError: 2000 when the ten bytes of the stamp do not fit there.
    """
    position = int.from_bytes(param[-4:], "little", signed=True)
    if len(param) < 4 or position < 0 or position + STAMP_BYTES > len(param) - 4:
        raise FDBError(2000)
    return position


def stamped(param: bytes, stamp: bytes) -> bytes:
    """Return ``param`` with the stamp in its place, which was looked at, and the offset cut off."""
    position = int.from_bytes(param[-4:], "little")
    return param[:position] + stamp + param[position + STAMP_BYTES : -4]


#: No ranges: nothing is ever added to it.
_NONE = RangeSet()


class WriteBuffer:
    """Hold what a transaction wrote, keyed, and say what its reads see of it.

    Later writes of a key replace or extend earlier ones, as in FoundationDB's client.
    """

    __slots__ = (
        "_early",
        "_new_keys",
        "_sorted_keys",
        "cleared",
        "entries",
        "has_stamps",
        "unreadable",
    )

    def __init__(self) -> None:
        self.entries: dict[bytes, Entry] = {}
        self.cleared = self.unreadable = _NONE
        #: What must be applied before everything else, in order.
        self._early: list[Mutation] = []
        #: Has any key been unreadable?
        self.has_stamps = False
        self._sorted_keys: list[bytes] = []
        self._new_keys: list[bytes] = []

    # Writing

    def write(self, name: str, key: bytes, param: bytes, read_version: int) -> None:
        """Add the next write, as :data:`Mutation` has it."""
        if name == "set":
            self.set(key, param)
        elif name == "clear":
            self.clear(key)
        elif name == "clear_range":
            self.clear_range(key, param)
        elif name == "set_versionstamped_key":
            self.set_versionstamped_key(key, param, read_version)
        elif name == "set_versionstamped_value":
            self.set_versionstamped_value(key, param)
        else:
            self.mutate(name, key, param)

    def set(self, key: bytes, value: bytes) -> None:
        """Set a key; one that cannot be read before the commit stays so."""
        if self._is_unreadable(key):
            self._push(key, ("set", key, value))
        else:
            self._store(key, value)

    def clear(self, key: bytes) -> None:
        """Clear one key, which makes it readable."""
        if self.unreadable.begins:
            self.unreadable.remove(key, after(key))
        self._store(key, None)

    def clear_range(self, begin: bytes, end: bytes) -> None:
        """Clear ``[begin, end)``, dropping what was written there before."""
        self._forget(begin, end)
        self.unreadable.remove(begin, end)
        if self.cleared is _NONE:
            self.cleared = RangeSet()
        self.cleared.add(begin, end)

    def mutate(self, name: str, key: bytes, param: bytes) -> None:
        """Apply an atomic operation at once if the value is known, else keep it."""
        entry = self.get(key)
        if isinstance(entry, Pending):
            entry.add(name, key, param)
        elif isinstance(entry, Unmodified):
            unreadable = bool(self.unreadable.begins) and key in self.unreadable
            self._store(key, Pending((name, key, param), unreadable=unreadable))
        else:
            result = OPERATIONS[name](entry, param)
            self._store(key, result)
            if result is None:  # cleared by comparison: selectors still count the key
                self._store(key, Pending(("clear", key, b""), unreadable=False))

    def set_versionstamped_value(self, key: bytes, param: bytes) -> None:
        """Set a key to a value that holds the commit's stamp; unreadable until then."""
        self.has_stamps = True
        operation = "set_versionstamped_value", key, param
        entry = self.entries.get(key)
        if isinstance(entry, Pending) and entry.unreadable:
            entry.operations.append(operation)
        else:
            self._store(key, Pending(operation, unreadable=True))

    def set_versionstamped_key(self, key: bytes, value: bytes, read_version: int) -> None:
        """Set a key that will hold the commit's stamp.

        Every key it may become is unreadable from now on: as with FoundationDB's client from the
        one stamped with ``read_version`` itself, which the last commit may have written. While it
        is not known, it is 0.
        """
        position = stamp_position(key)
        head, tail = key[:position], key[position + STAMP_BYTES : -4]
        first = head + read_version.to_bytes(8, "big") + b"\x00\x00" + tail
        self.has_stamps = True
        self._make_unreadable(first, after(head + b"\xff" * STAMP_BYTES + tail))
        placeholder = head + read_version.to_bytes(8, "big") + b"\x00\x00" + tail + key[-4:]
        self._push(placeholder, ("set_versionstamped_key", key, value))

    def _push(self, key: bytes, operation: Mutation) -> None:
        """Add an operation to a key that cannot be read before the commit."""
        entry = self.entries.get(key)
        if isinstance(entry, Pending):
            entry.unreadable = True
            entry.operations.append(operation)
        else:
            self._store(key, Pending(operation, unreadable=True))

    def _store(self, key: bytes, entry: Entry) -> None:
        if key not in self.entries:
            self._new_keys.append(key)
        self.entries[key] = entry

    def _is_unreadable(self, key: bytes) -> bool:
        entry = self.entries.get(key)
        if isinstance(entry, Pending):
            return entry.unreadable
        return key in self.unreadable

    def _make_unreadable(self, begin: bytes, end: bytes) -> None:
        for cleared_begin, cleared_end in self.cleared.within(begin, end):
            self._early.append(("clear_range", cleared_begin, cleared_end))
        self._early += self._mutations(self.keys(begin, end))
        self._forget(begin, end)
        self.cleared.remove(begin, end)
        if self.unreadable is _NONE:
            self.unreadable = RangeSet()
        self.unreadable.add(begin, end)

    def _forget(self, begin: bytes, end: bytes) -> None:
        if not self.entries:
            return
        keys = self._sort()
        first, last = bisect_left(keys, begin), bisect_left(keys, end)
        for key in keys[first:last]:
            del self.entries[key]
        del keys[first:last]

    # Reading

    def get(self, key: bytes) -> Entry | Unmodified:
        """Return what this transaction wrote to the key, or UNMODIFIED."""
        entry = self.entries.get(key, UNMODIFIED)
        if entry is UNMODIFIED and self.cleared.begins and key in self.cleared:
            return None
        return entry

    def touches(self, begin: bytes, end: bytes) -> bool:
        """Tell whether a read of ``[begin, end)`` sees anything of this buffer."""
        for ranges in (self.cleared, self.unreadable):
            if ranges.begins and ranges.intersects(begin, end):
                return True
        if not self.entries:
            return False
        if len(end) == len(begin) + 1 and end == after(begin):
            return begin in self.entries
        keys = self._sort()
        return bisect_left(keys, begin) < bisect_left(keys, end)

    def keys(self, begin: bytes, end: bytes) -> list[bytes]:
        """Return the keys in ``[begin, end)`` that have an entry, in order."""
        if not self.entries:
            return []
        keys = self._sort()
        first = bisect_left(keys, begin)
        return keys[first : bisect_left(keys, end, first)]

    def readable_from(self, begin: bytes, end: bytes) -> bytes | None:
        """Return the first unreadable key of ``[begin, end)``, or None."""
        if not self.has_stamps:
            return None
        found = self.unreadable.within(begin, end)[:1]
        first = found[0][0] if found else None
        for key in self.keys(begin, end if first is None else first):
            entry = self.entries[key]
            if isinstance(entry, Pending) and entry.unreadable:
                return key
        return first

    def readable_down_to(self, begin: bytes, end: bytes) -> bytes | None:
        """Return the end of the last unreadable keys of ``[begin, end)``, or None."""
        if not self.has_stamps:
            return None
        found = self.unreadable.within(begin, end)[-1:]
        last = found[0][1] if found else None
        for key in reversed(self.keys(begin if last is None else last, end)):
            entry = self.entries[key]
            if isinstance(entry, Pending) and entry.unreadable:
                return after(key)
        return last

    def undetermined(self, begin: bytes, end: bytes) -> list[Range]:
        """Return the parts of ``[begin, end)`` whose content depends on what is stored.

        Only these conflict with other transactions when the range is read: what this
        transaction set or cleared itself is known to it.
        """
        known = [
            (key, after(key))
            for key in self.keys(begin, end)
            if not isinstance(entry := self.entries[key], Pending) or entry.independent
        ]
        if not known:
            return self.cleared.outside(begin, end)
        return RangeSet.of([*known, *self.cleared.within(begin, end)]).outside(begin, end)

    def _sort(self) -> list[bytes]:
        if self._new_keys:
            if len(self._new_keys) <= _FEW:
                for key in self._new_keys:
                    insort(self._sorted_keys, key)
            else:
                self._sorted_keys.extend(self._new_keys)
                self._sorted_keys.sort()
            self._new_keys = []
        return self._sorted_keys

    # Committing

    def mutations(self) -> list[Mutation]:
        """Return what the commit applies, in order: clears of ranges before keys."""
        mutations = self._mutations(self._sort() if len(self.entries) > 1 else self.entries)
        if not (self._early or self.cleared.begins):
            return mutations
        cleared: list[Mutation] = [("clear_range", begin, end) for begin, end in self.cleared]
        return [*self._early, *cleared, *mutations]

    def _mutations(self, keys: Iterable[bytes]) -> list[Mutation]:
        mutations: list[Mutation] = []
        for key in keys:
            entry = self.entries[key]
            if isinstance(entry, Pending):
                mutations += entry.operations
            else:
                mutations.append(("clear", key, b"") if entry is None else ("set", key, entry))
        return mutations


# Atomic operations

Operation = Callable[[bytes | None, bytes], bytes | None]


def _number(value: bytes | None, length: int) -> int:
    return int.from_bytes((value or b"")[:length], "little")


def add(value: bytes | None, param: bytes) -> bytes:
    """Add two little-endian integers, dropping a carry past the parameter's length."""
    length = len(param)
    total = int.from_bytes(param, "little")
    if value:
        total += int.from_bytes(value[:length], "little")
    return total.to_bytes(length + 1, "little")[:length]


def bit_and(value: bytes | None, param: bytes) -> bytes:
    """Keep the bits set in both; an absent key takes the parameter."""
    if value is None:
        return param
    length = len(param)
    return (_number(value, length) & int.from_bytes(param, "little")).to_bytes(length, "little")


def bit_or(value: bytes | None, param: bytes) -> bytes:
    """Set the bits set in either."""
    length = len(param)
    return (_number(value, length) | int.from_bytes(param, "little")).to_bytes(length, "little")


def bit_xor(value: bytes | None, param: bytes) -> bytes:
    """Set the bits set in exactly one."""
    length = len(param)
    return (_number(value, length) ^ int.from_bytes(param, "little")).to_bytes(length, "little")


def maximum(value: bytes | None, param: bytes) -> bytes:
    """Keep the larger little-endian integer."""
    length = len(param)
    larger = int.from_bytes(param, "little")
    if value:
        larger = max(larger, int.from_bytes(value[:length], "little"))
    return larger.to_bytes(length, "little")


def minimum(value: bytes | None, param: bytes) -> bytes:
    """Keep the smaller little-endian integer; an absent key takes the parameter."""
    if value is None:
        return param
    length = len(param)
    smaller = min(_number(value, length), int.from_bytes(param, "little"))
    return smaller.to_bytes(length, "little")


def byte_max(value: bytes | None, param: bytes) -> bytes:
    """Keep the string that sorts last."""
    return param if value is None else max(value, param)


def byte_min(value: bytes | None, param: bytes) -> bytes:
    """Keep the string that sorts first."""
    return param if value is None else min(value, param)


def append_if_fits(value: bytes | None, param: bytes) -> bytes:
    """Append, unless the result would pass the value size limit."""
    value = value or b""
    return value + param if len(value) + len(param) <= VALUE_SIZE_LIMIT else value


def compare_and_clear(value: bytes | None, param: bytes) -> bytes | None:
    """Clear the key if it holds exactly the parameter."""
    return None if value == param else value


#: The binding's method name of each operation that depends on the stored value.
OPERATIONS: dict[str, Operation] = {
    "add": add,
    "bit_and": bit_and,
    "bit_or": bit_or,
    "bit_xor": bit_xor,
    "max": maximum,
    "min": minimum,
    "byte_max": byte_max,
    "byte_min": byte_min,
    "append_if_fits": append_if_fits,
    "compare_and_clear": compare_and_clear,
}
