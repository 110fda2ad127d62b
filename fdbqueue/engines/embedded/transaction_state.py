"""The state of a transaction: its options, what it has read and written, its commit and its end."""

from __future__ import annotations

import random
from _thread import RLock
from dataclasses import dataclass
from functools import partial

from fdbqueue.engines.embedded.commit_groups import CommitRequest
from fdbqueue.engines.embedded.commits import Committer
from fdbqueue.engines.embedded.fdb_errors import (
    BACKED_OFF,
    REPORTED_AS,
    VERSION_ERRORS,
    FDBError,
    copy_of,
)
from fdbqueue.engines.embedded.fdb_limits import (
    KEY_SIZE_LIMIT,
    KEYS_END,
    TRANSACTION_SIZE_LIMIT,
    VALUE_SIZE_LIMIT,
)
from fdbqueue.engines.embedded.futures import Delay, Future, ReadVersion, Versionstamp, WorkFuture
from fdbqueue.engines.embedded.keys import Range, RangeSet
from fdbqueue.engines.embedded.reservations import Reservation
from fdbqueue.engines.embedded.snapshots import Snapshot
from fdbqueue.engines.embedded.sqlite_file import Store
from fdbqueue.engines.embedded.view import View
from fdbqueue.engines.embedded.watches import Watch, WatchRegistry
from fdbqueue.engines.embedded.write_buffer import (
    MUTATION_BYTES,
    RANGE_BYTES,
    Mutation,
    WriteBuffer,
    sent_bytes,
    stamp_position,
)
from fdbqueue.exceptions import EngineUnavailable
from fdbqueue.steady import monotonic

#: The approximate size counts each key and value at least once, and the exact one each a few
#: times at most: it is less than this many times as large.
_APPROXIMATION = 8

_FIRST_PAUSE_SECONDS = 0.01
_VERSION_PAUSE_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class PersistentOptions:
    """The options that outlive ``on_error``, and that a database sets as defaults."""

    timeout_ms: int = 0
    retry_limit: int = -1
    max_retry_delay_ms: int = 1000
    size_limit: int = TRANSACTION_SIZE_LIMIT


class OptionValues:
    """The options in force for one transaction, which takes the first two from its database."""

    persistent = PersistentOptions()
    snapshot_read_your_writes = 1
    read_your_writes = True
    skip_next_write_conflict = False
    keys_end = KEYS_END
    write_end = KEYS_END


