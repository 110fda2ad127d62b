"""Abort a task, in its queue or in the outbox; one that runs sees that it is to end, or is ended.

A task that waits has no attempt to end: the transaction of the abort removes its item and writes
its final record. Of one that runs, the record gets a *wish*, which each attempt at it keeps. Who
may do what:

- *Anybody who may abort a task* writes the wish, in a transaction that depends on the item and the
  record, as the end of the attempt does. So one of the two comes first: either the attempt ends
  with the wish, and there is no other, however it ends; or the abort says ``"ended"``. ``by_force``
  is part of the wish, is never taken back, and counts one number up.
- *The task* may read the wish about once a second, and end itself: :func:`is_aborted`.
- *Its worker* reads the number every five seconds, while a function runs (``service/tools/
  presence.py``): after another number than before, it reads the records of what was leased before
  that moment, each attempt once. What is to be ended by force then has its deadline now
  (``time_limits.py``): its coroutine is cancelled, or its process replaced ``grace_seconds`` later.
  The attempt fails as ``TaskAborted``.

So an end by force begins within five seconds; within ten if the lease was being written just then,
or the function was not called yet. What is left behind by

- *a function that returns or raises something else*, before or because of that: this is its end,
  and is committed as any other; if it is a failure, it is final;
- *a process that is replaced*: the replacement fails the attempt, as with a time limit. Without a
  parent the function goes on until it ends, and the log says so;
- *a crash, a lost lease, an end whose outcome is not known*: the wish is in the record, so who
  leases the task next fails it before it begins. An attempt that has lost its lease is ended as
  well unless the task has ended elsewhere by then, and writes nothing;
- *an engine that is away*: the worker reads again every five seconds;
- *a fork, a thread or a process of its own* that the task has started: these go on. A coroutine
  that waits for ``sync_to_async`` is cancelled, its call is not;
- *a task with limits, in a group or a chain*: the end of the attempt is what frees its turn, or
  ends its branch. An abort of the whole asks or ends all that runs of it.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from django.db import DatabaseError

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.exceptions import path_of
from fdbqueue.service import Catalog, now_us, run
from fdbqueue.steady import monotonic
from fdbqueue.tasks.compat import (
    DEFAULT_TASK_BACKEND_ALIAS,
    InvalidTaskBackend,
    TaskResultDoesNotExist,
    ours,
)
from fdbqueue.tasks.ends import Attempt, final_writes
from fdbqueue.tasks.exceptions import TaskAborted
from fdbqueue.tasks.notes import as_stored
from fdbqueue.tasks.records import (
    FAILED,
    AttemptFailure,
    Records,
    TreePlace,
    is_abort_asked,
    is_force_asked,
    is_id,
    unpacked,
)
from fdbqueue.tasks.running import running
from fdbqueue.tasks.states import TaskState
from fdbqueue.tasks.trees import PartEnd, Tree, note_ends

#: How many tasks one transaction aborts.
ABORTED_TOGETHER = 20
_ONE = (1).to_bytes(8, "little")
#: How many tasks that wait are looked up in one transaction.
_LOOKED_UP_TOGETHER = 100


def abort(
    result_id: str, *, by_force: bool = False, backend: str = DEFAULT_TASK_BACKEND_ALIAS
) -> str:
    """Abort a task.

    One that is ready, or waits for its ``run_after`` or its next attempt, is removed, and FAILED
    with :class:`TaskAborted`. So is one that waits in the outbox, at once: whatever becomes of the
    transaction of the ORM that is open here. One that runs is asked to end: it sees that by
    :func:`is_aborted`, and is not run again, however this attempt ends.

    Args:
        result_id: The id of its result.
        by_force: Whether its worker also ends it while it runs, within ten seconds, as one that is
            over its time limit; its attempt fails with :class:`TaskAborted`.
        backend: The alias of its backend.

    Returns:
        ``"aborted"``, ``"asked"``, or ``"ended"`` if it had ended before.

    Raises:
        TaskResultDoesNotExist: There is no such task.
        InvalidTaskBackend: There is no such backend, or it is none of fdbqueue's.
    """
    owner = ours(backend, "to abort a task", InvalidTaskBackend)
    return abort_by(owner, result_id, by_force=by_force)


def abort_by(owner: Any, result_id: str, *, by_force: bool = False) -> str:
    """Abort a task of a backend, as :func:`abort` does."""
    try:
        return run(
            owner.catalog.database, lambda tr: abort_in(tr, owner, result_id, by_force=by_force)
        )
    except TaskResultDoesNotExist:
        if owner.settings.outbox is None or not is_id(result_id):
            raise
    return abort_row(owner.outbox(), owner.catalog, result_id, by_force=by_force)


def is_aborted() -> bool:
    """Tell whether the task that runs here was aborted, and so is to end.

    Looks about once a second, so a loop may ask each time round. False outside of tasks.
    """
    current = running()
    return current is not None and current.is_aborted()


def abort_in(tr: Transaction, backend: Any, result_id: str, *, by_force: bool = False) -> str:
    """Abort a task that is in its queue, in a transaction; see :func:`abort`."""
    task = backend.found(result_id, tr)
    if task is None:
        raise TaskResultDoesNotExist(result_id)
    if task.item is None or task.tab == "dead":
        return "ended"
    if task.tab == "leased":
        wish = {"abort": True, **({"by_force": True} if by_force else {})}
        backend.records.write(tr, result_id, {**task.record, **wish})
        if by_force:
            tr.add(_number_key(backend.records), _ONE)
        return "asked"
    backend.catalog.queue(task.queue).remove(task.item.id, tr=tr)
    write_aborted_unbegun(tr, backend, task)
    return "aborted"


def abort_in_all(
    tr: Transaction, backend: Any, ids: Sequence[str], *, by_force: bool, missing: str
) -> list[str]:
    """Abort some tasks in a transaction; return what became of each, ``missing`` if it is none."""
    outcomes = []
    for task_id in ids:
        try:
            outcomes.append(abort_in(tr, backend, task_id, by_force=by_force))
        except TaskResultDoesNotExist:
            outcomes.append(missing)
    return outcomes


def abort_queue(
    backend: Any,
    queue_name: str,
    *,
    by_force: bool = False,
    on_aborted: Callable[[int], None] = lambda _: None,
) -> Counter[str]:
    """Abort the tasks that are in a queue, twenty in each transaction; count what became of them.

    Those that wait first, then those that run. A task that is enqueued, leased or given back
    meanwhile may be passed over: call it again.

    Args:
        backend: The backend.
        queue_name: The queue as ``QUEUES`` of the backend names it, with what limits keep apart.
        by_force: As of :func:`abort`.
        on_aborted: Called after each transaction with how many it has aborted, or asked to end.
    """
    counts, abort_some = Counter[str](), functools.partial(abort_in_all, missing="ended")
    home = backend.queue(queue_name)
    parts = itertools.chain.from_iterable(
        backend.catalog.family(family).names() for family in backend.limited_names()
    )
    for name in [home.name, *(name for name in parts if backend.catalog.home(name) == home.name)]:
        queue = backend.catalog.queue(name)
        for state in ("ready", "delayed", "leased"):
            after, goes_on = None, True
            while goes_on:
                page = queue.page(state=state, after=after, limit=ABORTED_TOGETHER)
                ids = [call.id for item in page.items if (call := unpacked(item.value)) is not None]
                work = functools.partial(abort_some, backend=backend, ids=ids, by_force=by_force)
                outcomes = run(queue.database, work) if ids else []
                on_aborted(sum(outcome != "ended" for outcome in outcomes))
                counts.update(outcomes)
                after, goes_on = page.cursor, page.cursor is not None
    return counts


def is_whole_aborted(tr: Transaction, backend: Any, place: TreePlace) -> bool:
    """Tell whether the group or chain was aborted that a leased task is a part of."""
    return Tree(tr, backend, place.tree).is_aborted()


def write_aborted_unbegun(tr: Transaction, backend: Any, task: TaskState) -> None:
    """Write what is kept of a task that was aborted before it began, in a transaction."""
    item, error = task.item, TaskAborted(id=task.id)
    assert item is not None
    call = task.call._replace(id=task.id, backend=task.call.backend or backend.alias)
    attempts = task.over.failed(AttemptFailure(path_of(TaskAborted), f"{error}\n"))
    home, noted = backend.catalog.home(item.queue), as_stored(task.metadata, None)
    write = final_writes(backend.records, call, home, item, attempts, FAILED, now_us(), noted=noted)
    write(tr)
    if call.place is not None:
        note_ends(tr, backend, [PartEnd(call.place, is_success=False)])


def abort_row(outbox: Any, catalog: Catalog, result_id: str, *, by_force: bool = False) -> str:
    """Abort a task that is not in its queue, but in the table; or one that was just moved.

    Its record is written, in a transaction that depends on there being none. A mover's transaction
    depends on that, too: so it pushes nothing for the row, which is deleted here, or by the mover
    if the caller's transaction of the ORM is rolled back. The table is read behind the
    transaction's version, so a row that was moved before and is there yet is among the moved.

    Raises:
        TaskResultDoesNotExist: There is no such row, and no such task.
    """
    from fdbqueue.tasks.outbox.mover import has_moved  # its app need not be installed

    backend = outbox.backend

    def abort(tr: Transaction) -> str:
        tr.get_read_version().wait()
        task = outbox.found(result_id)
        if task is None or backend.records.read(tr, result_id) is not None:
            return abort_in(tr, backend, result_id, by_force=by_force)
        if has_moved(tr, outbox, result_id):
            return "ended"  # nothing is kept of it
        write_aborted_unbegun(tr, backend, task)
        return "aborted"

    outcome = run(catalog.database, abort)
    if outcome == "aborted":
        with contextlib.suppress(DatabaseError):  # then the mover deletes it
            outbox.rows.filter(result_id=result_id).delete()
    return outcome


# In a worker


class WaitingAborts:
    """Look whether tasks were aborted that a worker has leased ahead, and that wait for a thread.

    One transaction looks for all that wait, so a line of short tasks costs one read each few
    moments, and not one each task.

    Args:
        records: The records of tasks.
        database: Where they are.
    """

    def __init__(self, records: Records, database: Database) -> None:
        self._records = records
        self._database = database
        self._one_at_a_time = threading.Lock()

    def look(
        self, attempt: Attempt, waiting: Callable[[], Sequence[Attempt]], seconds: float
    ) -> None:
        """Look whether an attempt that begins is to end, unless that is known.

        Args:
            attempt: The attempt; its lease, and each look, says it for some seconds.
            waiting: Returns those that have not begun, which are looked up with it.
            seconds: How many seconds.
        """
        with self._one_at_a_time:
            now = monotonic()
            if now <= max(attempt.leased, attempt.looked) + seconds:
                return
            others = [one for one in waiting() if one is not attempt]
            looked = [attempt, *others[: _LOOKED_UP_TOGETHER - 1]]
            wishes = run(
                self._database, functools.partial(self._wishes, looked=looked), read_only=True
            )
            for one, is_abort_asked in zip(looked, wishes, strict=True):
                one.looked, one.is_abort_asked = now, is_abort_asked

    def _wishes(self, tr: Transaction, looked: Sequence[Attempt]) -> list[bool]:
        calls = [unpacked(one.item.value) for one in looked]
        reads = [None if call is None else self._records.begin_read(tr, call.id) for call in calls]
        return [read is not None and is_abort_asked(read()) for read in reads]


class ForcedAborts:
    """What a worker knows of aborts by force: which of its attempts are to be ended.

    Args:
        records: The records of tasks.
        database: Where they are.
    """

    def __init__(self, records: Records, database: Database) -> None:
        self._records = records
        self._database = database
        #: The number of aborts, and when another than before was read.
        self._number, self._changed_at = b"?", 0.0

    def among(self, called: Sequence[Attempt]) -> list[Attempt]:
        """Return the running attempts that must be ended; each once.

        Reads one number, and only after aborts by force the records of what was leased before.
        """
        look = functools.partial(self._read_force_asked, called=called)
        looked = run(self._database, look, read_only=True)
        for attempt in looked:
            attempt.looked = monotonic()
        return [attempt for attempt, is_abort_asked in looked.items() if is_abort_asked]

    def _read_force_asked(self, tr: Transaction, called: Sequence[Attempt]) -> dict[Attempt, bool]:
        row = tr.snapshot[_number_key(self._records)]
        number = bytes(row) if row.present() else b""
        if number != self._number:
            self._number, self._changed_at = number, monotonic()
        reads = {
            attempt: self._records.begin_read(tr, attempt.call.id)
            for attempt in called
            if max(attempt.leased, attempt.looked) < self._changed_at
        }
        return {attempt: is_force_asked(read()) for attempt, read in reads.items()}


def _number_key(records: Records) -> bytes:
    """Return the key of how many tasks were aborted by force while they ran."""
    return records.state_key("aborts")
