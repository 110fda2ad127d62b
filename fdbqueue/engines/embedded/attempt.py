"""One attempt at a transaction: what it has read and written so far."""

from __future__ import annotations

from fdbqueue.engines.embedded.errors import FDBError
from fdbqueue.engines.embedded.limits import KEY_SIZE_LIMIT, VALUE_SIZE_LIMIT
from fdbqueue.engines.embedded.options import OptionValues
from fdbqueue.engines.embedded.ranges import Range, after
from fdbqueue.engines.embedded.writes import Mutation, WriteBuffer, stamp_position

#: What FoundationDB's client counts for a mutation and for a conflict range.
_MUTATION_BYTES = 40
_RANGE_BYTES = 24


class Attempt:
    """Gather the writes and the conflict ranges of a transaction until it ends.

    The methods that write take first whether others shall conflict with the write.

    Args:
        options: The transaction's options.
    """

    def __init__(self, options: OptionValues) -> None:
        self.options = options
        self.writes = WriteBuffer()
        self.read_conflicts: list[Range] = []
        self.write_conflicts: list[Range] = []
        #: What was set with a stamp to come, which is not in the conflict ranges before.
        self.versionstamped_keys: list[bytes] = []
        self.approximate_size = 0
        self.read_version: int | None = None
        self.has_read = False

    @property
    def has_written(self) -> bool:
        """Whether anything was written, or declared as written."""
        return bool(self.writes or self.write_conflicts)

    def disable_read_your_writes(self) -> None:
        """Let reads pass the writes by.

        Raises:
            FDBError: 2000 after a read or a write.
        """
        if self.has_read or (self.options.read_your_writes and self.has_written):
            raise FDBError(2000)
        self.options.read_your_writes = False

    def depend_on(self, begin: bytes, end: bytes) -> None:
        """Conflict with others' writes to a range, but for what was written here before."""
        if self.options.read_your_writes and self.writes:
            parts = self.writes.undetermined(begin, end)
            self.read_conflicts.extend(parts)
            self.approximate_size += len(parts) * (len(begin) + len(end) + _RANGE_BYTES)
        elif begin < end:
            self.read_conflicts.append((begin, end))
            self.approximate_size += len(begin) + len(end) + _RANGE_BYTES

    def set(self, conflicts: bool, key: bytes, value: bytes) -> None:
        """Set a key."""
        self._admit(conflicts, key, value)
        if self.options.read_your_writes:
            self.writes.set(key, value)
        else:
            self.writes.early.append(("set", key, value))

    def clear(self, conflicts: bool, key: bytes) -> None:
        """Clear a key."""
        if key >= self.options.write_end:
            raise FDBError(2004)
        if len(key) > KEY_SIZE_LIMIT:
            return
        self._count(conflicts, key, b"")
        if self.options.read_your_writes:
            self.writes.clear(key)
        else:
            self.writes.early.append(("clear", key, b""))

    def clear_range(self, conflicts: bool, begin: bytes, end: bytes) -> None:
        """Clear a range."""
        if begin > end:
            raise FDBError(2005)
        if end > self.options.write_end:
            raise FDBError(2004)
        if begin == end:
            return
        self._count(False, begin, end)
        if conflicts:
            self.written(begin, end)
        if self.options.read_your_writes:
            self.writes.clear_range(begin, end)
        else:
            self.writes.early.append(("clear_range", begin, end))

    def mutate(self, conflicts: bool, key: bytes, param: bytes, name: str) -> None:
        """Apply an atomic operation."""
        self._admit(conflicts, key, param)
        if self.options.read_your_writes:
            self.writes.mutate(name, key, param)
        else:
            self.writes.early.append((name, key, param))

    def set_versionstamped_key(self, _: bool, key: bytes, value: bytes) -> None:
        """Set a key stamped by the commit, which makes others conflict with it."""
        self._admit(False, key, value)
        stamp_position(key)
        self.versionstamped_keys.append(key)
        if self.options.read_your_writes:
            self.writes.set_versionstamped_key(key, value, self.read_version or 0)
        else:
            self.writes.early.append(("set_versionstamped_key", key, value))

    def set_versionstamped_value(self, conflicts: bool, key: bytes, param: bytes) -> None:
        """Set a value stamped by the commit."""
        self._admit(conflicts, key, param)
        stamp_position(param)
        if self.options.read_your_writes:
            self.writes.set_versionstamped_value(key, param)
        else:
            self.writes.early.append(("set_versionstamped_value", key, param))

    def _admit(self, conflicts: bool, key: bytes, value: bytes) -> None:
        if key >= self.options.write_end:
            raise FDBError(2004)
        if len(key) > KEY_SIZE_LIMIT:
            raise FDBError(2102)
        if len(value) > VALUE_SIZE_LIMIT:
            raise FDBError(2103)
        self._count(conflicts, key, value)

    def _count(self, conflicts: bool, key: bytes, param: bytes) -> None:
        size = len(key) + len(param) + _MUTATION_BYTES
        if conflicts:
            self.write_conflicts.append((key, after(key)))
            size += 2 * len(key) + 1 + _RANGE_BYTES
        self.approximate_size += size

    def written(self, begin: bytes, end: bytes) -> None:
        """Make others conflict as if a range had been written."""
        self.approximate_size += len(begin) + len(end) + _RANGE_BYTES
        self.write_conflicts.append((begin, end))

    def size(self, mutations: list[Mutation]) -> int:
        """Return how many bytes a commit of the mutations would send."""
        size = sum([len(key) + len(param) for _, key, param in mutations])
        for begin, end in self.read_conflicts:
            size += len(begin) + len(end)
        for begin, end in self.write_conflicts:
            size += len(begin) + len(end)
        return size
