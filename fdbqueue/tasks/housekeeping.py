"""What a worker process does beside its tasks: schedules and retention, in a thread of its own.

The thread uses the engine as any client does, and holds up no task. It looks at each slot of the
:mod:`schedules <fdbqueue.tasks.schedules>`; and about once a minute, at random moments, it asks
whether it is its turn to prune: to remove tasks that ended long ago. If there is an
:mod:`outbox <fdbqueue.tasks.outbox>`, it has another thread.

The index of ended tasks says which may be old enough. Each portion of it is one transaction, which
reads the candidates without depending on them, and then depends on what it removes:

- *a success* leaves its record and its entry. Nothing else can have become of it: its item was
  removed with the commit that wrote both.
- *a failure that is final* (an aborted task): its record says so, at this moment. Both go.
- *a failure whose item is a dead letter*: the item is read. It goes, with its record and its
  entry, if it is dead and died before the limit. If it lives again, since it was redriven, or died
  again later, only the entry goes. If the item is gone, the record goes with the entry.
- *an entry without a record* goes alone.
- *a part of a group or a chain that has not ended* stays with all it has: what follows reads it.

So a worker that ends a task, a redrive, and another pruner make the portion conflict, or it makes
them; it is then tried again with what is there by then. A pruner that conflicts again and again
gives way: what it leaves is there for the next one. A crash between two portions leaves nothing
half done. A dead letter that was buried by hand has no entry; it stays until it is removed by hand.

Groups and chains have an index of when each is to be looked at: each hour while they run, and when
the retention since their end is over (:mod:`fdbqueue.tasks.groups`).

What an empty queue of limited tasks has left is removed as well, a day after its last task, of some
hundred keys at a time (``Examiner.remove_idle``).

One worker does this about once a minute. Which one, a key decides: it has the moment of the last
time, by the cluster's versions or, on the embedded engine, by the machine's clock. A worker that
dies while it prunes is replaced a minute later. What is old is judged by the clock of the worker
that prunes: if that is an hour ahead, an hour early.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
import random
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from fdbqueue.connections import left_in_order
from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import ItemNotFound, QueueNotFound
from fdbqueue.logs import get_logger
from fdbqueue.own_threads import OwnThread, WorkerThreads
from fdbqueue.service import Catalog, Examiner, microseconds, now_us, run, shared_us
from fdbqueue.service.transactions import Conflict
from fdbqueue.steady import monotonic
from fdbqueue.tasks.groups import DueLook, clear_old, is_under_way, look_again
from fdbqueue.tasks.options import Retention
from fdbqueue.tasks.records import FAILED, SUCCESSFUL, EndedTask, is_end, is_pending, item_place
from fdbqueue.tasks.schedules import DueSchedules, is_engines
from fdbqueue.tasks.trees import Tree

if TYPE_CHECKING:
    from fdbqueue.tasks.outbox.mover import MoverThread

logger = get_logger(__name__)

#: The most entries of one transaction; for failures it reads records, and removes items.
_PORTIONS = {SUCCESSFUL: 200, FAILED: 50}
#: The most parts of records that one transaction of :func:`remove_lost` reads.
_PARTS = 50
#: After how long without tasks nothing is left of a key, and at how many each look is.
_IDLE_SECONDS = 86_400.0
_KEYS_AT_ONCE = 200
#: How often a portion is tried before the pruner gives way, and how long it pauses in between.
_TRIES = 4
_PAUSE_SECONDS = 0.1
#: How often a worker prunes, in microseconds.
_BETWEEN_US = 50_000_000
#: How long there is between two questions whether to prune: this, and up to as much again.
_PRUNE_SECONDS = 40.0
#: For how long a worker prunes at a time, and how it goes about it: it pauses four times as long
#: as each transaction took.
_MAX_PRUNE_SECONDS = 30.0
_PAUSE_FACTOR = 4
_STOP_SECONDS = 5.0
#: The thread looks up this much after a slot, so that not all workers do it at the same moment.
_SPREAD_SECONDS = 0.05


class Pruned(NamedTuple):
    """What was removed.

    Attributes:
        successful: Tasks that had succeeded.
        failed: Tasks that had failed, with their dead letters.
        entries: Entries of the index whose task lives again, died again, or was gone.
        gave_way: Whether other transactions were in the way, so that something old is left.
    """

    successful: int = 0
    failed: int = 0
    entries: int = 0
    gave_way: bool = False

    def plus(self, other: Pruned) -> Pruned:
        """Return both together."""
        both = Pruned(*map(operator.add, self[:3], other[:3]))
        return both._replace(gave_way=self.gave_way or other.gave_way)


#: What one transaction did, and the moment and id of the entry it came to; None behind the last.
_Portion = tuple[Pruned, tuple[int, str] | None]


def prune(
    backend: Any,
    retention: Retention,
    *,
    catalog: Catalog | None = None,
    dry_run: bool = False,
    goes_on: Callable[[Pruned], bool] = lambda _: True,
) -> Pruned:
    """Remove the tasks of a backend that ended before their time was over.

    Args:
        backend: The backend.
        retention: For how long tasks are kept.
        catalog: Where its queues are; None for the setting's.
        dry_run: Whether only to count.
        goes_on: Called after each transaction with all that was removed; tells whether to go on.
    """
    catalog = catalog or backend.catalog
    pruned = Pruned()
    kept = {SUCCESSFUL: retention.successful, FAILED: retention.failed}
    limits = {
        status: now_us() - int(seconds * 1_000_000)
        for status, seconds in kept.items()
        if seconds is not None
    }
    for queue in _queues_of(backend, catalog):
        for status, limit in limits.items():
            pruner = _Pruner(backend, catalog, queue, status, limit, dry_run)
            after: tuple[int, str] | None = None
            while True:
                some, after = pruner.portion(after)
                pruned = pruned.plus(some)
                if not goes_on(pruned):
                    return pruned
                if after is None:
                    break
    return pruned


def may_prune(backend: Any, catalog: Catalog) -> bool:
    """Tell whether it is time to prune, and this worker's turn: one in a minute is told so."""
    key = backend.records.state_key("pruned", backend.alias)

    def claim(tr: Transaction) -> bool:
        before = tr[key]
        now = shared_us(tr, catalog.database)
        if before.present() and 0 <= now - int(bytes(before)) < _BETWEEN_US:
            return False
        tr[key] = str(now).encode()
        return True

    try:
        return run(catalog.database, claim, wrote=bool, retries_conflicts=False)
    except Conflict:  # another worker was first
        return False


