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
#: What it counts for a mutation of one key that conflicts, besides its parameter and three times
#: the key.
_POINT_BYTES = _MUTATION_BYTES + _RANGE_BYTES + 1
#: The approximate size counts each key and value at least once, and the exact one each a few
#: times at most: it is less than this many times as large.
_APPROXIMATION = 8


class CommitDraft:
    """Collect the writes and the conflict ranges of a transaction until it commits.

    The commit sends the writes in the order in which they were made. What reads of the transaction
    see of them is worked out by a :class:`WriteBuffer`, once they ask.

    The first argument of the methods that write says whether the write conflicts with the
    reads of other transactions. They raise :class:`FDBError` where FoundationDB's client does; then
    nothing of the transaction may be committed.

    Args:
        options: The transaction's options.
    """

    __slots__ = (
        "_buffer",
        "_buffered",
        "_has_spans",
        "_keys",
        "approximate_size",
        "has_read",
        "mutations",
        "options",
        "read_conflicts",
        "read_version",
        "versionstamped_keys",
        "write_conflicts",
    )

    def __init__(self, options: OptionValues) -> None:
        self.options = options
        self.mutations: list[Mutation] = []
        self.read_conflicts: list[Range] = []
        self.write_conflicts: list[Range] = []
        #: The keys set with a versionstamp, whose conflict ranges are known after the commit.
        self.versionstamped_keys: list[bytes] = []
        self.approximate_size = 0
        self.read_version: int | None = None
        self.has_read = False
        self._buffer: WriteBuffer | None = None
        #: How many of the mutations the buffer has.
        self._buffered = 0
        #: The keys that were written one by one, and whether more than these was written.
        self._keys: set[bytes] = set()
        self._has_spans = False

    def buffer(self) -> WriteBuffer:
        """Return what was written, as reads of the transaction see it."""
        buffer = self._buffer
        if buffer is not None and self._buffered == len(self.mutations):
            return buffer
        self._buffer = None  # where an interrupt leaves it half done, it is made anew
        if buffer is None:
            buffer, self._buffered = WriteBuffer(), 0
        for mutation in self.mutations[self._buffered :]:
            buffer.write(*mutation, self.read_version or 0)
        self._buffered = len(self.mutations)
        self._buffer = buffer
        return buffer

    @property
    def has_written(self) -> bool:
        """Whether anything was written, or declared as written."""
        return bool(self.mutations or self.write_conflicts)

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
        if self.mutations and self.options.read_your_writes and self._may_touch(begin, end):
            parts = self.buffer().undetermined(begin, end)
            self.read_conflicts.extend(parts)
            self.approximate_size += len(parts) * (len(begin) + len(end) + _RANGE_BYTES)
        elif begin < end:
            self.read_conflicts.append((begin, end))
            self.approximate_size += len(begin) + len(end) + _RANGE_BYTES

    def _may_touch(self, begin: bytes, end: bytes) -> bool:
        """Tell whether a range was written to; for one key, mostly, without the buffer."""
        if self._has_spans or len(end) != len(begin) + 1 or end != begin + b"\x00":
            return self.buffer().touches(begin, end)
        return begin in self._keys

    def add_write_conflict(self, begin: bytes, end: bytes) -> None:
        """Make others conflict as if a range had been written."""
        self.approximate_size += len(begin) + len(end) + _RANGE_BYTES
        self.write_conflicts.append((begin, end))

    def write(self, conflicts: bool, name: str, key: bytes, param: bytes) -> None:
        """Set a key, or apply an atomic operation."""
        if key >= self.options.write_end:
            raise FDBError(2004)
        key_size, param_size = len(key), len(param)
        if key_size > KEY_SIZE_LIMIT:
            raise FDBError(2102)
        if param_size > VALUE_SIZE_LIMIT:
            raise FDBError(2103)
        if conflicts:
            self.write_conflicts.append((key, key + b"\x00"))
            self.approximate_size += 3 * key_size + param_size + _POINT_BYTES
        else:
            self.approximate_size += key_size + param_size + _MUTATION_BYTES
        self._keys.add(key)
        self.mutations.append((name, key, param))

    def clear(self, conflicts: bool, key: bytes) -> None:
        """Clear a key; one that is too long is not there."""
        if len(key) <= KEY_SIZE_LIMIT or key >= self.options.write_end:
            self.write(conflicts, "clear", key, b"")
            # the client counts it as a range
            self.approximate_size += len(key) + 1 + _RANGE_BYTES - _MUTATION_BYTES

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
        self._has_spans = True
        self.mutations.append(("clear_range", begin, end))

    def set_versionstamped_key(self, _: bool, key: bytes, value: bytes) -> None:
        """Set a key that contains the commit's stamp, which makes others conflict with it."""
        self._has_spans = True
        self.write(False, "set_versionstamped_key", key, value)
        stamp_position(key)
        self.versionstamped_keys.append(key)
        if self.options.read_your_writes:
            self.buffer()  # what becomes unreadable depends on the read version as it is now

    def set_versionstamped_value(self, conflicts: bool, key: bytes, param: bytes) -> None:
        """Set a value that contains the commit's stamp."""
        self.write(conflicts, "set_versionstamped_value", key, param)
        stamp_position(param)

    def request(self, deadline: float | None) -> CommitRequest | None:
        """Return the request to commit this, None where nothing was written.

        Raises:
            FDBError: 2101 when it is larger than the transaction's size limit.
        """
        mutations = self.mutations
        size, limit = self.approximate_size, self.options.persistent.size_limit
        if size * _APPROXIMATION > limit:
            if self.options.read_your_writes:
                mutations = self.buffer().mutations()  # as few as the client would send
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
