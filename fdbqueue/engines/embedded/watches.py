"""Watches: futures that are ready once a key has changed, in whichever process.

A process with watches owns a pipe in ``-sync``, and lists beside it which keys it watches. Each
commit writes a byte into the pipes of those that watch what it has written; it looks for new ones
if a lock file says so, and every 10 ms. The byte wakes the owner's thread, which reads in the
history which keys changed, and compares values.

No wake is lost: a watch lists its key, then compares its value; a commit is visible, then it reads
the lists. A list that is missing, too long or half written stands for all keys. If a process could
not wake all, its next commit does; if it is killed before it wakes any, the next change of the key
does. A commit removes a dead owner's pipe; an owner makes one that was deleted again within a
second.
"""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import select
import struct
import threading
import time
import uuid
import weakref
import zlib
from collections.abc import Callable, Iterable, KeysView, Sequence
from typing import Any

from fdbqueue.engines.embedded import version_clock
from fdbqueue.engines.embedded.fdb_errors import FDBError
from fdbqueue.engines.embedded.fdb_limits import MAX_WATCHES
from fdbqueue.engines.embedded.files import CHECK_SECONDS, STAMP_GRANULARITY_NS, Descriptors
from fdbqueue.engines.embedded.futures import SignalledFuture
from fdbqueue.engines.embedded.keys import Range, RangeSet, after, encoded
from fdbqueue.engines.embedded.reservations import PIPES
from fdbqueue.engines.embedded.snapshots import Snapshot
from fdbqueue.engines.embedded.sqlite_file import Store
from fdbqueue.engines.embedded.turn import WriterTurn
from fdbqueue.exceptions import EngineUnavailable
from fdbqueue.locks import RLock
from fdbqueue.logs import get_logger
from fdbqueue.own_threads import OwnThread

logger = get_logger(__name__)

_PIPE_PREFIX, _LIST_PREFIX = "watch-", "keys-"
#: The bytes of a list: what is longer stands for all keys. Its head: its length, and a checksum.
_LIST_BYTES, _LIST_HEAD = 4096, struct.Struct("=II")
#: Nor has a list more keys.
_MOST_LISTED = 100
_LINGER_SECONDS = 1.0
#: A list that is older, and has no pipe, is of a process that was killed.
_ORPHANED_SECONDS = 60.0
#: How long the thread sleeps after a look by which no watch became ready: twice as long after each,
#: at most the latter. A push beside four idle processes takes 0.8 times as long as without.
_FIRST_REST_SECONDS, _LONGEST_REST_SECONDS = 0.0005, 0.002
_RETRY_SECONDS = 0.02