class _Pruner:
    """Remove the ended tasks of one queue and status, a portion at a time."""

    def __init__(
        self,
        backend: Any,
        catalog: Catalog,
        queue: str,
        status: str,
        limit: int,
        dry_run: bool,
    ) -> None:
        self._backend = backend
        self._records = backend.records
        self._catalog = catalog
        self._queue = queue
        self._status = status
        self._limit = limit
        self._dry_run = dry_run
        self._most = _PORTIONS[status]

    def portion(self, after: tuple[int, str] | None) -> _Portion:
        """Remove some of what follows an entry."""
        work = functools.partial(self._portion_in, after=after)
        return _given_way(self._catalog, work) or (Pruned(gave_way=True), None)

    def _portion_in(self, tr: Transaction, after: tuple[int, str] | None) -> _Portion:
        found = list(
            self._records.ended(
                tr.snapshot,
                self._queue,
                self._status,
                before=self._limit,
                after=after,
                limit=self._most,
            )
        )
        trees = {entry.tree for entry in found if entry.tree}
        kept = {tree for tree in trees if is_under_way(tr.snapshot, self._backend, tree)}
        entries = [entry for entry in found if entry.tree not in kept]
        pruned = Pruned()
        if self._status == SUCCESSFUL:
            for entry in entries:
                self._remove(tr, entry)
            pruned = Pruned(successful=len(entries))
        else:
            reads = [self._records.begin_read(tr, entry.id) for entry in entries]
            for entry, read in zip(entries, reads, strict=True):
                pruned = pruned.plus(self._remove_failed(tr, entry, read()))
        last = found[-1] if len(found) == self._most else None
        return pruned, None if last is None else (last.moment, last.id)

    def _remove_failed(
        self, tr: Transaction, entry: EndedTask, record: dict[str, Any] | None
    ) -> Pruned:
        is_the_entrys = False
        if record is not None and is_pending(record):
            name, item_id = item_place(record)
            try:
                queue = self._catalog.queue(name)
                died = queue.get(item_id, tr=tr).died_at
            except QueueNotFound:  # the setting lacks it for now, and what is in it is kept
                return Pruned()
            except ItemNotFound:
                self._remove(tr, entry)
                return Pruned(entries=1)
            is_the_entrys = died is not None and microseconds(died) < self._limit
            if is_the_entrys and not self._dry_run:
                queue.remove(item_id, tr=tr)
        elif record is not None:
            is_the_entrys = is_end(record, entry)
        if is_the_entrys:
            self._remove(tr, entry)
            return Pruned(failed=1)
        self._remove_entry(tr, entry)
        return Pruned(entries=1)

    def _remove(self, tr: Transaction, entry: EndedTask) -> None:
        if not self._dry_run:
            self._records.remove(tr, entry.id)
        self._remove_entry(tr, entry)

    def _remove_entry(self, tr: Transaction, entry: EndedTask) -> None:
        if self._dry_run:
            return
        key, _ = self._records.ended_row(entry)
        tr.add_read_conflict_key(key)
        tr.clear(key)


