"""Writes that share transactions: pushes, acks, nacks and extends of all threads of a process.

What they share of one is a :class:`SharedTransaction`. A round that takes items has one, too, in
which the acks take part that go with it.

A thread submits its write to the combiner of its queue (:mod:`fdbqueue.service.combiner`). When
no other thread waits, it commits the write itself. Otherwise a helper thread commits the writes
in line in one transaction, with one receipt: every write begins its reads, then each is applied,
or fails alone and has written nothing; the counts are written once. Each thread then has its own
result or its own error.

A transaction that does not know its read version yet takes every stamped key for one of its own:
after a push in commit order it could read no item at all (error 1036). So it waits for the version
before it writes: by the read of the format that a push waits for, and in a caller's transaction.
Items of the very last commit may be hidden even so: then each write is committed by itself.

A new kind of write is a subclass of :class:`Write` in its own module; the combiner does not
change. The :class:`SharedWrites` of a queue is made in
:mod:`fdbqueue.service.consume.poppers`. Each queue object has a :class:`Runner`, which runs
its writes, and its other operations but those that take items.

No write waits for others to join it. Up to three transactions of writes may be in flight, since
pushes do not conflict; but one if the engine makes one commit at a time, because each then has
more writes. What a write reads for its result (the item of a unique key, that of an extend) may be
long: a transaction that has read as much as one operation may return leaves the writes behind that
to the next. Two writes to one item never share a transaction: the second would not see the first.
When a commit conflicts, because another process has changed a lease, the whole transaction runs
again. When it is refused for good, each write is committed by itself, so that only the one that
does not fit fails. When its outcome stays unknown, it is unknown for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.exceptions import EngineError, FdbQueueError
from fdbqueue.service import instrumentation
from fdbqueue.service.combiner import CombinedBatch, Combiner, SharedOperation
from fdbqueue.service.items import Priority
from fdbqueue.service.sizes import MAX_RETURNED_BYTES, STEP_BYTES
from fdbqueue.service.storage.counts import CountChange
from fdbqueue.service.storage.item_keys import Row
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.service.transactions import error_code, run, run_stamped

T = TypeVar("T")

#: How many transactions of writes one process has in flight at most.
_IN_FLIGHT = 3
#: A transaction has read what may be its own, which is not known before its commit.
ACCESSED_UNREADABLE = 1036
#: One transaction takes no more writes than this.
_MAX_WRITES = 1_000

#: A write that was applied, or the error it failed with.
_Results = list[tuple["Write", FdbQueueError | None]]


class SharedTransaction:
    """A transaction in which several writes take part, and what they share.

    Attributes:
        tr: The transaction.
        count_change: What they change in the counts; written once, behind all of them.
        tails: The reads that find where the queue ends, by priority.
        high: The read of the highest count or index ever hidden; None if nothing needs it.
        following: The next index by priority, once that is known.
        version: The read of the transaction's version, which is the index of what is pushed to a
            queue with shards; None if nothing is.
        uniques: By the digest of a unique key: the read that finds the item that has it; the item,
            once it is known.
        handed: The items of handoffs that may have unique keys, by their places; None
            until they are read.
        read_bytes: How long the values are that it has read for results.
        lacks_format: Whether the queue has no format yet; known once :meth:`check_format` has
            returned.
    """

    __slots__ = (
        "_format",
        "_store",
        "count_change",
        "following",
        "handed",
        "high",
        "lacks_format",
        "read_bytes",
        "tails",
        "tr",
        "uniques",
        "version",
    )

    def __init__(
        self, tr: Transaction, store: ItemStore, count_change: CountChange | None = None
    ) -> None:
        self.tr = tr
        self.count_change: CountChange = count_change or store.count_change(tr)
        self.tails: dict[Priority | None, Any] = {}
        self.high: Any = None
        self.following: dict[Priority | None, int] = {}
        self.version: Any = None
        self.uniques: dict[bytes, Any] = {}
        self.handed: dict[bytes, Row] | None = None
        self.read_bytes = 0
        self._store = store
        self._format: Callable[[], bool] | None = None
        self.lacks_format = False

    def begin_format(self) -> None:
        """Begin to read the queue's format, on which whatever writes ready items depends."""
        if self._format is None:
            self._format = self._store.format.begin_read(self.tr)

    def check_format(self) -> None:
        """Check that the queue has the format of this process, or none yet, if that was read.

        Raises:
            FormatMismatch: It was written under other settings.
        """
        self.lacks_format = self._format is not None and not self._format()

    def adopt(self) -> None:
        """Write the format of this process; called by a push that found none.

        Raises:
            FormatMismatch: Items that are there already are of another kind.
        """
        self._store.format.adopt(self.tr, self._store.ends(self.tr))
        self.lacks_format = False


