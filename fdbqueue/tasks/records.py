"""What is stored of tasks, and where: the values of their items, and records.

The value of a task's item is its :class:`TaskCall`: which function to call, and with what. It is a
JSON object, so that every page and command shows it:

    {"id": ..., "task": "shop.tasks.send", "args": [...], "kwargs": {...}, "backend": "default"}

and ``"priority"`` if it is not 0, ``"run_after"`` (ISO 8601) if the task has one, ``"tree"`` if it
is in a group or a chain (:mod:`fdbqueue.tasks.trees`), and ``"max_attempts"`` if the task has its
own: what the code says counts, but code whose import kills the worker never says it. ``"expires"``
is a moment (ISO 8601), or the seconds since the push or since ``run_after``. The id is that of the
task's result.

Everything else is under ``(*PREFIX, "tasks")``:

    ("result", id, part)                     a record, as JSON in parts of 90,000 bytes
    ("ended", queue, status, moment, id)     the dotted path of an ended task; if it is in a group
                                             or a chain, also a zero byte and the id of the tree
    ("state", what, ...)                     what workers know together: housekeeping, schedules
    ("runs", ...)                            counters, see :mod:`fdbqueue.tasks.function_counters`
    ("tree", ...), ("trees", ...)            groups and chains, see :mod:`fdbqueue.tasks.trees`

A record is *pending* as long as the task's item is in its queue, ready, delayed, leased or dead. It
is written with the push, and says where the item is, and what is known of the attempts so far. The
item's state is the task's status, so no record changes when a task starts, or its worker dies. A
record is *final* once the item is gone: it says all there is to say of the task. The entries of
``ended`` are in the order of the tasks' ends, for lists and for the retention.
"""

from __future__ import annotations

import datetime
import functools
import json
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fdb.subspace_impl import Subspace

from fdbqueue.engines.protocols import Transaction
from fdbqueue.service import AHEAD, MAX_SECONDS
from fdbqueue.service.storage.item_keys import packed as packed_element
from fdbqueue.tasks.compat import TaskResult, TaskResultStatus
from fdbqueue.tasks.function_counters import FunctionCounters

#: How a task has ended, as records and the index have it.
SUCCESSFUL = TaskResultStatus.SUCCESSFUL.value
FAILED = TaskResultStatus.FAILED.value

_PART_BYTES = 90_000
#: What is between the path and the tree of an entry.
_TREE = "\0"
#: The first part of a record, and those behind it up to the last, as its keys end.
_FIRST, _SECOND, _BEHIND = packed_element(0), packed_element(1), b"\xff"
_encode, _encode_numbers = (
    json.JSONEncoder(ensure_ascii=False, allow_nan=allow_nan, separators=(",", ":")).encode
    for allow_nan in (True, False)
)
#: The most errors that a record keeps, the latest, and the longest traceback.
MAX_ERRORS = 10
MAX_TRACEBACK = 6_000
#: The longest id, which is what the API allows.
MAX_ID = 64
#: What one step of a task's priority is worth in its item's; a time in milliseconds is less.
_STEP = 2**48
_LATEST = 2**47
#: The longest path of a task.
_MAX_PATH = 1_000
#: What a value must have.
_KINDS = (("id", str), ("task", str), ("args", list), ("kwargs", dict), ("backend", str))
#: How a pending record begins, and how a new one ends.
_PENDING_END = b'"}'
_PENDING = re.compile(rb'\{"queue":"(?:[^"\\]|\\.)*","item":')


# The value of an item


class TreePlace(NamedTuple):
    """Which part of a group or a chain a task is, or a branch: see :mod:`fdbqueue.tasks.trees`.

    Attributes:
        tree: The id of what was enqueued as one.
        branch: The number of the group or the chain within it.
        at: Which part of that it is, from 0 on; ``of`` for what follows a group.
        of: How many parts the branch has.
        leads: Whether the branch is a chain, in which another part follows.
    """

    tree: str
    branch: int
    at: int
    of: int
    leads: bool = False

    def stored(self) -> list[Any]:
        """Return it as values of items, and records, have it."""
        return [*self] if self.leads else [*self[:4]]