class Notifier:
    """Wake the processes that watch what was changed.

    A pipe whose owner died is removed by the next commit that would wake it.

    Args:
        turn: The writer's turn; in its directory the pipes are.
    """

    def __init__(self, turn: WriterTurn) -> None:
        self._directory = turn.directory
        self._turn = turn
        #: Each pipe, and the list of what its owner watches, -1 if that is missing.
        self._pipes: dict[str, tuple[int, int]] = {}
        #: Whether each commit so far has woken all that watch its keys; if not, the next wakes all.
        self._is_sure = True
        #: The lists that were read last, and their keys.
        self._lists: dict[bytes, list[bytes] | None] = {}
        self._changed_at = -1  # until everything there was looked at
        #: Which number the lock file had then, and when to look all the same.
        self._newest: bytes | None = None
        self._look_at = 0.0

    def notify(self, written: Sequence[Range] | None = None) -> None:
        """Write a byte into the pipes of who watches what was written; a full one wakes, too.

        Raises nothing: what was committed stays so. A pipe that could not be reached is
        tried again at the next commit.

        Args:
            written: What commits have changed; None if that is not known.
        """
        is_sure, self._is_sure = self._is_sure, False
        has_found = self._find()
        changed = RangeSet.of(written) if is_sure and written is not None and self._pipes else None
        known, self._lists = self._lists, {}
        for name, (pipe, listed) in list(self._pipes.items()):
            try:
                if changed is None or self._is_for(listed, changed, known):
                    os.write(pipe, b"!")
            except BlockingIOError:
                continue
            except OSError:
                self._drop(name)
        self._is_sure = has_found

    def _is_for(
        self, listed: int, changed: RangeSet, known: dict[bytes, list[bytes] | None]
    ) -> bool:
        """Tell whether a list has a key of these ranges, or stands for all keys."""
        data = os.pread(listed, _LIST_BYTES, 0) if listed >= 0 else b""
        keys = self._lists[data] = known[data] if data in known else _keys_in(data)
        return keys is None or any(key in changed for key in keys)

    def _find(self) -> bool:
        """Look for new pipes, if there may be any; tell whether all are open."""
        shared, now, newest = self._turn.reservations.shared, version_clock.seconds(), None
        try:
            if shared is not None:
                newest = os.pread(shared.descriptor, *PIPES)
            is_known = newest == self._newest and newest is not None and self._changed_at != -1
            if not is_known or now >= self._look_at:
                if os.stat(self._directory).st_mtime_ns != self._changed_at and not self._look():
                    return False
                if self._changed_at != -1:
                    self._newest, self._look_at = newest, now + CHECK_SECONDS
        except FileNotFoundError:
            self._turn.doubt()
        except OSError:
            self._changed_at = -1
            logger.exception("the watching processes cannot be found")
            return False
        return True

    def close(self) -> None:
        """Close every pipe; they are opened again when needed."""
        self._changed_at = -1
        for name in list(self._pipes):
            self._close(name)

    def _look(self) -> bool:
        """Open the pipes that are there; tell whether all are open."""
        changed_at = os.stat(self._directory).st_mtime_ns
        self._turn.doubt()
        self._changed_at = -1
        settled, is_reached = time.time_ns() - changed_at > STAMP_GRANULARITY_NS, True
        found = os.listdir(self._directory)
        names = {name for name in found if name.startswith(_PIPE_PREFIX)}
        self._remove_orphans(found, names)
        for name in self._pipes.keys() - names:
            self._close(name)
        for name in names - self._pipes.keys():
            try:
                path = os.path.join(self._directory, name)
                pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
                self._pipes[name] = pipe, -1
                with contextlib.suppress(FileNotFoundError):
                    self._pipes[name] = pipe, os.open(_list_of(path), os.O_RDONLY)
            except OSError as error:
                if error.errno == errno.ENXIO:  # its owner died
                    self._drop(name)
                else:
                    is_reached = False
                    logger.warning("a watching process cannot be woken", exc_info=error)
        self._changed_at = changed_at if settled and is_reached else -1
        return is_reached

    def _remove_orphans(self, found: Iterable[str], pipes: set[str]) -> None:
        """Remove lists without a pipe, but for new ones: a list is there before its pipe."""
        for name in found:
            pipe = _PIPE_PREFIX + name.removeprefix(_LIST_PREFIX)
            if name.startswith(_LIST_PREFIX) and pipe not in pipes:
                path = os.path.join(self._directory, name)
                with contextlib.suppress(OSError):
                    if time.time() - os.stat(path).st_mtime > _ORPHANED_SECONDS:
                        os.unlink(path)

    def _drop(self, name: str) -> None:
        self._close(name)
        path = os.path.join(self._directory, name)
        for one in (path, _list_of(path)):
            with contextlib.suppress(OSError):
                os.unlink(one)

    def _close(self, name: str) -> None:
        for descriptor in self._pipes.pop(name, ()):
            if descriptor >= 0:
                os.close(descriptor)


def _list_of(path: str) -> str:
    """Return the path of the list of what the owner of a pipe watches."""
    directory, name = os.path.split(path)
    return os.path.join(directory, _LIST_PREFIX + name.removeprefix(_PIPE_PREFIX))


def _keys_in(data: bytes) -> list[bytes] | None:
    """Return the keys of a list; None if it stands for all keys."""
    if len(data) < _LIST_HEAD.size:
        return None
    size, checksum = _LIST_HEAD.unpack_from(data)
    keys = data[_LIST_HEAD.size : _LIST_HEAD.size + size]
    return RangeSet.decode(keys).begins if size and zlib.crc32(keys) == checksum else None