class Write(SharedOperation):
    """One change of a queue, which may share its transaction with others.

    Its methods may be called several times, each time for a new attempt.

    Attributes:
        store: The queue's items.
        size_bytes: About what it sends.
        places: The places of the items that it changes; none for a push.
        beside: What the caller writes beside it; None for nothing.
    """

    __slots__ = ("beside", "places", "size_bytes", "store")

    def __init__(
        self,
        store: ItemStore,
        size_bytes: int,
        places: frozenset[bytes] = frozenset(),
        beside: Callable[..., None] | None = None,
    ) -> None:
        self.store = store
        self.size_bytes = size_bytes
        self.places = places
        self.beside = beside

    def begin_reads(self, shared: SharedTransaction) -> None:
        """Begin the reads of this write, without waiting for their results.

        A write that may write ready items begins to read the format, too.
        """
        raise NotImplementedError

    def apply(self, shared: SharedTransaction) -> None:
        """Apply this write, or raise an error of fdbqueue before anything is written."""
        raise NotImplementedError

    def result_from(self, stamp: bytes, /) -> Any:
        """Return the result; ``stamp`` is the commit's versionstamp, empty if it has none."""
        raise NotImplementedError

    def apply_alone(self, tr: Transaction) -> None:
        """Do all of it in a transaction, which no other write shares."""
        shared = SharedTransaction(tr, self.store)
        self.begin_reads(shared)
        shared.check_format()
        self.apply(shared)
        shared.count_change.write()

    def do_in(self, tr: Transaction) -> Any:
        """Do it in the caller's transaction, and return its result."""
        tr.get_read_version().wait()
        self.apply_alone(tr)
        return self.result_from(b"")


class SharedWrites:
    """Commit the writes of this process to one queue, for their combiner.

    ``combiner.submit(write, database)`` commits a write together with those of other threads, and
    returns its result. It raises the write's own error, or DeadlineExceeded (nothing was
    changed), or OutcomeUnknown.

    Args:
        database: Anything with ``create_transaction()``, without a time limit.
        store: The queue's items.
    """

    def __init__(self, database: Database, store: ItemStore) -> None:
        self._database = database
        self._store = store
        #: Whether results need the commit's versionstamp.
        self._stamped = store.options.in_commit_order
        one_at_a_time = getattr(database, "commits_one_at_a_time", False)
        self.combiner = Combiner(self, turns=1 if one_at_a_time else _IN_FLIGHT)

    def alone(self, operation: Write) -> bool:
        """Commit one write in its own thread."""
        _, stamp = run_stamped(
            operation.database, operation.apply_alone, wrote=True, stamped=self._stamped
        )
        operation.result = operation.result_from(stamp)
        return True

    def together(self, batch: CombinedBatch) -> None:
        """Commit the writes in line in one transaction, as many as fit."""
        writes = _fitting(batch.waiting())

        def apply(tr: Transaction) -> _Results:
            taken_up = batch.take_up(writes)
            results = self._apply(tr, taken_up)
            batch.let_go(taken_up[len(results) :])
            return results

        try:
            results, stamp = run_stamped(
                self._database,
                apply,
                wrote=lambda results: any(error is None for _, error in results),
                stamped=self._stamped,
            )
        except Exception as error:
            if len(writes) == 1 or not _may_be_of_one(error):
                raise
            batch.let_go()
            for write in writes:
                self._do_by_itself(batch, write)
            return
        batch.finish([(write, error or write.result_from(stamp)) for write, error in results])

    def _apply(self, tr: Transaction, writes: Sequence[Write]) -> _Results:
        shared = SharedTransaction(tr, self._store)
        for write in writes:
            write.begin_reads(shared)
        shared.check_format()
        results: _Results = []
        for write in writes:
            results.append((write, _applied(write, shared)))
            if shared.read_bytes >= MAX_RETURNED_BYTES:
                break
        shared.count_change.write()
        return results

    def _do_by_itself(self, batch: CombinedBatch, write: Write) -> None:
        """Commit one write of a refused batch in a transaction of its own."""
        for taken_up in batch.take_up([write]):
            try:
                _, stamp = run_stamped(
                    self._database, taken_up.apply_alone, wrote=True, stamped=self._stamped
                )
                result = taken_up.result_from(stamp)
            except Exception as error:  # noqa: BLE001  # its thread raises it
                result = error
            batch.finish([(taken_up, result)])

    def undo(self, operation: Write) -> None:
        """Leave the write as it is: its thread has raised ``OutcomeUnknown``."""