def place_in(stored: Any) -> TreePlace | None:
    """Return the place that a value has, None if it is none."""
    kinds = [*map(type, stored)] if isinstance(stored, list) else []
    if kinds[:4] != [str, int, int, int] or kinds[4:] not in ([], [bool]):
        return None
    found = TreePlace(*stored)
    return found if is_id(found.tree) and 0 <= found.at <= found.of and found.branch >= 0 else None


class TaskCall(NamedTuple):
    """What a worker is to call.

    Attributes:
        id: The id of the task's result.
        task: The dotted path of the task.
        args, kwargs: The arguments.
        backend: The alias of the backend that enqueued it.
        priority: The task's priority, -100 to 100, the highest first.
        run_after: Before when it does not run, None if that is not said.
        max_attempts: How many times it ran at most when it was enqueued; None for what the backend
            says.
        place: Which part of a group or a chain it is; None if it is in none.
        expires: By when it must have begun, or in how many seconds, from when
            :func:`~fdbqueue.tasks.states.deadline` says; None for any time.
    """

    id: str
    task: str
    args: list[Any]
    kwargs: dict[str, Any]
    backend: str
    priority: int = 0
    run_after: datetime.datetime | None = None
    max_attempts: int | None = None
    place: TreePlace | None = None
    expires: datetime.datetime | float | None = None


def unknown_call(result_id: str, backend: str = "") -> TaskCall:
    """Return what stands for the call of an item that is not a task."""
    return TaskCall(result_id, "unknown.unknown", [], {}, backend)


def call_of(result: TaskResult[..., Any]) -> TaskCall:
    """Return the call of a task that is to be enqueued."""
    task: Any = result.task
    try:
        max_attempts, expires = task.max_attempts, task.expires
    except AttributeError:  # a task of another class
        max_attempts = expires = None
    return TaskCall(
        result.id,
        task.module_path,
        result.args,
        result.kwargs,
        result.backend,
        int(task.priority),
        task.run_after,
        max_attempts,
        expires=expires,
    )


def is_id(text: Any) -> bool:
    """Tell whether something may be the id of a result: up to 64 printable characters."""
    return isinstance(text, str) and 1 <= len(text) <= MAX_ID and text.isprintable()


def packed(call: TaskCall) -> dict[str, Any]:
    """Return a call as the value of its item."""
    value: dict[str, Any] = {
        "id": call.id,
        "task": call.task,
        "args": call.args,
        "kwargs": call.kwargs,
        "backend": call.backend,
    }
    if call.priority:
        value["priority"] = call.priority
    if call.run_after is not None:
        value["run_after"] = call.run_after.isoformat()
    if call.max_attempts is not None:
        value["max_attempts"] = call.max_attempts
    if call.place is not None:
        value["tree"] = call.place.stored()
    if call.expires is not None:
        value["expires"] = _expires_stored(call.expires)
    return value


def _expires_stored(expires: datetime.datetime | datetime.timedelta | float) -> str | float:
    if isinstance(expires, datetime.datetime):
        at = expires if expires.tzinfo is not None else expires.astimezone()
        return at.isoformat()
    return expires.total_seconds() if isinstance(expires, datetime.timedelta) else expires


def _expires_in(stored: Any) -> datetime.datetime | float:
    """Return when a value says that its task expires.

    Raises:
        TypeError, ValueError: It says that wrongly.
    """
    if isinstance(stored, str):
        at = datetime.datetime.fromisoformat(stored)
        if at.tzinfo is not None:
            return at
    elif 0 <= stored <= MAX_SECONDS:
        return float(stored)
    raise ValueError


def unpacked(value: Any) -> TaskCall | None:
    """Return the call that an item's value is, None if it is none."""
    if not isinstance(value, dict):
        return None
    for name, kind in _KINDS:
        if not isinstance(value.get(name), kind):
            return None
    priority, moment, expires = value.get("priority", 0), value.get("run_after"), None
    try:
        run_after = None if moment is None else datetime.datetime.fromisoformat(moment)
        if "expires" in value:
            expires = _expires_in(value["expires"])
    except (TypeError, ValueError):
        return None
    if type(priority) is not int or not is_id(value["id"]) or len(value["task"]) > _MAX_PATH:
        return None
    most, place = value.get("max_attempts"), value.get("tree")
    if most is not None and type(most) is not int:
        return None
    return TaskCall(
        value["id"],
        value["task"],
        value["args"],
        value["kwargs"],
        value["backend"],
        priority,
        run_after,
        most,
        None if place is None else place_in(place),
        expires,
    )


