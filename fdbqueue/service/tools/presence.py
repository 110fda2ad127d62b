"""Tell which workers there are: each keeps a row about itself, and removes it at its end.

A worker writes its row when it begins and every five seconds, in a transaction that reads nothing:
it conflicts with no other. A row that was not written for ten seconds is of a worker that is
*lost*: it died, or hangs, or does not reach the engine. It is shown for an hour, and removed by a
worker that writes its own row after that. A row says nothing of leases: these expire by themselves.

Beside it, a worker that names its queues writes a row that all workers of the same queues share,
when it begins and about once an hour. It stays for a day: so a queue is known to have had a worker
also when that is gone.

How old a row is depends on no clock of a client. It begins with the version of its commit, and a
cluster's versions are microseconds of its time; after a recovery, which skips some, a row may look
old until it is written again, within five seconds. The versions of a file stand still while nothing
is committed; there all clients have the clock of one machine, and if it is set, a row may look too
old or too young for those five seconds.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from importlib import metadata
from types import TracebackType
from typing import Any, NamedTuple

from fdb.subspace_impl import Subspace

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.logs import get_logger
from fdbqueue.own_threads import OwnThread, WorkerThreads
from fdbqueue.service.clock import is_machines, now_us, shared_us
from fdbqueue.service.names import is_among
from fdbqueue.service.transactions import run, unlimited
from fdbqueue.steady import monotonic

logger = get_logger(__name__)

#: How long there is between two writes of a row.
BEAT_SECONDS = 5.0
#: After how long without one a worker is lost, and for how long it is shown then.
LOST_SECONDS, SHOWN_SECONDS = 9.5, 3600.0
#: For how long it is known that a queue had a worker, and after how long that is written again.
SERVED_SECONDS, SERVED_BEAT_SECONDS = 86_400.0, 3_600.0
#: How many rows are read at once, or looked at to remove old ones.
MAX_ROWS = 1_000
#: The most characters of each text in a row.
_MAX_CHARACTERS = 200
#: The same of all names of queues together, and what is before one that is left out.
_MAX_SERVES, _LEFT_OUT = 2_000, "!"
#: Above each number in a row: a moment some four thousand years from now, in microseconds. Readers
#: can show it in any time zone.
_MAX_NUMBER = 2**57
#: How long a worker that ends waits for the engine to remove its row.
_LEAVING_SECONDS = 2.0
#: The version of a commit and the number of a transaction in it, before what a row says.
_STAMP = bytes(10)


@dataclasses.dataclass(frozen=True)
class WorkerRow:
    """What a worker says of itself.

    Attributes:
        name: The worker's name, as its leases have it.
        kind: What it works on: "items" or "tasks".
        host: The name of its machine.
        process: The number of its process.
        version: The version of this package.
        queues: The name of the queue it takes from, or the names and patterns of several.
        serves: The same, all of them between spaces, and what it leaves out behind an exclamation
            mark; empty if it does not say so.
        threads: How many threads it has for items.
        since_us: When it began, in microseconds since the Unix epoch, by its own clock.
        running: How many items it had at work at its last sign of life.
        done: How many were done since it began.
        failed: How many failed since then.
        age_seconds: How long ago its last sign of life was.
    """

    name: str = ""
    kind: str = ""
    host: str = ""
    process: int = 0
    version: str = ""
    queues: str = ""
    serves: str = ""
    threads: int = 0
    since_us: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0
    age_seconds: float = 0.0

    @property
    def is_lost(self) -> bool:
        """Whether it gave no sign of life for ten seconds."""
        return self.age_seconds > LOST_SECONDS

    def may_serve(self, queue: str) -> bool:
        """Tell whether it takes from a queue, by the queue's name; also if it does not say so."""
        words = self.serves.split()
        wanted = [word for word in words if not word.startswith(_LEFT_OUT)]
        left_out = [word[1:] for word in words if word.startswith(_LEFT_OUT)]
        return not wanted or is_among(queue, wanted, left_out)

    @property
    def state(self) -> str:
        """In a word: "alive" or "lost"."""
        return "lost" if self.is_lost else "alive"


#: The names of the fields, and their types.
_KINDS = tuple((field.name, type(field.default)) for field in dataclasses.fields(WorkerRow))


class WorkerCounts(NamedTuple):
    """How many items a worker has at work, and what became of others since it began."""

    running: int
    done: int
    failed: int


class Workers(NamedTuple):
    """Rows of workers, the living ones first, by name; and whether these are all."""

    rows: list[WorkerRow]
    is_complete: bool