class Watch(SignalledFuture):
    """Becomes ready when the key no longer holds ``value``.

    As with the binding, a watch that no object refers to any more is cancelled.

    Args:
        database: Stays alive as long as the watch.
        registry: Where it is kept once its transaction has committed.
        key: The key watched.
        value: What the transaction saw there, None if it saw nothing.
    """

    def __init__(
        self, database: object, registry: WatchRegistry, key: bytes, value: bytes | None
    ) -> None:
        super().__init__()
        self._database = database
        self.key = key
        self.value = value
        self.version = 0
        self._registry = registry

    def complete(self, error: Exception | None = None) -> None:
        """Make the watch ready and forget it."""
        self._registry.remove(self)
        super().complete(error)

    def on_ready(self, callback: Callable[[Any], object]) -> None:
        """Call ``callback(self)`` once completed, and stay alive until then."""
        self._registry.keep(self)
        super().on_ready(callback)


class WatchRegistry:
    """The watches of one process on one file, and the thread that completes them.

    The thread runs while there is something to watch, and a second longer.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._start_empty()

    def _start_empty(self) -> None:
        self._lock = RLock()
        self._watches: dict[bytes, weakref.WeakSet[Watch]] = {}
        self._all: weakref.WeakSet[Watch] = weakref.WeakSet()
        self._kept: set[Watch] = set()
        self._pipe: _Pipe | None = None
        self._thread: threading.Thread | None = None

    def create(self, database: object, key: bytes, value: bytes | None) -> Watch:
        """Return a watch that is not set yet.

        Raises:
            FDBError: 1032 when 10,000 are in use already.
        """
        with self._lock:
            if len(self._all) >= MAX_WATCHES:
                raise FDBError(1032)
            watch = Watch(database, self, key, value)
            self._all.add(watch)
            return watch

    def activate(self, watch: Watch, version: int) -> None:
        """Set a watch whose transaction has committed; it may be ready at once.

        Args:
            version: The oldest version whose value tells a change.

        Raises:
            EngineUnavailable: The directory of the pipes cannot be written.
        """
        with self._lock:
            if watch.is_ready():
                return
            watch.version = version
            self._watches.setdefault(watch.key, weakref.WeakSet()).add(watch)
            if self._pipe is None or self._thread is None or not self._thread.is_alive():
                self._start_thread()
            if self._pipe is not None:
                if not self._pipe.has_listed({watch.key}):
                    self._list(self._pipe)
                self._pipe.call()
        snapshot = self._store.snapshot()
        try:
            self._compare(snapshot, [watch.key])
        finally:
            snapshot.release()

    def _list(self, pipe: _Pipe) -> None:
        """List what is watched; again, if a signal handler has set a watch meanwhile."""
        try:
            pipe.list(self._watches)
            while not pipe.has_listed(self._watches.keys()):
                pipe.list(self._watches)
                pipe.wake()  # a commit may have read the list without the handler's key
        except OSError as error:
            raise EngineUnavailable(path=self._store.path, reason=str(error)) from error

    def _start_thread(self) -> None:
        """Start the thread, also if an interrupt kept it from starting before."""
        before = self._pipe
        try:
            pipe = _Pipe(self._store.turn, self._watches)
        except OSError as error:
            raise EngineUnavailable(path=self._store.path, reason=str(error)) from error
        try:
            thread = OwnThread(self._tend, args=(pipe,), name="fdbqueue-watches")
            self._pipe, self._thread = pipe, thread
            thread.start()
            if before is not None:
                before.retire()
        except BaseException:
            if self._pipe is not pipe:
                pipe.remove()
            raise

    def keep(self, watch: Watch) -> None:
        """Keep a watch alive that has a callback."""
        with self._lock:
            if not watch.is_ready():
                self._kept.add(watch)

    def remove(self, watch: Watch) -> None:
        """Forget a watch; without effect if it is not known."""
        with self._lock:
            self._all.discard(watch)
            self._kept.discard(watch)
            if watch.key in self._watches:
                self._watches[watch.key].discard(watch)
                self._prune([watch.key])

    def abandon(self, error: Exception) -> None:
        """End every watch with an error, and the thread with them."""
        with self._lock:
            watches = list(self._all)
            pipe, self._pipe = self._pipe, None
        for watch in watches:
            watch.complete(error)
        if pipe is not None:
            pipe.wake()

    def restart_after_fork(self) -> None:
        """Drop everything in a forked child, completing nothing: it is the parent's."""
        if self._pipe is not None:
            self._pipe.close_in_child()
        self._start_empty()

    def _prune(self, keys: list[bytes]) -> None:
        for key in keys:
            if not self._watches[key]:
                del self._watches[key]

    def _tend(self, pipe: _Pipe) -> None:
        seen, rest = 0, 0.0
        try:
            while self._pipe is pipe:
                if not self._is_watching():
                    if not pipe.is_called(_LINGER_SECONDS):
                        self._end(pipe)
                elif pipe.wait(_LINGER_SECONDS) and self._is_watching():
                    seen, has_fired = self._look_until_seen(pipe, seen)
                    if not has_fired:
                        self._shorten(pipe)
                    longer = min(2 * rest or _FIRST_REST_SECONDS, _LONGEST_REST_SECONDS)
                    rest = 0.0 if has_fired else longer
                    time.sleep(rest)
                if self._pipe is pipe and not pipe.is_reachable():
                    pipe = self._replaced(pipe)
                    seen, _ = self._look_until_seen(pipe, seen)
        finally:
            with self._lock:
                if self._pipe is pipe:  # an error ends the thread: the next watch starts another
                    self._pipe = None
            pipe.remove()

    def _is_watching(self) -> bool:
        with self._lock:
            self._prune(list(self._watches))
            return bool(self._watches)

    def _end(self, pipe: _Pipe) -> None:
        """Let the thread end if there is nothing to watch still."""
        with self._lock:
            if not self._is_watching() and self._pipe is pipe:
                self._pipe = None

    def _replaced(self, pipe: _Pipe) -> _Pipe:
        """Return a pipe in place of one that was deleted; the same if none can be made."""
        with self._lock:
            if self._pipe is not pipe:
                return pipe
            try:
                self._pipe = _Pipe(self._store.turn, self._watches)
            except OSError:
                return pipe
            pipe.remove()
            return self._pipe

    def _shorten(self, pipe: _Pipe) -> None:
        """List no keys that are not watched any more; they wake in vain."""
        with self._lock, contextlib.suppress(EngineUnavailable):
            if self._pipe is pipe and pipe.listed != self._watches.keys():
                self._list(pipe)

    def _look_until_seen(self, pipe: _Pipe, seen: int) -> tuple[int, bool]:
        """Look again while that fails: the bytes that asked for it are gone."""
        while self._pipe is pipe:
            try:
                return self._look(seen)
            except (FDBError, EngineUnavailable):
                time.sleep(_RETRY_SECONDS)
        return seen, False

    def _look(self, seen: int) -> tuple[int, bool]:
        """Compare the keys that commits after version ``seen`` may have changed.

        Returns:
            The version up to which everything has been compared, and whether a watch became ready.
        """
        snapshot = self._store.snapshot()
        try:
            with self._lock:
                keys = list(self._watches)
            if snapshot.oldest_commit() <= seen:
                history = [RangeSet.decode(data) for _, data in snapshot.commits_since(seen)]
                keys = [key for key in keys if any(key in written for written in history)]
            return snapshot.version, self._compare(snapshot, keys)
        finally:
            snapshot.release()

    def _compare(self, snapshot: Snapshot, keys: list[bytes]) -> bool:
        """Make the watches ready whose keys have changed; tell whether there were any."""
        found = False
        for key in keys:
            value = snapshot.get(key)
            with self._lock:
                changed = [
                    watch
                    for watch in self._watches.get(key, ())
                    if watch.value != value and watch.version <= snapshot.version
                ]
            for watch in changed:
                watch.complete()
            found = found or bool(changed)
        return found