def aware(at: datetime.datetime | None) -> datetime.datetime | None:
    """Return a time with its zone; one without a zone is the process's local time."""
    return at.astimezone() if at is not None and at.tzinfo is None else at


def rank_of(call: TaskCall) -> int:
    """Return the priority of a call's item; the lowest is taken first.

    Tasks of a higher priority come first, then those with an earlier ``run_after``, then those
    without one; and among equals, as the queue does it, those that were enqueued first.
    """
    rank = -call.priority * _STEP
    if call.run_after is None:
        return rank
    return rank - _LATEST + min(_LATEST - 1, max(0, int(call.run_after.timestamp() * 1_000)))


# Records


class AttemptFailure(NamedTuple):
    """How one attempt failed: the class of the exception by its dotted path, and the traceback."""

    exception: str
    traceback: str


class Attempts(NamedTuple):
    """What is known of the attempts at a task.

    Attributes:
        workers: The ids of the workers, one for each attempt that has begun.
        errors: How attempts have failed, the latest ten.
        started: When the first attempt began, in microseconds; None if that is not known.
        latest: When the last attempt began, likewise.
        spared: How many leases of the item have ended before an attempt is known to have begun, or
            with one that does not count.
    """

    workers: tuple[str, ...] = ()
    errors: tuple[AttemptFailure, ...] = ()
    started: int | None = None
    latest: int | None = None
    spared: int = 0

    def failed(self, error: AttemptFailure) -> Attempts:
        """Return these attempts, the last of which has failed."""
        clipped = AttemptFailure(error.exception, _clipped(error.traceback))
        return self._replace(errors=(*self.errors, clipped)[-MAX_ERRORS:])

    def unspent(self) -> Attempts:
        """Return these attempts, the last of which does not count."""
        workers = self.workers[:-1]
        return self._replace(
            workers=workers,
            started=self.started if workers else None,
            spared=self.spared + 1,
        )

    def begun(self, worker: str, moment: int | None) -> Attempts:
        """Return these attempts and one more, and when it began; None if that is not known."""
        started = self.started if self.workers else moment
        return Attempts((*self.workers, worker), self.errors, started, moment, self.spared)


class EndedTask(NamedTuple):
    """An entry of the index of ended tasks.

    Attributes:
        queue: The name of the queue that the item was in.
        status: ``"SUCCESSFUL"`` or ``"FAILED"``.
        moment: When it ended, in microseconds.
        id: The id of its result.
        task: Its dotted path.
        tree: The id of the group or chain that it is a part of, with all that is around; else
            empty.
    """

    queue: str
    status: str
    moment: int
    id: str
    task: str
    tree: str = ""


#: Of a task that no worker has begun.
NO_ATTEMPTS = Attempts()


def pending(
    queue: str, item_id: str, attempts: Attempts = NO_ATTEMPTS, **more: Any
) -> dict[str, Any]:
    """Return a pending record."""
    return {"queue": queue, "item": item_id, **stored(attempts), **more}


@functools.lru_cache(maxsize=1_000)
def _pending_begin(queue: str) -> bytes:
    """Return how a new pending record begins, up to its item's id, which needs no escapes."""
    return encoded(pending(queue, "")).removesuffix(_PENDING_END)


def is_ahead(worker: str | None) -> bool:
    """Tell whether a lease was of a task that may not have begun, by its worker's name."""
    return worker is not None and worker.endswith(AHEAD)


def name_of(worker: str | None) -> str:
    """Return the name of the worker that has a lease."""
    return (worker or "unknown").removesuffix(AHEAD)


def stored(attempts: Attempts) -> dict[str, Any]:
    """Return attempts as a record has them."""
    if attempts is NO_ATTEMPTS:
        return {}
    return dict(filter(operator.itemgetter(1), zip(Attempts._fields, attempts, strict=True)))


