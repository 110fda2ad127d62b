"""The results of calls, shaped as the FoundationDB Python binding shapes them.

A read's future is ready at once. A commit runs when its future is used.
"""

from __future__ import annotations

import functools
import queue
import threading
import time
from _thread import RLock
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from fdbqueue.engines.embedded.fdb_errors import FDBError, copy_of
from fdbqueue.logs import get_logger
from fdbqueue.own_threads import OwnTimer
from fdbqueue.steady import monotonic

T = TypeVar("T")

logger = get_logger(__name__)


def _call(callback: Callable[[Any], object], future: Any) -> None:
    """Run a callback; as with the binding, what it raises is reported and goes no further."""
    try:
        callback(future)
    except Exception:  # the thread that completed the future goes on
        logger.exception("a callback of a future failed")


def _put_place(ready: queue.SimpleQueue[int], place: int, _: Any) -> None:
    ready.put(place)


class ReadVersion:
    """The version at which an attempt of a transaction reads.

    Attributes:
        number: None until it was got or set.
        known: The same, from when on a cluster's client knows it at the latest.
    """

    number: int | None = None
    known: int | None = None


class Future(Generic[T]):
    """A result that is known already, or the error that took its place."""

    #: The read version that this makes known if it is the first answer; None for all others.
    asked_at: ReadVersion | None = None

    def __init__(self, result: T | None = None, error: Exception | None = None) -> None:
        self._result = result
        self._error = error

    def wait(self) -> T:
        """Return the result, or raise the error."""
        asked_at = self.asked_at
        if asked_at is not None:
            asked_at.known, self.asked_at = asked_at.number, None
        if self._error is not None:
            raise copy_of(self._error)
        return self._result  # type: ignore[return-value]  # None is a result of Future[None]

    def is_ready(self) -> bool:
        """Tell whether :meth:`wait` would return at once."""
        self.block_until_ready()
        return True

    def block_until_ready(self) -> None:
        """Return when the future is ready, raising no error of its own."""
        asked_at = self.asked_at
        if asked_at is not None:
            asked_at.known, self.asked_at = asked_at.number, None

    def cancel(self) -> None:
        """Cancel the operation; without effect once it is ready."""

    def on_ready(self, callback: Callable[[Future[T]], object]) -> None:
        """Call ``callback(self)`` once ready: now, or later from another thread."""
        self.block_until_ready()
        _call(callback, self)

    done = is_ready

    @staticmethod
    def wait_for_any(*futures: Future[Any]) -> int:
        """Return the place of a future that is ready, as soon as one is.

        Raises:
            ValueError: There are none.
        """
        if not futures:
            raise ValueError("wait_for_any requires at least one future")
        ready: queue.SimpleQueue[int] = queue.SimpleQueue()
        for place, future in enumerate(futures):
            future.on_ready(functools.partial(_put_place, ready, place))
        return ready.get()

    def cancelled(self) -> bool:
        """Tell whether the future was cancelled before it was ready."""
        return self.is_ready() and getattr(self.exception(), "code", None) == 1101

    def result(self) -> T:
        """Return the result, or raise the error; not before the future is ready."""
        self._check_ready()
        return self.wait()

    def exception(self) -> Exception | None:
        """Return the error, or None when there is a result; not before it is ready."""
        self._check_ready()
        return self._error

    def _check_ready(self) -> None:
        if not self.is_ready():
            raise Exception("Future result not available")  # noqa: TRY002  # as the binding does


class WorkFuture(Future[T]):
    """A result that is worked out by the first thread to ask for it."""

    _result = None
    _error = None

    def __init__(self, work: Callable[[], T]) -> None:
        self._work: Callable[[], T] | None = work
        self._lock = RLock()

    def wait(self) -> T:
        """Return the result, or raise the error."""
        self.block_until_ready()
        if self._error is not None:
            raise copy_of(self._error)
        return self._result  # type: ignore[return-value]  # None is a result of Future[None]

    def is_ready(self) -> bool:
        """Do the work, and say so."""
        self.block_until_ready()
        return True

    def block_until_ready(self) -> None:
        """Do the work, unless it is done."""
        with self._lock:
            if self._work is None:
                return
            try:
                self._result = self._work()
            except Exception as error:  # noqa: BLE001  # a future carries whatever went wrong
                self._error = copy_of(error)
            self._work = None

    done = is_ready


class SignalledFuture(Future[None]):
    """A future that another thread completes: a watch, or a delay."""

    def __init__(self) -> None:
        super().__init__()
        self._condition = threading.Condition()
        self._ready = False
        self._callbacks: list[Callable[[Any], object]] = []

    def complete(self, error: Exception | None = None) -> None:
        """Make the future ready; only the first call counts."""
        with self._condition:
            if self._ready:
                return
            self._error, self._ready = error, True
            callbacks, self._callbacks = self._callbacks, []
            self._condition.notify_all()
        for callback in callbacks:
            _call(callback, self)

    def wait(self) -> None:
        """Return when the future is completed, or raise its error."""
        self.block_until_ready()
        return super().wait()

    def is_ready(self) -> bool:
        """Tell whether :meth:`wait` would return at once."""
        return self._ready

    def block_until_ready(self) -> None:
        """Return when the future is completed."""
        with self._condition:
            self._condition.wait_for(self.is_ready)

    def cancel(self) -> None:
        """Stop waiting: the future ends with error 1101."""
        self.complete(FDBError(1101))

    def on_ready(self, callback: Callable[[Any], object]) -> None:
        """Call ``callback(self)`` once completed, from the thread that completes it."""
        with self._condition:
            if not self._ready:
                self._callbacks.append(callback)
                return
        _call(callback, self)

    done = is_ready


