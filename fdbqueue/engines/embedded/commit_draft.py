"""What the commit of a transaction will send: its writes, conflict ranges and read version."""

from __future__ import annotations

from fdbqueue.engines.embedded.errors import FDBError
from fdbqueue.engines.embedded.groups import CommitRequest
from fdbqueue.engines.embedded.limits import KEY_SIZE_LIMIT, VALUE_SIZE_LIMIT
from fdbqueue.engines.embedded.option_values import OptionValues
from fdbqueue.engines.embedded.ranges import Range
from fdbqueue.engines.embedded.writes import Mutation, WriteBuffer, stamp_position

#: What FoundationDB's client counts for a mutation and for a range besides their bytes.
_MUTATION_BYTES = 44
_RANGE_BYTES = 24
#: The approximate size counts each key and value at least once, and the exact one each a few
#: times at most: it is less than this many times as large.
_APPROXIMATION = 8


class CommitDraft:
    """Collect the writes and the conflict ranges of a transaction until it commits.

    The first argument of the methods that write says whether the write conflicts with the
    reads of other transactions.

    Args:
        options: The transaction's options.
    """

    __slots__ = (
        "approximate_size",
        "has_read",
        "options",
        "read_conflicts",
        "read_version",
        "versionstamped_keys",
        "write_conflicts",
        "writes",
    )

    def __init__(self, options: OptionValues) -> None:
        self.options = options
        self.writes = WriteBuffer()
        self.read_conflicts: list[Range] = []
        self.write_conflicts: list[Range] = []
        #: The keys set with a versionstamp, whose conflict ranges are known after the commit.
        self.versionstamped_keys: list[bytes] = []
        self.approximate_size = 0
        self.read_version: int | None = None
        self.has_read = False

    @property
    def has_written(self) -> bool:
        """Whether anything was written, or declared as written."""
        return bool(self.writes or self.write_conflicts)

    def disable_read_your_writes(self) -> None:
        """Let reads not see the writes.

        Raises:
            FDBError: 2000 after a read or a write.
        """
        if self.has_read or (self.options.read_your_writes and self.has_written):
            raise FDBError(2000)
        self.options.read_your_writes = False

    def add_read_conflict(self, begin: bytes, end: bytes) -> None:
        """Conflict with other writes to a range, except where it was written here before."""
        writes = self.writes
        if writes.is_seen and self.options.read_your_writes and writes.touches(begin, end):
            parts = writes.undetermined(begin, end)
            self.read_conflicts.extend(parts)
            self.approximate_size += len(parts) * (len(begin) + len(end) + _RANGE_BYTES)
        elif begin < end:
            self.read_conflicts.append((begin, end))
            self.approximate_size += len(begin) + len(end) + _RANGE_BYTES

    def add_write_conflict(self, begin: bytes, end: bytes) -> None:
        """Make others conflict as if a range had been written."""
        self.approximate_size += len(begin) + len(end) + _RANGE_BYTES
        self.write_conflicts.append((begin, end))

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
        self._admit(conflicts, key, key + b"\x00")
        self.approximate_size += _RANGE_BYTES - _MUTATION_BYTES  # as the client counts it
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
        self.approximate_size += len(begin) + len(end) + _MUTATION_BYTES
        if conflicts:
            self.add_write_conflict(begin, end)
        if self.options.read_your_writes:
            self.writes.clear_range(begin, end)
        else:
            self.writes.early.append(("clear_range", begin, end))

    def mutate(self, conflicts: bool, name: str, key: bytes, param: bytes) -> None:
        """Apply an atomic operation."""
        self._admit(conflicts, key, param)
        if self.options.read_your_writes:
            self.writes.mutate(name, key, param)
        else:
            self.writes.early.append((name, key, param))

    def set_versionstamped_key(self, _: bool, key: bytes, value: bytes) -> None:
        """Set a key that contains the commit's stamp, which makes others conflict with it."""
        self._admit(False, key, value)
        stamp_position(key)
        self.versionstamped_keys.append(key)
        if self.options.read_your_writes:
            self.writes.set_versionstamped_key(key, value, self.read_version or 0)
        else:
            self.writes.early.append(("set_versionstamped_key", key, value))

    def set_versionstamped_value(self, conflicts: bool, key: bytes, param: bytes) -> None:
        """Set a value that contains the commit's stamp."""
        self._admit(conflicts, key, param)
        stamp_position(param)
        if self.options.read_your_writes:
            self.writes.set_versionstamped_value(key, param)
        else:
            self.writes.early.append(("set_versionstamped_value", key, param))

    def _admit(self, conflicts: bool, key: bytes, value: bytes) -> None:
        """Check the limits of a write, and count it."""
        if key >= self.options.write_end:
            raise FDBError(2004)
        key_size, value_size = len(key), len(value)
        if key_size > KEY_SIZE_LIMIT:
            raise FDBError(2102)
        if value_size > VALUE_SIZE_LIMIT:
            raise FDBError(2103)
        size = key_size + value_size + _MUTATION_BYTES
        if conflicts:
            self.write_conflicts.append((key, key + b"\x00"))
            size += 2 * key_size + 1 + _RANGE_BYTES
        self.approximate_size += size

    def request(self, deadline: float | None) -> CommitRequest | None:
        """Return the request to commit this, None where nothing was written.

        Raises:
            FDBError: 2101 when it is larger than the transaction's size limit.
        """
        mutations = self.writes.mutations()
        size, limit = self.approximate_size, self.options.persistent.size_limit
        if size * _APPROXIMATION > limit:
            size = self._size(mutations)
            if size > limit:
                raise FDBError(2101)
        if not mutations and not self.write_conflicts:
            return None
        return CommitRequest(
            read_version=self.read_version,
            read_ranges=self.read_conflicts,
            write_ranges=self.write_conflicts,
            mutations=mutations,
            size=size,
            deadline=deadline,
        )

    def _size(self, mutations: list[Mutation]) -> int:
        """Return how many bytes the client counts for the commit."""
        size = 0
        for name, key, param in mutations:
            size += len(key) + (len(param) if name != "clear" else len(key) + 1) + _MUTATION_BYTES
        for ranges in (self.read_conflicts, self.write_conflicts):
            for begin, end in ranges:
                size += len(begin) + len(end) + _RANGE_BYTES
        return size