def _applied(write: Write, shared: SharedTransaction) -> FdbQueueError | None:
    """Apply a write; return its error if it fails alone."""
    try:
        write.apply(shared)
    except EngineError:
        raise
    except FdbQueueError as error:
        if write.beside is not None:  # it may be the caller's, and half of it written: none
            raise  # commits, and then each write by itself
        return error
    return None


def _fitting(writes: Sequence[Write]) -> list[Write]:
    """Return the first write, and the ones after it that fit into one transaction.

    At most 1,000 writes and ``STEP_BYTES``, and one write to each item.
    """
    found: list[Write] = []
    places: set[bytes] = set()
    size = 0
    for write in writes[:_MAX_WRITES]:
        size += write.size_bytes
        if found and size > STEP_BYTES:
            break
        if not places.isdisjoint(write.places):
            continue
        places.update(write.places)
        found.append(write)
    return found


def _may_be_of_one(error: Exception) -> bool:
    """Tell whether a commit was refused, perhaps because of one of its writes alone."""
    if not getattr(error, "outcome_known", False) or isinstance(error, EngineError):
        return False
    code = error_code(error)
    return code is None or code == ACCESSED_UNREADABLE or 2000 <= code < 3000


class OperationRunner:
    """Run operations in the caller's transaction, or in transactions of their own.

    Args:
        database: Anything with ``create_transaction()``.
        queue: The name of the queue, or family, for observers.
    """

    def __init__(self, database: Database, queue: str) -> None:
        self.database = database
        self.queue = queue

    def read(self, tr: Transaction | None, function: Callable[[Transaction], T]) -> T:
        """Call a function that only reads."""
        if tr is not None:
            return function(tr)
        return run(self.database, function, read_only=True)

    def write(
        self,
        verb: str,
        tr: Transaction | None,
        function: Callable[[Transaction], T],
        *,
        wrote: Callable[[T], bool] | bool = True,
    ) -> T:
        """Call a function that writes, and report the verb to observers if ``tr`` is None.

        Args:
            verb: What is done.
            tr: The caller's transaction, or None.
            function: What to call.
            wrote: Whether it writes anything, or what tells that from the result.
        """
        if tr is not None:
            return function(tr)
        return instrumentation.observed(verb, self.queue, run, self.database, function, wrote=wrote)


class Runner(OperationRunner):
    """Run the operations of a queue, whose writes share transactions.

    Pops and leases do not come here: without ``tr`` they go through the
    :class:`~fdbqueue.service.consume.poppers.ProcessGroup`.

    Args:
        database: Anything with ``create_transaction()``.
        queue: The queue's name, for observers.
        writes: The writes of this process to the queue, which share transactions.
    """

    def __init__(self, database: Database, queue: str, writes: SharedWrites) -> None:
        super().__init__(database, queue)
        self._combiner = writes.combiner

    def share(self, verb: str, write: Write, tr: Transaction | None) -> Any:
        """Do a write: in ``tr``, or for None in a transaction that other threads may share."""
        if tr is not None:
            return write.do_in(tr)
        if not instrumentation.observers:  # saves two calls
            return self._combiner.submit(write, self.database)
        return instrumentation.observed(
            verb, self.queue, self._combiner.submit, write, self.database
        )