class _Pipe:
    """The pipe whose bytes say that something was committed, and the list of what is watched.

    Args:
        turn: The writer's turn; in its directory the pipe is made.
        keys: What is watched already.
    """

    def __init__(self, turn: WriterTurn, keys: Iterable[bytes] = ()) -> None:
        directory = turn.directory
        name = f"{os.getpid()}-{uuid.uuid4().hex}"
        self._path = os.path.join(directory, _PIPE_PREFIX + name)
        self._owner = os.getpid()
        self._lock = RLock()
        #: The keys in the list; None if it stands for all.
        self.listed: set[bytes] | None = set()
        self._calls: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._descriptors = Descriptors()
        self._open = False
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory)
        unready = os.path.join(
            directory, f"new-{name}"
        )  # else a process that commits takes it for a dead one
        try:
            os.mkfifo(unready, 0o666)
            self._reader = self._descriptors.open(unready, os.O_RDONLY | os.O_NONBLOCK)
            self._writer = self._descriptors.open(unready, os.O_WRONLY | os.O_NONBLOCK)
            self._listing = self._descriptors.open(_list_of(self._path), os.O_RDWR | os.O_CREAT)
            self._open = True
            self.list(keys)
            os.rename(unready, self._path)
            if not turn.reservations.note_pipe():
                time.sleep(CHECK_SECONDS)  # from now on every commit has looked into the directory
        except BaseException:
            for made in (unready, self._path, _list_of(self._path)):
                with contextlib.suppress(OSError):
                    os.unlink(made)
            self.close()
            raise

    def has_listed(self, keys: set[bytes] | KeysView[bytes]) -> bool:
        """Tell whether commits that change any of these keys write into the pipe."""
        return self.listed is None or keys <= self.listed

    def list(self, keys: Iterable[bytes]) -> None:
        """Have commits that change these keys write into the pipe, and no others.

        Raises:
            OSError: The list cannot be written.
        """
        listed, data = {*keys}, b""
        if len(listed) <= _MOST_LISTED:
            data = encoded([(key, after(key)) for key in listed])
        if len(data) + _LIST_HEAD.size > _LIST_BYTES:
            data = b""
        with self._lock:
            if self._open:
                self.listed = set()  # a signal handler's exception may come once it is written
                os.pwrite(self._listing, _LIST_HEAD.pack(len(data), zlib.crc32(data)) + data, 0)
                self.listed = listed if data else None

    def wait(self, seconds: float) -> bool:
        """Tell whether a byte came within the time, and take all that came."""
        if not self._has_bytes(seconds):
            return False
        with contextlib.suppress(BlockingIOError):
            os.read(self._reader, 65536)
        return True

    def _has_bytes(self, seconds: float) -> bool:
        poll = select.poll()  # select() cannot take descriptors from 1,024 on
        poll.register(self._reader, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def is_reachable(self) -> bool:
        """Tell whether it is where processes that commit look for it."""
        return os.path.exists(self._path)

    def call(self) -> None:
        """Make :meth:`is_called` return, or its next call."""
        if self._calls.empty():
            self._calls.put(None)

    def is_called(self, seconds: float) -> bool:
        """Tell whether there was a call within the time; what is committed meanwhile is no call."""
        with contextlib.suppress(queue.Empty):
            self._calls.get(timeout=seconds)
            return True
        return False

    def wake(self) -> None:
        """Make :meth:`wait` and :meth:`is_called` return."""
        self.call()
        with self._lock:
            if self._open:
                with contextlib.suppress(BlockingIOError):
                    os.write(self._writer, b"!")

    def retire(self) -> None:
        """End the thread that waits at the pipe, if there is one, and hide the pipe."""
        self._unlink()
        self.wake()

    def _unlink(self) -> None:
        for path in (self._path, _list_of(self._path)):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def remove(self) -> None:
        """Remove the pipe."""
        if self._owner == os.getpid():
            self._unlink()
            self.close()

    def close_in_child(self) -> None:
        """Close the ends that a fork copied; a thread of the parent may hold the lock."""
        self._lock = RLock()
        self.close()

    def close(self) -> None:
        """Close this process's ends."""
        with self._lock:
            self._open = False
            self._descriptors.close()