class Delay(Future[None]):
    """A future that is ready after some time; ``on_error`` returns one."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._ready_at = monotonic() + seconds

    def wait(self) -> None:
        """Sleep until the time has come."""
        self.block_until_ready()

    def is_ready(self) -> bool:
        """Tell whether the time has come."""
        return monotonic() >= self._ready_at

    def block_until_ready(self) -> None:
        """Sleep until the time has come."""
        remaining = self._ready_at - monotonic()
        if remaining > 0:
            time.sleep(remaining)

    def on_ready(self, callback: Callable[[Any], object]) -> None:
        """Call ``callback(self)`` when the time has come, from a thread of its own."""
        remaining = max(0.0, self._ready_at - monotonic())
        OwnTimer(remaining, _call, name="fdbqueue-pause", args=(callback, self)).start()

    done = is_ready


class Value(Future["Value"]):
    """A value or key read from the database, usable wherever its bytes are.

    As with the binding ``isinstance(value, bytes)`` holds, but it is not a ``bytes``: convert
    with ``bytes(value)`` where the bytes themselves are needed. An absent value equals
    None, and :meth:`present` says so.
    """

    @property  # type: ignore[misc]  # what isinstance() asks for, as with the binding
    def __class__(self) -> type:
        return bytes

    @property
    def value(self) -> bytes | None:
        """The bytes read, or None; raises the read's error."""
        asked_at = self.asked_at
        if asked_at is not None:
            asked_at.known, self.asked_at = asked_at.number, None
        if self._error is not None:
            raise copy_of(self._error)
        return self._result  # type: ignore[return-value]  # holds the bytes, not the future

    def wait(self) -> Value:
        """Return this object, its value known, or raise the read's error."""
        super().wait()
        return self

    def present(self) -> bool:
        """Tell whether the key has a value."""
        asked_at = self.asked_at
        if asked_at is not None:
            asked_at.known, self.asked_at = asked_at.number, None
        if self._error is None:
            return self._result is not None
        return self.value is not None

    def as_foundationdb_key(self) -> bytes | None:
        """Let the value be used as a key."""
        return self.value

    def as_foundationdb_value(self) -> bytes | None:
        """Let the value be written as a value."""
        return self.value

    def __bytes__(self) -> bytes:
        value: Any = self._result
        if value is None or self.asked_at is not None:
            value = self.value
        if value is None:
            raise TypeError("the key has no value")
        return value

    def __str__(self) -> str:
        return str(self.value)

    def __repr__(self) -> str:
        return repr(self.value)

    def __len__(self) -> int:
        return len(bytes(self))

    def __iter__(self) -> Iterator[int]:
        return iter(bytes(self))

    def __hash__(self) -> int:
        return hash(bytes(self))

    def __getitem__(self, index: Any) -> Any:
        return bytes(self)[index]

    def __eq__(self, other: object) -> bool:
        return self.value == _plain(other)

    def __lt__(self, other: Any) -> bool:
        return bytes(self) < _plain(other)

    def __le__(self, other: Any) -> bool:
        return bytes(self) <= _plain(other)

    def __gt__(self, other: Any) -> bool:
        return bytes(self) > _plain(other)

    def __ge__(self, other: Any) -> bool:
        return bytes(self) >= _plain(other)

    def __add__(self, other: Any) -> bytes:
        return bytes(self) + _plain(other)

    def __radd__(self, other: Any) -> bytes:
        return _plain(other) + bytes(self)

    def __mul__(self, count: int) -> bytes:
        return bytes(self) * count

    __rmul__ = __mul__

    def __int__(self) -> int:
        return int(bytes(self))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        method = getattr(bytes, name)
        return lambda *arguments: method(self.value, *arguments)


def _plain(other: Any) -> Any:
    return other.value if isinstance(other, Value) else other


class KeyValue:
    """A row of a range read: ``row.key``, ``row.value``, or ``key, value = row``."""

    __slots__ = ("key", "value")

    def __init__(self, key: bytes, value: bytes) -> None:
        self.key = key
        self.value = value

    def __iter__(self) -> Iterator[bytes]:
        return iter((self.key, self.value))

    def __repr__(self) -> str:
        return f"{self.key!r}: {self.value!r}"


class Versionstamp(Value):
    """The ten bytes of a commit's versionstamp, known once it has taken effect."""

    __hash__ = Value.__hash__

    def __init__(self) -> None:
        super().__init__()
        self._ended = threading.Event()
        self._commit: Future[None] | None = None

    def attach(self, commit: Future[None]) -> None:
        """Let the stamp be awaited by running the commit."""
        self._commit = commit

    def end(self, stamp: bytes | None = None, error: Exception | None = None) -> None:
        """Make the stamp known, or that there is none."""
        self._result, self._error = stamp, error  # type: ignore[assignment]  # holds the bytes
        self._ended.set()

    @property
    def value(self) -> bytes | None:
        """The stamp; waits for the commit."""
        self.block_until_ready()
        return super().value

    def wait(self) -> Value:
        """Return this object once the commit has ended, or raise its error."""
        self.block_until_ready()
        return super().wait()

    def is_ready(self) -> bool:
        """Tell whether the commit has ended."""
        return self._ended.is_set()

    def block_until_ready(self) -> None:
        """Return when the commit has ended."""
        if self._commit is not None:
            self._commit.block_until_ready()
        self._ended.wait()

    done = is_ready