def wishes_in(record: dict[str, Any]) -> dict[str, Any]:
    """Return what a record says of an abort: that the task is to end, and whether by force."""
    return {name: record[name] for name in ("abort", "by_force") if name in record}


def is_abort_asked(record: dict[str, Any] | None) -> bool:
    """Tell whether a record says that its task is to end; None stands for no record."""
    return record is not None and "abort" in record


def is_force_asked(record: dict[str, Any] | None) -> bool:
    """Tell whether a record says that its task is to be ended by force."""
    return record is not None and "by_force" in record


def item_place(record: dict[str, Any]) -> tuple[str, str]:
    """Return the name of the queue that the item of a pending record is in, and the item's id."""
    return record["queue"], record["item"]


def is_end(record: dict[str, Any], entry: EndedTask) -> bool:
    """Tell whether a final record and an entry of the index are of one end of a task."""
    return (record.get("status"), record.get("ended")) == (entry.status, entry.moment)


def is_pending(record: dict[str, Any]) -> bool:
    """Tell whether the task's item is in its queue still, or was when the record was written."""
    return "item" in record


def encoded(value: Any, *, allow_nan: bool = True) -> bytes:
    """Return what is stored of a JSON value, such as a record: compact JSON in UTF-8.

    Lone surrogates, which have no UTF-8, are escaped as JSON does it.

    Raises:
        ValueError: A number is none, or infinite, and that is not allowed.
    """
    text = _encode(value) if allow_nan else _encode_numbers(value)
    return text.encode(errors="backslashreplace")