class Presence:
    """The row of one worker, for as long as it works: a context manager.

    A thread of its own writes the row, so that no item and no wait holds it up. If the engine does
    not respond the worker works on, and is lost to others until it responds again.

    Args:
        database: Where the rows are.
        subspace: The subspace of the rows.
        about: What does not change; its counts and its age are not looked at.
        counts: Asked at each write; called in another thread.
        on_beat: Called there after each write; may not raise.
        threads: The worker's, of which that is one.
    """

    def __init__(
        self,
        database: Database,
        subspace: Subspace,
        about: WorkerRow,
        counts: Callable[[], WorkerCounts],
        on_beat: Callable[[], None] = lambda: None,
        threads: WorkerThreads | None = None,
    ) -> None:
        self._database = database
        self._subspace = subspace
        self._key = subspace.pack((os.urandom(16),))
        self._about = about = dataclasses.replace(about, **_short(vars(about)))
        served = hashlib.sha256(f"{about.kind} {about.serves}".encode()).hexdigest().encode()
        #: The key of the row that workers of the same queues share, if it names these.
        self._served = [_served(subspace)[0] + served] if about.serves else []
        self._counts = counts
        self._on_beat = on_beat
        self._threads = threads
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> None:
        self._is_over.clear()
        self._thread = OwnThread(self._keep, name="fdbqueue-presence", owner=self._threads)
        self._thread.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        if self._thread is not None:
            self._thread.join(_LEAVING_SECONDS)

    def _keep(self) -> None:
        """Write the row until the work is over; then remove it."""
        self._try(self._remove_old)
        served_again = monotonic()
        while True:  # once at least: that somebody has served the queue is to be known
            began = monotonic()
            served = self._served if began >= served_again else []
            if self._try(functools.partial(self._write, keys=[self._key, *served])) and served:
                served_again = began + SERVED_BEAT_SECONDS
            self._on_beat()
            if self._is_over.wait(max(0.0, began + BEAT_SECONDS - monotonic())):
                break
        self._try(lambda tr: tr.clear(self._key))

    def _try(self, change: Callable[[Transaction], Any]) -> bool:
        """Commit a change, which may be committed twice; a failure is for the log, and false."""
        try:
            run(self._database, change)
        except Exception as error:  # noqa: BLE001  # the work does not depend on it
            facts = {"worker": self._about.name, "error": type(error).__name__}
            logger.warning("a worker's sign of life was not written", extra=facts)
            return False
        return True

    def _write(self, tr: Transaction, keys: Sequence[bytes]) -> None:
        facts = dataclasses.asdict(self._about) | self._counts()._asdict()
        del facts["age_seconds"]
        said = json.dumps({**facts, "said_us": now_us()}).encode()
        for key in keys:
            tr.set_versionstamped_value(key, _STAMP + said + struct.pack("<I", 0))

    def _remove_old(self, tr: Transaction) -> None:
        """Remove rows of workers that have been lost for an hour, or gone for a day.

        Of each kind the first thousand are looked at.
        """
        now = _Now(tr, self._database)
        for bounds, seconds in (
            (_present(self._subspace), LOST_SECONDS + SHOWN_SECONDS),
            (_served(self._subspace), SERVED_SECONDS),
        ):
            for key, value in _rows(tr, bounds, MAX_ROWS):
                if now.age_of(value, _said(value)) > seconds:
                    tr.clear(key)