class TransactionState:
    """What a transaction has read and written, and whether it failed or is committing.

    Who calls a method that does not take :attr:`lock` holds it; so does who reads or changes what
    is kept here.

    Args:
        database: Stays alive as long as the transaction.
        store: Where to read.
        committer: Commits the transaction.
        watches: Keeps the watches of committed transactions.
        defaults: The options to start with.
    """

    #: What reads see of the file, None before the first one.
    snapshot: Snapshot | None = None
    _request: CommitRequest | None = None
    #: Whether to reserve the file before the first read, and the reservation.
    reserves = False
    _reservation: Reservation | None = None

    def __init__(
        self,
        database: object,
        store: Store,
        committer: Committer,
        watches: WatchRegistry,
        defaults: OptionValues,
    ) -> None:
        self.lock = RLock()
        self.database, self.store, self.watch_registry = database, store, watches
        self._committer = committer
        self._defaults = defaults
        self._created_at = monotonic()
        self._retries = 0
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        #: The version of the last commit; -1 if it wrote nothing.
        self.committed_version = -1
        self._begin_attempt(defaults.persistent)

    def _begin_attempt(self, persistent: PersistentOptions) -> None:
        self.options = options = OptionValues()
        options.persistent = persistent
        options.snapshot_read_your_writes = self._defaults.snapshot_read_your_writes
        #: Whether a use may go on without a look at what may keep it from that: no error is kept,
        #: no commit has begun, and there is no timeout.
        self.is_free = True
        #: The error of a write: raised by the next use; the writes after it have no effect.
        self.deferred: FDBError | None = None
        #: The error of a read, which the commit raises again.
        self.read_failure: Exception | None = None
        self._failure: FDBError | None = None  # raised by every use until a reset
        self._is_committing = self.reserves = False
        self._request = None
        self.snapshot = None
        #: When the time for the transaction is over, on the monotonic clock.
        self.deadline: float | None = None
        if persistent.timeout_ms:
            self.set_persistent(persistent)
        self.read_version = ReadVersion()
        self.has_read = False
        self.mutations: list[Mutation] = []
        self.read_conflicts: list[Range] = []
        self.write_conflicts: list[Range] = []
        #: The keys set with a versionstamp, whose conflict ranges are known after the commit.
        self.versionstamped_keys: list[bytes] = []
        self.approximate_size = 0
        #: The keys that were written one by one, and the ranges that were cleared.
        self._keys: set[bytes] = set()
        self._spans: RangeSet | None = None
        self._buffer: WriteBuffer | None = None
        #: How many of the mutations the buffer has.
        self._buffered = 0
        #: The watches to set after the commit.
        self.watches: list[Watch] = []
        #: The futures that wait for the commit's versionstamp.
        self.stamps: list[Versionstamp] = []

    def __del__(self) -> None:
        if self._reservation is not None:
            self._release()
        if self.snapshot is not None:
            self.snapshot.release()
        if self._request is not None and self._request.snapshot is not None:
            self._request.release()  # no thread waited for it

    # Use

    def check_usable(self) -> None:
        """Raise what keeps the transaction from being used; not needed while it is free."""
        if self.deferred is not None:
            raise copy_of(self.deferred)
        if self._is_committing:
            self._refuse_use_during_commit()
        self.check_failure()

    def check_failure(self) -> None:
        """Raise the error that the transaction failed with, or that its time is over."""
        self.note_timeout()
        if self._failure is not None:
            raise copy_of(self._failure)

    def _refuse_use_during_commit(self) -> None:
        self.fail(FDBError(2017))
        raise FDBError(2017)

    def _defer(self, error: FDBError) -> None:
        self.deferred, self.is_free = error, False

    def open(self) -> Snapshot:
        """Open the snapshot, at the read version if that was set."""
        version = self.read_version.number
        if self.reserves and version is None:
            self.reserve()
        snapshot = self.store.snapshot() if version is None else self.store.snapshot_at(version)
        self.snapshot = snapshot
        self.read_version.number = snapshot.version
        return snapshot

    def reserve(self) -> bool:
        """Reserve the file; see :meth:`Transaction.reserve`."""
        self.reserves = False
        if self.snapshot is not None:
            return True
        if self._reservation is None:
            self._reservation = self.store.reserve(self.deadline)
        return self._reservation is None or self._reservation.is_contended

    def stored(self) -> Snapshot:
        """Return the snapshot to read by."""
        self.has_read = True
        return self.snapshot or self.open()

    def view(self, is_snapshot: bool) -> View:
        """Return what is stored with what was written over it, if such a read sees that."""
        options = self.options
        sees_writes = options.read_your_writes and (
            not is_snapshot or options.snapshot_read_your_writes > 0
        )
        return View(
            self.stored,
            self.buffer() if sees_writes else None,
            options.keys_end,
            is_open=self.snapshot is not None,
            read=self.read_conflicts,
        )

    def set_persistent(self, persistent: PersistentOptions) -> None:
        """Replace the options that outlive ``on_error``."""
        with self.lock:
            self.options.persistent = persistent
            self.deadline = None
            if persistent.timeout_ms:
                self.deadline = self._created_at + persistent.timeout_ms / 1000
                self.is_free = False

    def disable_read_your_writes(self) -> None:
        """Let reads not see the writes; 2000 after a read or a write, kept as that of a write."""
        with self.lock:
            has_written = bool(self.mutations or self.write_conflicts)
            if self.deferred is not None:
                return
            if self.has_read or (self.options.read_your_writes and has_written):
                self._defer(FDBError(2000))
            else:
                self.options.read_your_writes = False

    def set_read_version(self, version: int) -> None:
        """Read at a given version; an error is kept as that of a write."""
        with self.lock:
            if self.deferred is not None:
                return
            if self.read_version.number is not None:
                self._defer(FDBError(2010))
            elif version <= 0:
                self._defer(FDBError(2011))
            else:
                self.read_version.number = self.read_version.known = version

    # Writes and conflict ranges

    def write(self, name: str, key: bytes, param: bytes) -> None:
        """Make the next write, as :data:`Mutation` has it.

        If FoundationDB's client raises an error, that is kept for the next read or the commit:
        nothing of the transaction may be committed.
        """
        with self.lock:
            if self.deferred is not None:
                return
            options = self.options
            conflicts = not options.skip_next_write_conflict
            options.skip_next_write_conflict = False
            try:
                if self._is_committing:
                    self._refuse_use_during_commit()
                if name == "clear_range":
                    self._clear_range(key, param, conflicts)
                    return
                key_size, size = len(key), len(param)
                if key >= options.write_end or key_size > KEY_SIZE_LIMIT or size > VALUE_SIZE_LIMIT:
                    self._refuse_write(name, key)
                    return
                size += key_size + MUTATION_BYTES
                if name == "clear":  # the client counts it as a range
                    size += key_size + 1 + RANGE_BYTES - MUTATION_BYTES
                elif name == "set_versionstamped_value":
                    stamp_position(param)
                if conflicts:
                    self.write_conflicts.append((key, key + b"\x00"))
                    size += 2 * key_size + 1 + RANGE_BYTES
                self.approximate_size += size
                self._keys.add(key)
                self.mutations.append((name, key, param))
            except FDBError as error:
                self._defer(error)

    def set_versionstamped_key(self, key: bytes, value: bytes) -> None:
        """Set a key that contains the commit's stamp, which makes others conflict with it."""
        with self.lock:
            self.options.skip_next_write_conflict = True
            self.write("set_versionstamped_key", key, value)
            if self.deferred is not None:
                return
            try:
                stamp_position(key)
            except FDBError as error:
                self._defer(error)
                return
            self.versionstamped_keys.append(key)
            if self.options.read_your_writes:
                self.buffer()  # what becomes unreadable depends on the version that is known now

    def _refuse_write(self, name: str, key: bytes) -> None:
        if key >= self.options.write_end:
            raise FDBError(2004)
        if len(key) <= KEY_SIZE_LIMIT:
            raise FDBError(2103)
        if name != "clear":  # one that is too long is not there
            raise FDBError(2102)

    def _clear_range(self, begin: bytes, end: bytes, conflicts: bool) -> None:
        if begin > end:
            raise FDBError(2005)
        if end > self.options.write_end:
            raise FDBError(2004)
        if begin == end:
            return
        self.approximate_size += len(begin) + len(end) + MUTATION_BYTES
        if conflicts:
            self.approximate_size += len(begin) + len(end) + RANGE_BYTES
            self.write_conflicts.append((begin, end))
        if self._spans is None:
            self._spans = RangeSet()
        self._spans.add(begin, end)
        self.mutations.append(("clear_range", begin, end))

    def add_conflict(self, begin: bytes, end: bytes, *, is_read: bool) -> None:
        """Conflict as if a range had been read, or written; an error is kept as a write's.

        Raises:
            FDBError: 2005 when the range is inverted.
        """
        if begin > end:
            raise FDBError(2005)
        with self.lock:
            if self.deferred is not None:
                return
            try:
                if self._is_committing:
                    self._refuse_use_during_commit()
                if end > self.options.keys_end:
                    raise FDBError(2004)
            except FDBError as error:
                self._defer(error)
                return
            if is_read:
                self.add_read_conflict(begin, end)
            elif begin < end:
                self.approximate_size += len(begin) + len(end) + RANGE_BYTES
                self.write_conflicts.append((begin, end))

    def add_read_conflict(self, begin: bytes, end: bytes) -> None:
        """Conflict with other writes to a range, except what was written here before."""
        if begin >= end:
            return
        size = len(begin) + len(end) + RANGE_BYTES
        if self.mutations and self.options.read_your_writes:
            if self.versionstamped_keys or end != begin + b"\x00":
                touches = self.buffer().touches(begin, end)
            else:  # one key, as that of each receipt: mostly answered without the buffer
                touches = begin in self._keys or (self._spans is not None and begin in self._spans)
            if touches:
                parts = self.buffer().undetermined(begin, end)
                self.read_conflicts.extend(parts)
                self.approximate_size += len(parts) * size
                return
        self.read_conflicts.append((begin, end))
        self.approximate_size += size

    def buffer(self) -> WriteBuffer:
        """Return what was written, as reads of the transaction see it."""
        buffer = self._buffer
        if buffer is not None and self._buffered == len(self.mutations):
            return buffer
        self._buffer = None  # if an interrupt leaves it half done, it is made again
        if buffer is None:
            buffer, self._buffered = WriteBuffer(), 0
        for mutation in self.mutations[self._buffered :]:
            buffer.write(*mutation, self.read_version.known or 0)
        self._buffered = len(self.mutations)
        self._buffer = buffer
        return buffer

    # Commit

    def commit(self) -> Future[None]:
        """Commit; see :meth:`Transaction.commit`."""
        with self.lock:
            try:
                if not self.is_free:
                    self.check_usable()
            except FDBError as error:
                return Future(error=error)
            self._is_committing, self.is_free = True, False
            try:
                request = self._commit_request()
            except (FDBError, EngineUnavailable) as error:
                if self.read_failure is None:  # otherwise a commit does not get this far
                    self._end_stamps(error=FDBError(2020))
                return Future(error=error)
            if request is None:
                return self._commit_nothing()
            self._request = request
            self._committer.submit(request)
            future = WorkFuture(partial(self._finish_commit, request))
            for stamp in self.stamps:
                stamp.attach(future)
            return future

    def _commit_nothing(self) -> Future[None]:
        """End a transaction that has only read: the disk must have what it has read."""
        self._release()
        self.committed_version = -1
        if self.stamps:
            self._end_stamps(error=FDBError(2021))
        if self.watches:
            self._set_watches()
        version = self.read_version.number or 0
        is_synced = self.store.has_synced(version)
        return Future() if is_synced else WorkFuture(partial(self.store.confirm, version))

    def _commit_request(self) -> CommitRequest | None:
        """Return what to commit, None when nothing was written.

        Raises:
            FDBError: 1007 if what was read is too old to be compared with later commits, 2101 if
                the transaction is larger than its size limit, or what a read failed with.
        """
        if self.read_failure is not None:
            raise copy_of(self.read_failure)
        mutations = self.mutations
        size, limit = self.approximate_size, self.options.persistent.size_limit
        if size * _APPROXIMATION > limit:
            if self.options.read_your_writes:
                mutations = self.buffer().mutations()  # as few as the client would send
            size = sent_bytes(mutations, [*self.read_conflicts, *self.write_conflicts])
            if size > limit:
                raise FDBError(2101)
        request = None
        if mutations or self.write_conflicts:
            request = CommitRequest(
                read_version=self.read_version.number,
                read_ranges=self.read_conflicts,
                write_ranges=self.write_conflicts,
                mutations=mutations,
                size=size,
                deadline=self.deadline,
            )
        snapshot, self.snapshot = self.snapshot, None
        if snapshot is not None:
            if request is None:
                snapshot.release()
            elif self.read_conflicts and snapshot.expired:
                snapshot.release()
                raise FDBError(1007)
            else:
                request.snapshot = snapshot
        return request

    def _release(self, request: CommitRequest | None = None) -> None:
        """Release the reservation of the attempt, if it still has it; after its commit, if any."""
        reservation, self._reservation = self._reservation, None
        if reservation is not None:
            reservations = self.store.turn.reservations
            if request is not None:
                reservations.is_strict = request.refusal is not None
            reservations.release(reservation.number)

    def _finish_commit(self, request: CommitRequest) -> None:
        reservations = self.store.turn.reservations
        if self._reservation is None:
            reservations.let_pass(self.deadline)
            self._committer.wait(request)
        else:
            reservations.hold(self._reservation.number)
            request.on_written = partial(self._release, request)  # others go on then
            try:
                self._committer.wait(request)
            finally:
                request.on_written = None
                self._release(request)
        with self.lock:
            if request.error is not None:
                self.note_timeout()
                self._end_stamps(error=FDBError(2020))
                raise copy_of(request.error)
            self.committed_version = request.version
            self.read_version.number = request.read_version
            self.versionstamped_keys = []  # now known, and in the conflict ranges
            if self.stamps:
                self._end_stamps(stamp=request.stamp)
            if self.watches:
                self._set_watches()

    def _set_watches(self) -> None:
        watches, self.watches = self.watches, []
        version = max(self.committed_version, self.read_version.number or 0)
        for watch in watches:
            try:
                self.watch_registry.activate(watch, version)
            except Exception as error:  # noqa: BLE001  # the commit stays; the watch fails
                watch.complete(error)

    def _end_stamps(self, *, stamp: bytes | None = None, error: Exception | None = None) -> None:
        stamps, self.stamps = self.stamps, []
        for future in stamps:
            future.end(stamp, error)

    # The end of an attempt

    def retry(self, code: int) -> Delay | Future[None]:
        """Begin the next attempt after an error; see :meth:`Transaction.on_error`."""
        with self.lock:
            try:
                self.check_failure()
                pause_seconds = self._pause_after(code)
            except FDBError as failure:
                known = None if self._request is None else self._request.error  # it may say more
                self.fail(FDBError(1025))
                is_same = known is not None and known.args == failure.args
                return Future(error=copy_of(known) if known and is_same else failure)
            request = self._request
            conflicted = code == 1020 and request is not None and request.refusal == 1020
            self._drop_attempt()
            self._begin_attempt(self.options.persistent)
            if conflicted and self.store.turn.reservations.open() is not None:
                self.reserves, pause_seconds = True, 0.0  # it waits before it reads
            return Delay(pause_seconds)

    def _pause_after(self, code: int) -> float:
        """Count a retry, and return how many seconds to wait after an error of this code.

        Raises:
            FDBError: Running again would not help, or the limit is reached.
        """
        persistent = self.options.persistent
        longest_seconds = persistent.max_retry_delay_ms / 1000
        code = REPORTED_AS.get(code, code) if code >= 0 else 4000
        self._retries += 1
        if persistent.retry_limit != -1 and self._retries > persistent.retry_limit:
            raise FDBError(code)
        if code in VERSION_ERRORS:
            return min(_VERSION_PAUSE_SECONDS, longest_seconds)
        if code not in BACKED_OFF:
            raise FDBError(code)
        pause_seconds = min(self._pause_seconds, longest_seconds) * random.random()
        self._pause_seconds = min(self._pause_seconds * 2, longest_seconds)
        return pause_seconds

    def reset(self) -> None:
        """Begin as a new transaction does."""
        with self.lock:
            self._drop_attempt()
            self._created_at = monotonic()
            self._retries, self._pause_seconds = 0, _FIRST_PAUSE_SECONDS
            self._begin_attempt(self._defaults.persistent)

    def fail(self, error: FDBError) -> None:
        """Raise an error from every use until a reset, unless it failed before."""
        with self.lock:
            if self._failure is not None:
                return
            self._failure, self.is_free = error, False
            if self._request is not None:
                self._committer.withdraw(self._request, error)
            self._end_attempt(error)

    def note_timeout(self) -> None:
        """Fail the transaction if its time is over."""
        with self.lock:
            if self.deadline is not None and monotonic() > self.deadline:
                self.fail(FDBError(1031))

    def _drop_attempt(self) -> None:
        if self._request is not None:
            self._committer.withdraw(self._request, FDBError(1025))
        self._end_stamps(error=FDBError(1100))
        self._end_attempt(FDBError(1025))

    def _end_attempt(self, error: FDBError) -> None:
        snapshot, self.snapshot = self.snapshot, None
        if snapshot is not None:
            snapshot.release()
        if self._reservation is not None:
            self._release()
        self._end_stamps(error=error)
        watches, self.watches = self.watches, []
        for watch in watches:
            watch.complete(error)