class Records:
    """Read and write the records of tasks; each method takes part in a transaction.

    Args:
        prefix: The tuple that all keys of the setting start with.

    Attributes:
        functions: The counters of functions, which are beside the records.
    """

    def __init__(self, prefix: tuple[Any, ...]) -> None:
        self.prefix = prefix
        self.functions = FunctionCounters(prefix)
        tasks = Subspace((*prefix, "tasks"))
        self._results = tasks["result"]
        self._results_key: bytes = self._results.key()
        self._ended_begin = functools.lru_cache(lambda *within: tasks["ended"].pack(within))
        self._ended = tasks["ended"]
        self._state = tasks["state"]

    def read(self, tr: Transaction, result_id: str) -> dict[str, Any] | None:
        """Return a record, None if there is none."""
        return self.begin_read(tr, result_id)()

    def begin_read(self, tr: Transaction, result_id: str) -> Any:
        """Begin to read a record; what is returned returns it."""
        rows = tr[self._results[result_id].range()]

        def record() -> dict[str, Any] | None:
            data = b"".join([row.value for row in rows])
            return json.loads(data) if data else None

        return record

    def key(self, result_id: str) -> bytes:
        """Return the key that each change of a record writes or clears."""
        return self._results_key + packed_element(result_id) + _FIRST

    def begin_read_short(self, tr: Transaction, result_id: str) -> Any:
        """Begin to read a record in one key; what is returned returns None for a longer one too."""
        row = tr[self.key(result_id)]

        def record() -> dict[str, Any] | None:
            data = bytes(row) if row.present() else b""
            return json.loads(data) if 0 < len(data) < _PART_BYTES else None

        return record

    def begin_has(self, tr: Transaction, result_id: str) -> Callable[[], bool]:
        """Begin to read whether there is a record; what is returned tells."""
        row = tr[self.key(result_id)]
        return lambda: bool(row.present())

    def write(self, tr: Transaction, result_id: str, record: dict[str, Any]) -> None:
        """Write a record in place of another, which may be longer; reads nothing."""
        self.write_encoded(tr, result_id, encoded(record))

    def write_new(self, tr: Transaction, item_id: str, *, result_id: str, queue: str) -> None:
        """Write the pending record of a task that is pushed, whose item is in a queue."""
        data = _pending_begin(queue) + item_id.encode() + _PENDING_END
        tr[self._results_key + packed_element(result_id) + _FIRST] = data

    def write_encoded(self, tr: Transaction, result_id: str, data: bytes) -> None:
        """Write an encoded record in place of another, which may be longer."""
        key = self._results_key + packed_element(result_id)
        tr.clear_range(key + _SECOND, key + _BEHIND)
        tr[key + _FIRST] = data[:_PART_BYTES]
        for part, start in enumerate(range(_PART_BYTES, len(data), _PART_BYTES), 1):
            tr[key + packed_element(part)] = data[start : start + _PART_BYTES]

    def remove(self, tr: Transaction, result_id: str) -> None:
        """Remove a record."""
        del tr[self._results[result_id].range()]

    def some(
        self, tr: Transaction, after: str | None, limit: int
    ) -> tuple[list[tuple[str, bool]], str | None]:
        """Return ids of records in their order, each with whether it is pending.

        Reads without depending on them.

        Args:
            tr: The transaction.
            after: Only those that follow this id; None for all.
            limit: The most parts of records to read.

        Returns:
            The ids, and the last of them; None behind the last record.
        """
        begin, end = self._results.range().start, self._results.range().stop
        if after is not None:
            begin = self._results[after].range().stop
        found, last = [], None
        rows = list(tr.snapshot.get_range(begin, end, limit=limit))
        for row in rows:
            last, part = self._results.unpack(row.key)
            if part == 0:
                found.append((last, _PENDING.match(row.value) is not None))
        return found, last if len(rows) == limit else None

    def state_key(self, *names: str) -> bytes:
        """Return the key of something that the workers know together."""
        key: bytes = self._state.pack(names)
        return key

    # The index of ended tasks

    def ended_queues(self, tr: Transaction) -> list[str]:
        """Return the names of the queues that the index has."""
        names: list[str] = []
        begin, end = self._ended.range().start, self._ended.range().stop
        while rows := list(tr.get_range(begin, end, limit=1)):
            names.append(self._ended.unpack(rows[0].key)[0])
            begin = self._ended[names[-1]].range().stop
        return names

    def ended_row(self, ended: EndedTask) -> tuple[bytes, bytes]:
        """Return the key and the value of an entry."""
        key = self._ended_begin(*ended[:2]) + b"".join(map(packed_element, ended[2:4]))
        text = f"{ended.task}{_TREE}{ended.tree}" if ended.tree else ended.task
        return key, text.encode(errors="replace")

    def begin_moments(
        self, tr: Transaction, queue: str, status: str, *, since: int = 0, limit: int
    ) -> Callable[[], list[int]]:
        """Begin to read when tasks have ended since a moment: the latest first."""
        within = self._ended[queue][status]
        begin, end = within.pack((since,)), within.range().stop
        rows = tr.get_range(begin, end, limit=limit, reverse=True)
        return lambda: [within.unpack(row.key)[0] for row in rows]

    def ended(
        self,
        tr: Transaction,
        queue: str,
        status: str,
        *,
        before: int | None = None,
        after: tuple[int, str] | None = None,
        limit: int,
        newest_first: bool = False,
    ) -> Iterator[EndedTask]:
        """Yield entries of one queue and status in the order of their ends.

        Args:
            tr: The transaction; the entries are read as it reads.
            queue: The name of the queue.
            status: ``"SUCCESSFUL"`` or ``"FAILED"``.
            before: Only tasks that ended before this moment.
            after: The moment and the id of an entry: only those that follow it.
            limit: The most.
            newest_first: Whether to begin with the latest.
        """
        within = self._ended[queue][status]
        begin, end = within.range().start, within.range().stop
        if before is not None:
            end = within.pack((before,))
        if after is not None and newest_first:
            end = within.pack(after)
        elif after is not None:
            begin = within.pack(after) + b"\x00"
        if begin >= end:
            return
        for row in tr.get_range(begin, end, limit=limit, reverse=newest_first):
            moment, result_id = within.unpack(row.key)
            task, _, tree = row.value.decode(errors="replace").partition(_TREE)
            yield EndedTask(queue, status, moment, result_id, task, tree)


def _clipped(text: str) -> str:
    """Return the end of a text that is too long: of a traceback that is what matters."""
    return text if len(text) <= MAX_TRACEBACK else f"[…]{text[-MAX_TRACEBACK:]}"
