"""How a group or a chain is shown: how far it is, its parts, and its outline on pages.

All is read from one moment of the database: what the branch is, the bits of its parts (one row for
sixteen), and how it has ended. :mod:`fdbqueue.tasks.trees` says how these are stored. Reads are
bounded: an outline has of each branch the first parts, and the one that the reader looks at, and
says how many it leaves out.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
from typing import Any, NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from fdbqueue.columns.text import grouped
from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.service import run
from fdbqueue.tasks.columns import shown_path
from fdbqueue.tasks.compat import (
    DEFAULT_TASK_BACKEND_ALIAS,
    InvalidTaskBackend,
    TaskResultDoesNotExist,
    TaskResultStatus,
    ours,
    task_backends,
)
from fdbqueue.tasks.records import TreePlace, is_id
from fdbqueue.tasks.results import result_time
from fdbqueue.tasks.trees import PARTS_PER_ROW, TreeKeys, bits_of, group_id

#: The most parts that are read at a time.
MAX_READ = 1_000
#: The longest number of a branch.
_MAX_DIGITS = 5

#: The most lines, and the most parts of one branch.
_MAX_LINES, _MAX_PARTS = 200, 20
_STATES = {
    TaskResultStatus.READY: gettext_lazy("Ready"),
    TaskResultStatus.RUNNING: gettext_lazy("Running"),
    TaskResultStatus.SUCCESSFUL: gettext_lazy("Successful"),
    TaskResultStatus.FAILED: gettext_lazy("Failed"),
}


class GroupPart(NamedTuple):
    """A part of a group or a chain.

    Attributes:
        at: Which one, from 0 on.
        id: The id of its task's result, or of the group or chain that it is.
        task: The dotted path of its task; empty for a group or a chain.
        status: ``SUCCESSFUL`` or ``FAILED``; None as long as it has not ended.
        problem: Why it failed without a result: its task could not be enqueued; else empty.
        backend: The alias of the backend.
        queue: The queue of its task, as the catalog names it; empty for a group or a chain.
        is_enqueued: Whether its task has been enqueued.
    """

    at: int
    id: str
    task: str
    status: TaskResultStatus | None
    problem: str = ""
    backend: str = DEFAULT_TASK_BACKEND_ALIAS
    queue: str = ""
    is_enqueued: bool = False

    def result(self) -> Any:
        """Read its result: a ``TaskResult``, or a :class:`GroupResult`.

        Raises:
            TaskResultDoesNotExist: Its task has not been enqueued, or nothing is kept of it.
        """
        if self.task:
            return task_backends[self.backend].get_result(self.id)
        return group_result(self.id, backend=self.backend)


@dataclasses.dataclass(frozen=True)
class GroupResult:
    """How far a group or a chain is, as it was read.

    Attributes:
        id: Its id.
        kind: ``"group"`` or ``"chain"``.
        backend: The alias of its backend.
        count: How many parts it has, without what follows.
        status: ``READY`` as long as no part has ended, then ``RUNNING``; ``SUCCESSFUL`` once it has
            succeeded, with what follows it; ``FAILED`` once it cannot any more. One that is FAILED
            goes on if a dead letter that it lacks is redriven, but not if it was aborted.
        succeeded, failed: How many parts have ended so.
        finished_at: When it ended; None as long as it has not.
        is_aborted: Whether it was aborted.
        follows: What follows the group; None for nothing.
    """

    id: str
    kind: str
    backend: str
    count: int
    status: TaskResultStatus = TaskResultStatus.READY
    succeeded: int = 0
    failed: int = 0
    finished_at: datetime.datetime | None = None
    is_aborted: bool = False
    follows: GroupPart | None = None

    @property
    def is_finished(self) -> bool:
        """Whether it has ended."""
        return self.status in {TaskResultStatus.SUCCESSFUL, TaskResultStatus.FAILED}

    def refresh(self) -> None:
        """Read it again."""
        found = group_result(self.id, backend=self.backend)
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, getattr(found, field.name))

    def parts(self, *, after: int = -1, limit: int = 100, failed: bool = False) -> list[GroupPart]:
        """Read some of its parts, in their order; an empty list after the last.

        Args:
            after: Only those behind this one.
            limit: The most, up to 1,000.
            failed: Only those that have failed.
        """
        if not 1 <= limit <= MAX_READ:
            raise ValueError(f"limit is 1 to {MAX_READ:,}")
        owner, tree, branch = backend_and_branch(self.id, self.backend)
        read = functools.partial(
            read_parts,
            owner=owner,
            tree=tree,
            branch=branch,
            count=self.count,
            after=after,
            limit=limit,
        )
        found: list[GroupPart] = run(
            owner.catalog.database, functools.partial(read, failed=failed), read_only=True
        )
        return found


def group_result(result_id: str, *, backend: str = DEFAULT_TASK_BACKEND_ALIAS) -> GroupResult:
    """Read how far a group or a chain is, from one moment of the database.

    Args:
        result_id: Its id: what ``enqueue`` returned has it, and what follows a group is given it.
        backend: The alias of its backend.

    Raises:
        TaskResultDoesNotExist: There is none with this id, or not any more.
        InvalidTaskBackend: There is no such backend, or it is none of fdbqueue's.
    """
    owner, _tree, _branch = backend_and_branch(result_id, backend)
    return group_result_by(owner, result_id)


def group_result_by(owner: Any, result_id: str) -> GroupResult:
    """Read how far a group or a chain of a backend is, as :func:`group_result` does."""
    tree, branch = branch_named(result_id)

    def read(tr: Transaction) -> GroupResult | None:
        return read_group(tr, owner, tree, branch)

    found: GroupResult | None = run(owner.catalog.database, read, read_only=True)
    if found is None:
        raise TaskResultDoesNotExist(result_id)
    return found


def backend_and_branch(result_id: str, backend: str) -> tuple[Any, str, int]:
    """Return what an id stands for: the backend, the id of a tree, the number of a branch.

    Raises:
        TaskResultDoesNotExist: It is no id of a group or a chain.
        InvalidTaskBackend: There is no such backend, or it is none of fdbqueue's.
    """
    owner = ours(backend, "to have groups and chains", InvalidTaskBackend)
    return owner, *branch_named(result_id)


def branch_named(result_id: str) -> tuple[str, int]:
    """Return the id of a tree and the number of a branch that an id stands for.

    Raises:
        TaskResultDoesNotExist: It is no id of a group or a chain.
    """
    tree, dot, number = str(result_id).partition(".")
    is_valid = is_id(tree) and (not dot or (number.isascii() and number.isdecimal()))
    if not is_valid or len(number) > _MAX_DIGITS:
        raise TaskResultDoesNotExist(result_id)
    return tree, int(number or 0)


def read_group(tr: Transaction, owner: Any, tree: str, branch: int) -> GroupResult | None:
    """Read how far a branch of a tree is, in a transaction; None if there is none."""
    keys = TreeKeys(owner.records.prefix, tree)
    root, row = tr[keys.branch(0)], tr[keys.branch(branch)]
    outcome, abort = tr[keys.outcome(branch)], tr[keys.abort]
    rows = tr.get_range(keys.ended(branch, 0, 0), keys.ended(branch, 1, 0))
    if not (root.present() and row.present()):
        return None
    known = json.loads(bytes(row))
    bits = [bits_of(bytes(one.value)) or (0, 0) for one in rows]
    ended, succeeded = (sum(one[at].bit_count() for one in bits) for at in (0, 1))
    how = json.loads(bytes(outcome)) if outcome.present() else {}
    is_aborted = abort.present()
    status = TaskResultStatus.RUNNING if ended else TaskResultStatus.READY
    if how:
        status = TaskResultStatus(how["status"])
    elif is_aborted:
        status = TaskResultStatus.FAILED
    follows = None
    if known.get("then"):
        part, row = tr[keys.part(branch, known["count"])], tr[keys.follower.pack((branch,))]
        ended_as = TaskResultStatus(json.loads(bytes(row))) if row.present() else None
        follows = _shown_part(owner, tree, known["count"], json.loads(bytes(part)), ended_as)
    return GroupResult(
        group_id(tree, branch),
        known["kind"],
        owner.alias,
        known["count"],
        status,
        succeeded,
        ended - succeeded,
        result_time(how.get("ended")),
        is_aborted,
        follows,
    )


def read_parts(
    tr: Transaction,
    *,
    owner: Any,
    tree: str,
    branch: int,
    count: int,
    after: int,
    limit: int,
    failed: bool = False,
) -> list[GroupPart]:
    """Read some parts of a branch in a transaction, as :meth:`GroupResult.parts` does."""
    keys = TreeKeys(owner.records.prefix, tree)
    first = max(0, after + 1)
    begin = keys.ended(branch, 0, first // PARTS_PER_ROW)
    stop = keys.ended(branch, 1, 0)
    most = 0 if failed else -(-limit // PARTS_PER_ROW) + 1
    numbers: dict[int, TaskResultStatus | None] = {}
    for number, row in enumerate(tr.get_range(begin, stop, limit=most), first // PARTS_PER_ROW):
        ended, succeeded = bits_of(bytes(row.value)) or (0, 0)
        for at in range(
            max(first, number * PARTS_PER_ROW), min(count, (number + 1) * PARTS_PER_ROW)
        ):
            bit = 1 << at % PARTS_PER_ROW
            status = None
            if ended & bit:
                is_success = bool(succeeded & bit)
                status = TaskResultStatus.SUCCESSFUL if is_success else TaskResultStatus.FAILED
            if len(numbers) < limit and (not failed or status is TaskResultStatus.FAILED):
                numbers[at] = status
    reads = {at: tr[keys.part(branch, at)] for at in numbers}
    return [
        _shown_part(owner, tree, at, json.loads(bytes(row)), numbers[at])
        for at, row in reads.items()
        if row.present()
    ]


def _shown_part(
    owner: Any, tree: str, at: int, part: dict[str, Any], status: TaskResultStatus | None
) -> GroupPart:
    if "branch" in part:
        return GroupPart(at, group_id(tree, part["branch"]), "", status, "", owner.alias)
    return GroupPart(
        at,
        part["id"],
        part["task"],
        status,
        part.get("problem", ""),
        owner.alias,
        part["queue"],
        part.get("enqueued", False),
    )


# On pages and in the shell


class OutlineLine(NamedTuple):
    """A line of an outline.

    Attributes:
        depth: How deep it is nested.
        text: What it is: a branch with its progress, or the function of a task.
        state: What state that is in, in words; empty for a part that has not ended.
        task: The id of the task; empty for a branch.
        branch: The id of the group or chain; empty for a task.
        percent: How much of a branch has ended; None for a task.
        is_here: Whether it is the task that the reader looks at.
        queue: The queue of a task.
        is_enqueued: Whether it has been enqueued, so that it has a result.
        problem: Why a task has failed without a result.
        to_abort: Of the whole, the queues of the tasks that an abort ends; empty if there is
            nothing to abort.
    """

    depth: int
    text: str
    state: str | Promise = ""
    task: str = ""
    branch: str = ""
    percent: float | None = None
    is_here: bool = False
    queue: str = ""
    is_enqueued: bool = False
    problem: str = ""
    to_abort: tuple[str, ...] = ()


def outline_of(database: Database, backend: Any, place: TreePlace) -> list[OutlineLine]:
    """Read the outline of what a task is a part of; empty if that is not kept any more.

    Args:
        database: Where it is read, with the time limits of its transactions.
        backend: The backend.
        place: Where the reader is.
    """

    def read(tr: Transaction) -> list[OutlineLine]:
        outline = _Outline(tr, backend, place)
        outline.add(0, 0, is_next=False)
        return outline.lines

    return run(database, read, read_only=True)


class TreeQueues(NamedTuple):
    """The queues of the tasks of a tree.

    Attributes:
        names: Those that all tasks are of, or may be of.
        limited: Those in which limited tasks of these are, or may be: names, or families.
    """

    names: list[str]
    limited: list[str]


def queues_of(tr: Transaction, backend: Any, tree: str) -> TreeQueues:
    """Return the queues of the tasks of a tree; who aborts it must be allowed to manage all."""
    row = tr[TreeKeys(backend.records.prefix, tree).branch(0)]
    known = json.loads(bytes(row)) if row.present() else {}
    return TreeQueues(known.get("queues") or backend.names(), known.get("limited", []))


class _Outline:
    """Reads an outline in a transaction.

    Args:
        tr: The transaction.
        backend: The backend.
        place: Where the reader is.
    """

    def __init__(self, tr: Transaction, backend: Any, place: TreePlace) -> None:
        self._tr = tr
        self._backend = backend
        self._here = place
        self.lines: list[OutlineLine] = []

    def add(self, branch: int, depth: int, *, is_next: bool) -> None:
        """Add the lines of a branch; ``is_next`` for what follows a group."""
        found = read_group(self._tr, self._backend, self._here.tree, branch)
        if found is None:
            return
        text = _kind_and_progress(found)
        ended = found.succeeded + found.failed
        line = OutlineLine(
            depth,
            _("then: %(part)s") % {"part": text} if is_next else text,
            _("Aborted") if found.is_aborted and branch == 0 else _STATES[found.status],
            branch=found.id,
            percent=round(100 * ended / found.count, 1),
        )
        is_over = found.is_aborted or (found.is_finished and ended == found.count)
        if branch == 0 and not is_over:
            queues = queues_of(self._tr, self._backend, self._here.tree)
            line = line._replace(to_abort=(*queues.names, *queues.limited))
        self.lines.append(line)
        shown = self._parts(found, branch)
        for part in shown:
            self._add_part(part, branch, depth + 1, is_next=False)
        if len(shown) < found.count:
            more = grouped(found.count - len(shown))
            self.lines.append(OutlineLine(depth + 1, _("… and %(count)s more") % {"count": more}))
        if found.follows is not None:
            self._add_part(found.follows, branch, depth, is_next=True)

    def _parts(self, found: GroupResult, branch: int) -> list[GroupPart]:
        """Read the first parts, and the reader's if it is none of them."""
        where: Any = {"owner": self._backend, "tree": self._here.tree, "branch": branch}
        where["count"] = found.count
        most = max(0, min(_MAX_PARTS, _MAX_LINES - len(self.lines)))
        parts = read_parts(self._tr, **where, after=-1, limit=most) if most else []
        at = self._here.at
        if self._here.branch == branch and len(parts) <= at < found.count:
            parts += read_parts(self._tr, **where, after=at - 1, limit=1)
        return parts

    def _add_part(self, part: GroupPart, branch: int, depth: int, *, is_next: bool) -> None:
        if not part.task:
            number = int(part.id.partition(".")[2])
            if len(self.lines) < _MAX_LINES:
                self.add(number, depth, is_next=is_next)
            return
        text = shown_path(part.task)
        line = OutlineLine(
            depth,
            _("then: %(part)s") % {"part": text} if is_next else text,
            _STATES[part.status] if part.status else "",
            task=part.id,
            queue=part.queue,
            is_enqueued=part.is_enqueued,
            is_here=(branch, part.at) == (self._here.branch, self._here.at),
            problem=part.problem,
        )
        self.lines.append(line)


def _kind_and_progress(found: GroupResult) -> str:
    numbers = {
        "count": grouped(found.count),
        "ended": grouped(found.succeeded + found.failed),
        "failed": grouped(found.failed),
    }
    if found.kind == "chain":
        return _("Chain of %(count)s: %(ended)s ended, %(failed)s failed") % numbers
    return _("Group of %(count)s: %(ended)s ended, %(failed)s failed") % numbers
