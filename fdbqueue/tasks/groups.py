"""Groups and chains: build them, enqueue them, abort them, and look after them.

    group([call(resize, image) for image in images]).then(call(publish, album)).enqueue()
    chain(call(fetch, url), parse, call(store, table="news")).enqueue()

A *part* is a task, a :func:`call` of one with arguments, or a group or a chain. All tasks are of
one backend of fdbqueue. :mod:`fdbqueue.tasks.trees` says how they are stored, and what is true at
each step; :mod:`fdbqueue.tasks.group_results` how they are shown.

An index beside the trees says when each is to be looked at: an hour after it was enqueued, and then
each hour until it has ended; at last when the retention since its end is over. It goes with one
range.

A look at a tree that has not ended enqueues what still waits for that: the task that does it may
have failed for good. If it has not, both take turns. A crash, or a look that is stopped, leaves
what the next look does. A tree is moved in the index when its look is over, so one that was not
reached comes first the next time.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from asgiref.sync import sync_to_async
from django.db import transaction
from fdb.subspace_impl import Subspace

from fdbqueue.engines.protocols import Transaction
from fdbqueue.service import now_us, run
from fdbqueue.tasks.aborts import ABORTED_TOGETHER, abort_in_all
from fdbqueue.tasks.backend import MAX_CALL_BYTES
from fdbqueue.tasks.compat import (
    DEFAULT_TASK_BACKEND_ALIAS,
    InvalidTask,
    Task,
    TaskResultDoesNotExist,
    TaskResultStatus,
    ours,
)
from fdbqueue.tasks.group_results import GroupResult, backend_and_branch, branch_named
from fdbqueue.tasks.key_limit_queues import (
    NO_LIMITS,
    Limited,
    family_of,
    is_limited,
    later_key,
    needs_arguments,
    store_limits,
    where,
    without_key,
)
from fdbqueue.tasks.options import FdbQueueTask
from fdbqueue.tasks.records import call_of, encoded, packed
from fdbqueue.tasks.results import new_id, new_result
from fdbqueue.tasks.trees import MAX_BYTES, Tree, TreeKeys, chunks_of, range_of, rows_of_branch

#: The most tasks enqueued as one, without what follows groups, and how deep they may be nested.
MAX_TASKS, MAX_DEPTH = 10_000, 50
#: The most queues that a tree says its tasks are in.
_MAX_QUEUES = 100
#: What a call is longer by in its item, where it has its place, too.
_PLACE_BYTES = 200
#: How long rows are kept that no tree has begun with.
UNBEGUN_SECONDS = 86_400
#: How long there is between two looks at a tree that has not ended.
LOOK_SECONDS = 3_600
#: How many trees one transaction looks at.
_LOOKS = 20
#: The most rows of a transaction that stores them, or reads them.
_ROWS_TOGETHER = 2_000


@dataclasses.dataclass(frozen=True)
class Call:
    """A task, and what it is called with."""

    task: Task[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)


def call(task: Any, *args: Any, **kwargs: Any) -> Call:
    """Return a call of a task, as a part of a group or a chain; nothing is enqueued.

    Raises:
        InvalidTask: It is no task.
    """
    if not isinstance(task, Task):
        raise InvalidTask(f"A {type(task).__name__} is no task: decorate its function with @task.")
    return Call(task, args, kwargs)


class Branch:
    """A group or a chain."""

    kind = ""

    def __init__(self, parts: Iterable[Any]) -> None:
        self.parts = tuple(_part(part) for part in parts)
        if not self.parts:
            raise InvalidTask(f"A {self.kind} has at least one part; this one is empty.")
        #: What follows it, if anything does; and whether also if a part has failed.
        self.follows: Any = None
        self.always = False

    def enqueue(self) -> GroupResult:
        """Enqueue all of it, exactly once; nothing runs if this raises.

        Up to some hundred tasks are enqueued in this call. Others are enqueued by a task of
        fdbqueue's own, so the group is there when this returns, and its tasks come bit by bit.
        ``task_enqueued`` is not sent.

        Raises:
            InvalidTask: A task cannot run with its backend, has a unique key, or is of another
                backend; there are over 10,000 tasks; or they are nested over 50 deep.
            TypeError: Arguments are no JSON; ``ValueError`` says that of bytes.
            ValueTooLarge: Arguments are over 1,000,000 bytes.
            OutcomeUnknown: It may have been enqueued, all of it, or not.
        """
        plan = _Plan(self)
        options = plan.backend.settings
        if options.enqueue_on_commit or options.outbox is not None:  # which has no room for groups
            transaction.on_commit(functools.partial(_store, plan), using=options.outbox)
        else:
            _store(plan)
        return GroupResult(plan.tree, self.kind, plan.backend.alias, len(self.parts))

    async def aenqueue(self) -> GroupResult:
        """See enqueue()."""
        return await sync_to_async(self.enqueue, thread_sensitive=True)()


class Group(Branch):
    """Parts that run at the same time, and what follows once they have ended."""

    kind = "group"

    def then(self, part: Any, *, always: bool = False) -> Group:
        """Return the group with what is enqueued once all its parts have succeeded.

        It is enqueued exactly once, in the commit of the last end, with the id of the group as its
        first argument: :func:`group_result` reads the parts by it. If a part fails, nothing
        follows, unless its dead letter is redriven, and succeeds.

        Args:
            part: The task, the call, the group or the chain.
            always: Whether it follows as well if parts have failed, once all have ended.

        Raises:
            InvalidTask: Something follows it already.
        """
        if self.follows is not None:
            raise InvalidTask("Something follows this group already: let a chain follow it.")
        changed = Group(self.parts)
        changed.follows, changed.always = _part(part), always
        return changed


class Chain(Branch):
    """Parts that run one after another; each is given the return value of the one before."""

    kind = "chain"


def group(parts: Iterable[Any]) -> Group:
    """Return a group of parts, which may run at the same time.

    Raises:
        InvalidTask: There are none, or one is no part.
    """
    return Group(parts)


def chain(*parts: Any) -> Chain:
    """Return a chain of parts, each of which begins when the one before has succeeded.

    It is given the return value as its first argument, in front of those of its call; behind a
    group that is the return value of what follows the group, and the id of the group if nothing
    does. A group that is given a value gives it to each of its parts. If a part fails, those
    behind it are not enqueued, unless its dead letter is redriven, and succeeds.

    Raises:
        InvalidTask: There are none, or one is no part.
    """
    return Chain(parts)


def _part(part: Any) -> Call | Branch:
    if isinstance(part, Call | Branch):
        return part
    if isinstance(part, Task):
        return Call(part)
    kind = type(part).__name__
    raise InvalidTask(f"A {kind} is no part: give a task, call(task, ...), a group or a chain.")


# Enqueue


class _Plan:
    """What is stored of a tree that is to be enqueued.

    Args:
        root: The whole.

    Attributes:
        tree: Its id.
        backend: The backend of all its tasks.
        rows: The rows, all but the one of branch 0.
        first: The row of branch 0, which begins it.
        limits: Of each function with limits, a place that says them.
    """

    def __init__(self, root: Branch) -> None:
        self.tree = new_id()
        self.backend: Any = _backend_of(root)
        self.rows: list[tuple[bytes, bytes]] = []
        self.limits: dict[str, Limited] = {}
        self._keys = TreeKeys(self.backend.records.prefix, self.tree)
        self._checked: set[int] = set()
        self._branches = self._tasks = 0
        #: The queues of all tasks, those of the first ones first.
        self._queues: dict[str, None] = {}
        #: The families of the queues of limited tasks, by the names of these; by the family if
        #: only a value that another task returns makes the name.
        self._limited: dict[str, str] = {}
        known = self._add_branch(root, None, 0)
        known["queue"] = next(iter(self._queues))
        if len(self._queues) <= _MAX_QUEUES:
            known["queues"] = [*self._queues]
        if self._limited:
            is_short = len(self._limited) <= _MAX_QUEUES
            known["limited"] = [*self._limited] if is_short else [*{*self._limited.values()}]
        self.first = self._keys.branch(0), encoded(known)

    def _add_branch(
        self, branch: Branch, place: list[Any] | None, depth: int, *, is_given: bool = False
    ) -> dict[str, Any]:
        """Add the rows of a branch, but for its own; return what that says.

        Args:
            branch: The branch.
            place: Which part of another it is.
            depth: How deep it is nested.
            is_given: Whether its first part, or each part of a group, is given a value.
        """
        if depth > MAX_DEPTH:
            raise InvalidTask(f"Groups and chains are nested over {MAX_DEPTH} deep.")
        number, count = self._branches, len(branch.parts)
        self._branches += 1
        known: dict[str, Any] = {"kind": branch.kind, "count": count}
        if place is not None:
            known["place"] = place
        if branch.follows is not None:
            known |= {"then": True, "always": branch.always}
        self.rows += rows_of_branch(self._keys, number, count)
        leads = branch.kind == "chain"
        following = () if branch.follows is None else (branch.follows,)
        for at, part in enumerate((*branch.parts, *following)):
            is_later = at == count or (leads and at > 0)
            self._add_part(part, [number, at, count, leads], depth, is_given=is_given or is_later)
        return known

    def _add_part(self, part: Any, place: list[Any], depth: int, *, is_given: bool) -> None:
        branch, at = place[:2]
        if isinstance(part, Branch):
            number = self._branches
            known = self._add_branch(part, place, depth + 1, is_given=is_given)
            self.rows.append((self._keys.branch(number), encoded(known)))
            facts: dict[str, Any] = {"branch": number}
        else:
            self._tasks += at < place[2]  # what follows a group is not counted
            facts = self._add_call(part, branch, at, is_given=is_given)
        self.rows.append((self._keys.part(branch, at), encoded(facts)))

    def _add_call(self, part: Call, branch: int, at: int, *, is_given: bool) -> dict[str, Any]:
        if self._tasks > MAX_TASKS:
            raise InvalidTask(f"A group or a chain has at most {MAX_TASKS:,} tasks in all.")
        self._check_task(part.task)
        result = new_result(part.task, part.args, part.kwargs, self.backend.alias)
        task = part.task
        _check_unique(task, result, is_given=is_given)
        queue = self.backend.queue_prefix + task.queue_name
        self._queues.setdefault(queue)
        more: dict[str, Any] = {}
        if isinstance(task, FdbQueueTask) and is_limited(task):
            family = family_of(queue)
            if is_given and needs_arguments(task):
                more["key"] = later_key(task)
                self._limited[family] = family
            elif limited := where(task, queue, result.args, result.kwargs):
                queue = limited.queue
                self._limited[queue] = family
                self.limits.setdefault(without_key(queue), limited)
        found = call_of(result)
        data = encoded({"queue": queue, "value": packed(found), **more})
        if len(data) > MAX_CALL_BYTES - _PLACE_BYTES:
            self.backend.prepare(result)  # raises, if it is over the limit without its place
        self.rows += chunks_of(self._keys.all["call"][branch][at], data)
        return {"id": found.id, "task": found.task, "queue": queue, "size": len(data)}

    def _check_task(self, task: Any) -> None:
        """Check a task as an enqueue does, once for each."""
        if task.backend != self.backend.alias:
            text = f"All tasks of a group or a chain are of one backend: {task.module_path} is of"
            raise InvalidTask(f"{text} {task.backend!r}, others are of {self.backend.alias!r}.")
        if id(task) not in self._checked:
            self.backend.validate_task(task)
            plain = task
            if isinstance(task, FdbQueueTask):  # whose keys are those of a call's arguments
                plain = dataclasses.replace(task, unique_key=None, **NO_LIMITS)
            self.backend.prepare(new_result(plain, (), {}, task.backend))
            self._checked.add(id(task))  # the parts keep the tasks


def _check_unique(task: Any, result: Any, *, is_given: bool) -> None:
    """Refuse a call that has a unique key, or may have one with the value that it is given."""
    if not isinstance(task, FdbQueueTask) or task.unique_key is None:
        return
    if is_given or task.key_of(result.args, result.kwargs) is not None:
        text = f"{task.module_path} has a unique key, so it may not be enqueued"
        raise InvalidTask(f"{text}: a group or a chain would wait for it for ever.")


def _backend_of(part: Any) -> Any:
    """Return the backend of the first task in a branch.

    Raises:
        InvalidTask: It is not one of fdbqueue's.
    """
    while isinstance(part, Branch):
        part = part.parts[0]
    return ours(part.task.backend, "for groups and chains", InvalidTask)


def _store(plan: _Plan) -> None:
    """Store a tree, and begin it: in one transaction if it is small."""
    database, prefix = plan.backend.catalog.database, plan.backend.records.prefix
    alias, now = plan.backend.alias, now_us()
    unbegun = due_key(prefix, alias, DueLook(now + UNBEGUN_SECONDS * 1_000_000, plan.tree))
    *portions, last = _portions(plan.rows)
    for limited in plan.limits.values():
        store_limits(plan.backend.catalog, prefix, limited)
    for portion in portions:
        run(database, functools.partial(_write, rows=[(unbegun, b""), *portion]))

    def begin(tr: Transaction) -> None:
        tr.clear(unbegun)
        due = due_key(prefix, alias, DueLook(now + LOOK_SECONDS * 1_000_000, plan.tree))
        _write(tr, [*last, plan.first, (due, b"")])
        Tree(tr, plan.backend, plan.tree).begin()

    run(database, begin)


def _write(tr: Transaction, rows: Iterable[tuple[bytes, bytes]]) -> None:
    for key, value in rows:
        tr[key] = value


def _portions(rows: Sequence[tuple[bytes, bytes]]) -> Iterator[Sequence[tuple[bytes, bytes]]]:
    """Yield rows as transactions should have them, the last portion with the end of them."""
    begin = size = 0
    for at, (key, value) in enumerate(rows):
        size += len(key) + len(value)
        if at > begin and (at - begin >= _ROWS_TOGETHER or size > MAX_BYTES // 2):
            yield rows[begin:at]
            begin, size = at, len(key) + len(value)
    yield rows[begin:]


# Abort


class GroupAbort(NamedTuple):
    """What became of the tasks of a group or a chain that was aborted.

    Attributes:
        aborted: How many were removed from their queues, and have failed.
        asked: How many run, and were asked to end.
        ended: How many had ended before, or were ended by workers meanwhile: as aborted.
        never: How many had not been enqueued, and never will be.
    """

    aborted: int = 0
    asked: int = 0
    ended: int = 0
    never: int = 0


def abort_group(
    result_id: str, *, by_force: bool = False, backend: str = DEFAULT_TASK_BACKEND_ALIAS
) -> GroupAbort:
    """Abort a group or a chain, with all that is nested in it.

    No task of it is enqueued or begins any more, nothing follows it. Its tasks that wait are
    aborted, those that run are asked to end, as :func:`~fdbqueue.tasks.abort` does. If this is
    interrupted, some are left: call it again.

    Args:
        result_id: The id of the whole: one that is nested in another is not aborted by itself.
        by_force: Whether workers also end those that run, as :func:`~fdbqueue.tasks.abort` does.
        backend: The alias of its backend.

    Raises:
        TaskResultDoesNotExist: There is none with this id.
        InvalidTaskBackend: There is no such backend, or it is none of fdbqueue's.
        ValueError: It is the id of one that is nested.
    """
    owner, _tree, _branch = backend_and_branch(result_id, backend)
    return abort_group_by(owner, result_id, by_force=by_force)


def abort_group_by(owner: Any, result_id: str, *, by_force: bool = False) -> GroupAbort:
    """Abort a group or a chain of a backend, as :func:`abort_group` does."""
    found, _passed = abort_some(owner, result_id, by_force=by_force)
    return found


def abort_some(
    owner: Any,
    result_id: str,
    passed: int = 0,
    is_late: Callable[[], bool] = lambda: False,
    *,
    by_force: bool = False,
    on_aborted: Callable[[int], None] = lambda _: None,
) -> tuple[GroupAbort, int]:
    """Abort a group or a chain of a backend, or go on with that, until it is late.

    Args:
        owner: The backend.
        result_id: The id of the whole.
        passed: How many parts were passed before.
        is_late: Asked after some hundred parts.
        by_force: Whether workers also end those that run.
        on_aborted: Called after some hundred parts with how many of these it has ended, or asked.

    Returns:
        What became of the tasks, and how many parts were passed by now; 0 if these are all.

    Raises:
        TaskResultDoesNotExist, ValueError: As :func:`abort_group`.
    """
    tree, branch = branch_named(result_id)
    if branch:
        raise ValueError(f"{result_id} is nested: what is aborted is the whole, {tree}.")
    keys, database = TreeKeys(owner.records.prefix, tree), owner.catalog.database

    def begin(tr: Transaction) -> bool | None:
        if not tr[keys.branch(0)].present():
            return None
        outcome = tr[keys.outcome(0)]
        how = json.loads(bytes(outcome)) if outcome.present() else {}
        if how.get("status") == TaskResultStatus.SUCCESSFUL.value:
            return False
        if not tr[keys.abort].present():
            tr[keys.abort] = b""
            how = {"status": TaskResultStatus.FAILED.value, "ended": now_us()}
            tr[keys.outcome(0)] = encoded(how)
        return True

    if (has_begun := run(database, begin)) is None:
        raise TaskResultDoesNotExist(result_id)
    if not has_begun:
        return GroupAbort(), 0
    abort_these = functools.partial(abort_in_all, backend=owner, by_force=by_force, missing="never")
    return _abort_tasks(owner, keys, passed, is_late, abort_these, on_aborted)


def _abort_tasks(
    owner: Any,
    keys: TreeKeys,
    passed: int,
    is_late: Callable[[], bool],
    abort_these: Callable[..., list[str]],
    on_aborted: Callable[[int], None],
) -> tuple[GroupAbort, int]:
    """Abort the tasks of a tree that was aborted, the last one first: workers begin with others."""
    counts, parts = Counter[str](), _parts_of(owner, keys)
    if sum(1 for _ in itertools.islice(parts, passed)) < passed:  # so many were never passed
        passed, parts = 0, _parts_of(owner, keys)
    while some := list(itertools.islice(parts, ABORTED_TOGETHER)):
        tasks = [part for part in some if "id" in part]
        ids = [part["id"] for part in tasks if part.get("enqueued")]
        counts["never"] += len(tasks) - len(ids)
        if ids:
            outcomes = run(owner.catalog.database, functools.partial(abort_these, ids=ids))
            on_aborted(sum(one in {"aborted", "asked"} for one in outcomes))
            counts.update(outcomes)
        passed += len(some)
        if is_late():
            return GroupAbort(**counts), passed
    return GroupAbort(**counts), 0


def _parts_of(owner: Any, keys: TreeKeys) -> Iterator[dict[str, Any]]:
    """Yield the parts of a tree, the last one first."""
    begin, end = range_of(keys.all["part"])

    def read(tr: Transaction) -> list[Any]:
        return list(tr.snapshot.get_range(begin, end, limit=_ROWS_TOGETHER, reverse=True))

    while rows := run(owner.catalog.database, read, read_only=True):
        yield from (json.loads(row.value) for row in rows)
        end = bytes(rows[-1].key)


# Upkeep


class DueLook(NamedTuple):
    """A tree, and when it is to be looked at, in microseconds."""

    moment: int
    tree: str


def due_key(prefix: tuple[Any, ...], backend: str, due: DueLook) -> bytes:
    """Return the key that says when to look at a tree."""
    key: bytes = _index(prefix, backend).pack(due)
    return key


def _index(prefix: tuple[Any, ...], backend: str) -> Subspace:
    return Subspace((*prefix, "tasks", "trees", backend))


def is_under_way(tr: Any, backend: Any, tree: str) -> bool:
    """Tell whether a tree has begun and not ended."""
    keys = TreeKeys(backend.records.prefix, tree)
    return bool(tr[keys.branch(0)].present()) and not tr[keys.outcome(0)].present()


class Looked(NamedTuple):
    """What a transaction found that were due.

    Attributes:
        looks: How many trees it looked at.
        begun: Those that have begun and not ended, which stay due.
    """

    looks: int
    begun: list[DueLook]


def clear_old(tr: Transaction, backend: Any, now: int, kept_seconds: float | None) -> Looked:
    """Remove trees that ended long ago, or were never begun.

    Args:
        tr: The transaction.
        backend: The backend.
        now: The moment, in microseconds.
        kept_seconds: How long trees are kept that have ended; None for ever.
    """
    prefix = backend.records.prefix
    index = _index(prefix, backend.alias)
    begin, end = index.range().start, index.pack((now,))
    found = [DueLook(*index.unpack(row.key)) for row in tr.get_range(begin, end, limit=_LOOKS)]
    begun = []
    for due in found:
        if is_under_way(tr, backend, due.tree):
            begun.append(due)
            continue
        keys = TreeKeys(prefix, due.tree)
        tr.clear(index.pack(due))
        again = _kept_until(tr, keys, now, kept_seconds)
        if again is None:
            tr.clear_range(*range_of(keys.all))
        else:
            tr[index.pack((again, due.tree))] = b""
    return Looked(len(found), begun)


def look_again(tr: Transaction, backend: Any, due: DueLook, now: int) -> None:
    """Have a tree looked at an hour later."""
    prefix, alias = backend.records.prefix, backend.alias
    tr.clear(due_key(prefix, alias, due))
    again = DueLook(now + LOOK_SECONDS * 1_000_000, due.tree)
    tr[due_key(prefix, alias, again)] = b""


def _kept_until(
    tr: Transaction, keys: TreeKeys, now: int, kept_seconds: float | None
) -> int | None:
    """Return when to look again at a tree that is not under way; None if it is to be removed."""
    row = tr[keys.outcome(0)]
    if not row.present():  # it was never begun
        return None
    if kept_seconds is None:
        return now + UNBEGUN_SECONDS * 1_000_000
    until: int = json.loads(bytes(row))["ended"] + int(kept_seconds * 1_000_000)
    return until if until > now else None