class Presences:
    """The rows of all workers of a catalog.

    Args:
        database: Where the rows are.
        subspace: Theirs.
    """

    def __init__(self, database: Database, subspace: Subspace) -> None:
        self._database = database
        self._subspace = subspace

    def over(self, database: Database) -> Presences:
        """Return the same rows over another view of the same database."""
        return Presences(database, self._subspace)

    def of(
        self,
        about: WorkerRow,
        counts: Callable[[], WorkerCounts],
        on_beat: Callable[[], None] = lambda: None,
        threads: WorkerThreads | None = None,
    ) -> Presence:
        """Return the row of a worker, which is there while it is entered.

        Args:
            about: What does not change: see :func:`worker_here`.
            counts: Asked at each write; called in another thread.
            on_beat: Called there after each write; may not raise.
            threads: The worker's, of which that is one.
        """
        return Presence(self._database, self._subspace, about, counts, on_beat, threads)

    def read(self) -> Workers:
        """Read a thousand rows at most, in one transaction; it conflicts with no worker."""
        return run(self._database, self.read_in, read_only=True)

    def read_in(self, tr: Transaction) -> Workers:
        """Read the same rows in a transaction."""
        rows = self._read(tr, _present(self._subspace), LOST_SECONDS + SHOWN_SECONDS)
        shown = sorted(rows.rows, key=lambda row: (row.is_lost, row.name, row.process))
        return Workers(shown, rows.is_complete)

    def served_in(self, tr: Transaction) -> Workers:
        """Read who worked on which queues within a day: the last worker of the same queues."""
        return self._read(tr, _served(self._subspace), SERVED_SECONDS)

    def _read(self, tr: Transaction, bounds: tuple[bytes, bytes], seconds: float) -> Workers:
        """Read a thousand rows at most, and return those that are not older."""
        now = _Now(tr, self._database)
        stored = _rows(tr, bounds, MAX_ROWS + 1)
        texts = ((value, _said(value)) for _, value in stored[:MAX_ROWS])
        rows = [_row(said, now.age_of(value, said)) for value, said in texts]
        return Workers([row for row in rows if row.age_seconds <= seconds], len(stored) <= MAX_ROWS)


class _Now:
    """What the age of a row is measured by, in one transaction."""

    def __init__(self, tr: Transaction, database: Database) -> None:
        database = unlimited(database)
        self._us = shared_us(tr, database)
        self._is_machines = is_machines(database)

    def age_of(self, value: bytes, said: dict[str, Any]) -> float:
        """Return how many seconds ago a row was written, by what it says; never less than none."""
        then = int.from_bytes(value[:8], "big")
        if self._is_machines:
            then = said.get("said_us", 0)
            then = then if type(then) is int and _is_small(then) else 0
        return max(0, self._us - then) / 1_000_000


def _present(subspace: Subspace) -> tuple[bytes, bytes]:
    """Return the range of the rows of workers."""
    span = subspace.range()
    return span.start, span.stop


def _served(subspace: Subspace) -> tuple[bytes, bytes]:
    """Return the range of the rows that stay: after the others, where no tuple sorts."""
    begin: bytes = subspace.key() + b"\xff"
    return begin, begin + b"\xff"


def _rows(
    tr: Transaction, bounds: tuple[bytes, bytes], limit: int
) -> Sequence[tuple[bytes, bytes]]:
    return [
        (bytes(row.key), bytes(row.value)) for row in tr.snapshot.get_range(*bounds, limit=limit)
    ]


def _said(value: bytes) -> dict[str, Any]:
    """Return what a row says; nothing if it is none that this version can read."""
    try:
        said = json.loads(value[len(_STAMP) :])
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _row(said: dict[str, Any], age_seconds: float) -> WorkerRow:
    """Return a row as it is stored; what is missing, or of another type, is left out."""
    known = {
        name: said[name]
        for name, kind in _KINDS
        if type(said.get(name)) is kind and _is_small(said[name])
    }
    return WorkerRow(**{**known, **_short(known), "age_seconds": age_seconds})


def _is_small(value: Any) -> bool:
    """Tell whether a number is one that a worker may have; texts are shortened."""
    return isinstance(value, str) or 0 <= value < _MAX_NUMBER


def _short(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the texts among what a worker says, none of them too long."""
    texts = {name: one[:_MAX_CHARACTERS] for name, one in facts.items() if isinstance(one, str)}
    serves = facts.get("serves", "")
    return texts | {"serves": serves if len(serves) <= _MAX_SERVES else ""}  # no part: it is wrong


def worker_here(
    name: str,
    kind: str,
    queues: str,
    *,
    threads: int,
    serves: Sequence[str] = (),
    left_out: Sequence[str] = (),
) -> WorkerRow:
    """Return what a worker of this process says of itself as it begins.

    Args:
        name: The worker's name, as its leases have it.
        kind: What it works on: "items" or "tasks".
        queues: The name of its queue, or the names of several.
        threads: How many threads it has for items.
        serves: The names and patterns of the queues.
        left_out: Those among these that it leaves out.
    """
    return WorkerRow(
        name=name,
        kind=kind,
        host=socket.gethostname(),
        process=os.getpid(),
        version=_version(),
        queues=queues,
        serves=" ".join([*serves, *(f"{_LEFT_OUT}{one}" for one in left_out)]),
        threads=threads,
        since_us=now_us(),
    )


def _version() -> str:
    """Return the version of this package; empty in a checkout that is not installed."""
    try:
        return metadata.version("fdbqueue")
    except metadata.PackageNotFoundError:
        return ""
