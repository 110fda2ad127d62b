"""How far a group or a chain is: what is read of it, in bounded portions.

All is read from one moment of the database: what the branch is, the bits of its parts (one row for
sixteen), and how it has ended. :mod:`fdbqueue.tasks.trees` says how these are stored.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import itertools
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from fdbqueue.engines.protocols import Transaction
from fdbqueue.service import run
from fdbqueue.tasks.compat import (
    DEFAULT_TASK_BACKEND_ALIAS,
    InvalidTaskBackend,
    TaskResultDoesNotExist,
    TaskResultStatus,
    ours,
    task_backends,
)
from fdbqueue.tasks.records import is_id
from fdbqueue.tasks.results import result_time
from fdbqueue.tasks.tree_keys import TreeKeys, group_id
from fdbqueue.tasks.trees import PARTS_PER_ROW, bits_of

#: The most parts that are read at a time, and of each branch to find the first tasks.
MAX_READ = 1_000
_MAX_FIRST = 20
#: The longest number of a branch.
_MAX_DIGITS = 5


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


def first_tasks(owner: Any, result_id: str) -> list[GroupPart]:
    """Read the first enqueued tasks of a group or a chain, however deep they are nested.

    Raises:
        TaskResultDoesNotExist: It is no id of a group or a chain.
    """
    tree, branch = branch_named(result_id)

    def tasks(tr: Transaction, branch: int) -> Iterator[GroupPart]:
        if (found := read_group(tr, owner, tree, branch)) is None:
            return
        where: Any = {"owner": owner, "tree": tree, "branch": branch, "count": found.count}
        parts = read_parts(tr, **where, after=-1, limit=_MAX_FIRST)
        for part in [*parts, *([] if found.follows is None else [found.follows])]:
            if not part.task:
                yield from tasks(tr, branch_named(part.id)[1])
            elif part.is_enqueued:
                yield part

    def read(tr: Transaction) -> list[GroupPart]:
        return list(itertools.islice(tasks(tr, branch), _MAX_FIRST))

    found: list[GroupPart] = run(owner.catalog.database, read, read_only=True)
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