def _given_way(catalog: Catalog, work: Callable[[Transaction], Any]) -> Any:
    """Run a portion; return None if others were in the way each time."""
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(random.uniform(0, _PAUSE_SECONDS * 2**attempt))
        try:
            return run(catalog.database, work, retries_conflicts=False)
        except Conflict:
            continue
    return None


def _queues_of(backend: Any, catalog: Catalog) -> list[str]:
    """Return the names of the backend's queues in which tasks have ended."""
    names = run(
        catalog.database, lambda tr: backend.records.ended_queues(tr.snapshot), read_only=True
    )
    return [name for name in names if backend.owns(name)]


# The thread


class Housekeeping:
    """Keep schedules and retention of a backend, from :meth:`start` to :meth:`stop`.

    Args:
        backend: The backend.
        catalog: Where its queues are.
        threads: The worker's, of which this is one.
    """

    def __init__(
        self, backend: Any, catalog: Catalog, threads: WorkerThreads | None = None
    ) -> None:
        self._backend = backend
        self._catalog = catalog
        self._threads = threads
        self._periodic = DueSchedules(backend, catalog)
        #: The last queue of limited tasks at which was looked.
        self._passed_key = ""
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None
        self._mover: MoverThread | None = None
        #: How many rows of the outbox were moved for a worker that does not stay.
        self.moved = 0

    def start(self, *, once: bool = False) -> None:
        """Begin; with ``once`` do only what is due now, for a worker that does not stay."""
        if self._backend.settings.outbox is not None and not once:
            from fdbqueue.tasks.outbox.mover import MoverThread

            self._mover = MoverThread(self._backend.outbox(), self._catalog, self._threads)
            self._mover.start()
        self._start(self._run_once if once else self._run)

    def start_moving(self) -> bool:
        """Begin to move the rows of the outbox once more; False if there is none."""
        if self._backend.settings.outbox is None:
            return False
        self._start(functools.partial(self._try, self._move))
        return True

    def _start(self, work: Callable[[], None]) -> None:
        self._thread = OwnThread(work, name="fdbqueue-tasks-house", owner=self._threads)
        self._thread.start()

    def is_at_work(self) -> bool:
        """Tell whether the thread has not ended."""
        return self._thread is not None and self._thread.is_alive()

    def join(self, seconds: float) -> None:
        """Wait for the end of the thread, for some seconds at most."""
        if self._thread is not None:
            self._thread.join(seconds)

    def stop(self) -> None:
        """End, once the transaction that is under way has ended; not later than five seconds."""
        self._is_over.set()
        if self._mover is not None:
            self._mover.stop()
        self.join(_STOP_SECONDS)

    def _run_once(self) -> None:
        self._try(self._periodic.enqueue_due)
        if self._backend.settings.outbox is not None:
            self._try(self._move)
        self._try(self._prune)

    def _move(self) -> None:
        """Move the rows of the outbox that wait."""
        from fdbqueue.tasks.outbox.mover import move_now

        done = move_now(
            self._backend.outbox(),
            self._catalog,
            goes_on=lambda _: not self._is_over.is_set(),
            rest=self._is_over.wait,
        )
        self.moved += done.moved

    def _run(self) -> None:
        prune_at = monotonic() + random.uniform(0, _PRUNE_SECONDS)
        while not self._is_over.is_set():
            self._try(self._periodic.enqueue_due)
            if monotonic() >= prune_at:
                self._try(self._prune)
                prune_at = monotonic() + random.uniform(1, 2) * _PRUNE_SECONDS
            left = self._periodic.seconds_left() + random.uniform(0, _SPREAD_SECONDS)
            self._is_over.wait(min(left, max(0.0, prune_at - monotonic())))

    def _try(self, work: Callable[[], Any]) -> None:
        """Do some work; whatever a project's code raises in it, the thread goes on."""
        try:
            with left_in_order():
                work()
        except BaseException:
            with contextlib.suppress(BaseException):  # one that cannot be shown
                logger.exception("schedules or retention have failed")

    def _prune(self) -> None:
        """Prune if it is this worker's turn; what prevents it is logged, and tried again."""
        try:
            if not may_prune(self._backend, self._catalog):
                return
            functions = self._backend.records.functions
            run(self._catalog.database, lambda tr: functions.clear_old(tr, now_us()))
            retention = self._backend.settings.retention
            pace = _Pace(self._is_over, self._periodic)
            self._keep_trees(pace)
            self._remove_idle_keys(pace)
            pruned = prune(self._backend, retention, catalog=self._catalog, goes_on=pace.goes_on)
        except Exception as error:
            if is_engines(error):
                facts = {"error": type(error).__name__}
                logger.warning("the engine has failed; tasks are pruned later", extra=facts)
            else:
                logger.exception("ended tasks could not be removed")
            return
        if pruned.successful or pruned.failed:
            numbers = {"successful": pruned.successful, "failed": pruned.failed}
            alias = {"backend": self._backend.alias}
            logger.info("ended tasks were removed", extra={**numbers, **alias})

    def _remove_idle_keys(self, pace: _Pace) -> None:
        """Remove what empty queues of limited tasks have left; go on where the last look ended."""
        names = (
            name
            for one in self._backend.limited_names()
            for name in self._catalog.family(one).names(after=self._passed_key)
            if self._backend.owns(self._catalog.home(name))
        )
        passed = list(itertools.islice(names, _KEYS_AT_ONCE))
        self._passed_key = passed[-1] if len(passed) == _KEYS_AT_ONCE else ""
        for name in passed:
            Examiner(self._catalog.queue(name)).remove_idle(_IDLE_SECONDS)
            if not pace.goes_on(Pruned()):
                return

    def _keep_trees(self, pace: _Pace) -> None:
        """Look at groups and chains that are due.

        Those that ended as long ago as their tasks are kept at most are removed; of those that have
        not ended, what waits is enqueued.
        """
        retention, kept = self._backend.settings.retention, None
        if retention.successful is not None and retention.failed is not None:
            kept = max(retention.successful, retention.failed)
        work = functools.partial(clear_old, backend=self._backend, now=now_us(), kept_seconds=kept)
        while not self._is_over.is_set():
            looked = _given_way(self._catalog, work)
            if not (looked and looked.looks):
                return
            for due in looked.begun:
                if not self._keep_tree(due, pace):
                    return

    def _keep_tree(self, due: DueLook, pace: _Pace) -> bool:
        """Enqueue what waits of a group or a chain; tell whether there is time for more."""
        backend, tree = self._backend, due.tree
        while _given_way(self._catalog, lambda tr: Tree(tr, backend, tree).enqueue_waiting()):
            if not pace.goes_on(Pruned()):
                return False
        again = functools.partial(look_again, backend=self._backend, due=due, now=now_us())
        _given_way(self._catalog, again)
        return True


class _Pace:
    """How fast a worker prunes.

    Args:
        is_over: Set when the worker ends.
        periodic: The schedules, which come first.
    """

    def __init__(self, is_over: threading.Event, periodic: DueSchedules) -> None:
        self._is_over = is_over
        self._periodic = periodic
        self._deadline = monotonic() + _MAX_PRUNE_SECONDS
        self._since = monotonic()

    def goes_on(self, pruned: Pruned) -> bool:
        """Pause after a transaction, and tell whether there may be another."""
        now = monotonic()
        pause = _PAUSE_FACTOR * (now - self._since)
        if pruned.gave_way or now >= self._deadline or self._is_over.wait(pause):
            return False
        self._periodic.enqueue_due()
        self._since = monotonic()
        return True
