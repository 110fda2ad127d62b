"""How a group or a chain reads on pages and in the shell: a line for each branch and part.

Reads are bounded: of each branch the first parts, and the one that the reader looks at, and all
lines together; a branch says how many parts it has that are not shown.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from fdbqueue.columns.text import grouped
from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.service import run
from fdbqueue.tasks.columns import shown_path
from fdbqueue.tasks.compat import TaskResultStatus
from fdbqueue.tasks.group_results import GroupPart, GroupResult, read_group, read_parts
from fdbqueue.tasks.records import TreePlace
from fdbqueue.tasks.tree_keys import TreeKeys

#: The most lines, and the most parts of one branch.
_MAX_LINES, _MAX_PARTS = 200, 20
_STATES = {
    TaskResultStatus.READY: gettext_lazy("Ready"),
    TaskResultStatus.RUNNING: gettext_lazy("Running"),
    TaskResultStatus.SUCCESSFUL: gettext_lazy("Successful"),
    TaskResultStatus.FAILED: gettext_lazy("Failed"),
}


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
