"""Groups and chains: how they are stored, and how they move on when one of their tasks ends.

What is enqueued as one is a *tree*. Its *branches* are groups and chains; branch 0 is the whole.
The *parts* of a branch are tasks, or branches of their own; what follows a group is its part behind
the last. Under ``(*PREFIX, "tasks", "tree", id)``:

    ("branch", n)           what branch n is, how many parts it has, and which part it is itself;
                            that of the whole says which queues all tasks are of, unless these are
                            very many
    ("part", n, at)         a part: a task's id, path and queue, and whether it is enqueued; or the
                            number of a branch
    ("call", n, at, k)      how to enqueue the task, as long as it has not been: JSON in chunks;
                            with what makes its key, if the value that it is given is part of that
    ("ended", n, level, j)  which of 16 parts have ended, and which of them successfully: two sets
                            of bits; a level above, of which sixteen that is so
    ("outcome", n)          how branch n has ended
    ("follower", n)         how what follows group n has ended
    ("waiting", n)          a group whose parts are being enqueued, and from which on
    ("given", n, k)         what each of them is given as its first argument
    ("abort",)              the whole was aborted

The protocol:

1. **Stored.** The enqueuing process writes branches, parts and calls in as many transactions as
   that takes. Nothing reads them: branch 0 is written by the next step.
2. **Begun.** One commit writes branch 0, and enqueues the first tasks; if more may begin, also
   :func:`enqueue_rest`, a task that enqueues the others, some in each transaction, which moves the
   mark in ``waiting``, too. So each task is enqueued in one commit, which clears its call.
3. **A part ends**: in the commit of its task's end its bits are set. Such ends share a commit with
   others, but not with a lease, because they may push: a push and a lease of the same queue do not
   share one. They conflict with ends of the same 16 alone, and if these are complete, with those a
   level above: each of 10,000 ends reads one key, and one in 16 another. Bits are only ever set:
   if a dead letter that was redriven fails again, its end sets none.
4. **What is complete goes on**, in the same commit: the next step of a chain is enqueued with the
   value of the last; what follows a group, once all its parts have succeeded, or with ``always``
   have ended; the end of a branch is the end of a part of the branch above. The transaction whose
   bit completes a set has read the bits of the others, and theirs have read its own: so exactly one
   is the last, and knows it.
5. **A part has failed** at its last attempt, or was aborted: so has its branch, once that cannot go
   on. If the dead letter is redriven, and succeeds, it sets the bit that was missing: then what
   follows is enqueued. That bit is set once, so nothing follows twice. If it fails again, nothing
   follows; a chain, or a group by what follows it, has then ended again, and is kept from that
   moment on, as the dead letter is. A group whose part fails again keeps its end.
6. **Looked after** by housekeeping (:mod:`fdbqueue.tasks.groups`): what still waits to be enqueued
   is, and when the retention since the end is over, the tree is removed.

What is left behind by

- *a crash, a signal or an error in 1*: rows that nothing reads, which housekeeping removes after a
  day. ``enqueue`` has raised, or its process is gone; called again it enqueues another tree;
- *an unknown outcome of 2*: ``OutcomeUnknown``, as of any enqueue: all of the tree, or none;
- *a crash between transactions of* :func:`enqueue_rest`: its lease expires, and another worker goes
  on from the mark. Two of them at once conflict on the mark, and take turns;
- *a crash, a kill, a pause or an unknown outcome at an end*: what any task's end leaves, which is
  one transaction (``source.py``): the bits, the result and what follows are in it, or not;
- *a fork*: nothing: a transaction belongs to the thread that makes it;
- *an abort*: the key ``abort`` is committed first, and whatever enqueues or begins a part reads it:
  from then on none is. The abort goes through what is enqueued, the last part first. If it is
  killed, call it again;
- *a task that cannot be enqueued*, because its queue is gone, or with what it is given it is too
  long or has no key of its limits: its part has failed, says why, and its branch goes on.
  :func:`enqueue_rest` goes to a queue that has just taken a task of the tree; if none has, and its
  own is gone, the log says so, and what waits is left to housekeeping, or to an abort;
- *an item that the project's own code pops, removes or clears*: a part that does not end. Commands,
  REST and pages refuse that (:mod:`fdbqueue.verbs`); an abort of the whole ends it.
"""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from fdb.subspace_impl import Subspace

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import EngineError, FdbQueueError, OutcomeUnknown, text_of_error
from fdbqueue.logs import get_logger
from fdbqueue.service import Push, now_us, run
from fdbqueue.tasks.compat import DEFAULT_TASK_BACKEND_ALIAS, DEFAULT_TASK_QUEUE_NAME, task_backends
from fdbqueue.tasks.exceptions import pass_interrupt
from fdbqueue.tasks.key_limit_queues import declare, where_given
from fdbqueue.tasks.options import FdbQueueTask
from fdbqueue.tasks.records import FAILED, SUCCESSFUL, TreePlace, aware, encoded, rank_of, unpacked
from fdbqueue.tasks.results import new_id

logger = get_logger(__name__)

#: How many parts share a row of bits.
PARTS_PER_ROW = 16
_BITS = struct.Struct("<HH")
#: How many tasks one transaction enqueues, and how many bytes of calls.
MAX_ENQUEUED_TOGETHER = 100
MAX_BYTES = 1_000_000

#: How many bytes of something long are in a row.
_CHUNK_BYTES = 90_000


def group_id(tree: str, branch: int) -> str:
    """Return the id of a group or a chain: its tree's, and its number if it is not all."""
    return tree if branch == 0 else f"{tree}.{branch}"


class TreeKeys:
    """Where a tree is stored.

    Args:
        prefix: The tuple that all keys of the setting start with.
        tree: The id of the tree.
    """

    def __init__(self, prefix: tuple[Any, ...], tree: str) -> None:
        self.all = Subspace((*prefix, "tasks", "tree", tree))
        self.abort: bytes = self.all.pack(("abort",))
        self.waiting, self.follower = self.all["waiting"], self.all["follower"]

    def branch(self, branch: int) -> bytes:
        """Return the key that says what a branch is."""
        key: bytes = self.all.pack(("branch", branch))
        return key

    def part(self, branch: int, at: int) -> bytes:
        """Return the key of a part."""
        key: bytes = self.all.pack(("part", branch, at))
        return key

    def ended(self, branch: int, level: int, number: int) -> bytes:
        """Return the key of the bits of 16 parts, or of what is below."""
        key: bytes = self.all.pack(("ended", branch, level, number))
        return key

    def outcome(self, branch: int) -> bytes:
        """Return the key that says how a branch has ended."""
        key: bytes = self.all.pack(("outcome", branch))
        return key


def chunks_of(within: Subspace, data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows of something long."""
    for number, start in enumerate(range(0, len(data), _CHUNK_BYTES)):
        yield within.pack((number,)), data[start : start + _CHUNK_BYTES]


def range_of(within: Subspace) -> tuple[bytes, bytes]:
    """Return where a subspace begins and ends."""
    return within.range().start, within.range().stop


class PartEnd(NamedTuple):
    """The end of a part.

    Attributes:
        place: Which part.
        is_success: Whether it has ended as it should.
        value: What a task returned, or a branch passes on.
    """

    place: TreePlace
    is_success: bool
    value: Any = None


def bits_of(data: bytes) -> tuple[int, int] | None:
    """Return which parts of a row have ended, and which successfully; None if it is no row."""
    if len(data) != _BITS.size:
        return None
    ended, succeeded = _BITS.unpack(data)
    return ended, succeeded


def levels(count: int) -> Iterator[tuple[int, int]]:
    """Yield each level of the bits of so many parts, and how many rows it has."""
    level, rows = 0, count
    while True:
        rows = -(-rows // PARTS_PER_ROW)
        yield level, rows
        if rows == 1:
            return
        level += 1


def rows_of_branch(keys: TreeKeys, branch: int, count: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows of bits that a branch begins with: no part has ended."""
    for level, rows in levels(count):
        for number in range(rows):
            yield keys.ended(branch, level, number), bytes(_BITS.size)


class Tree:
    """A tree in a transaction: what the ends of its parts bring about.

    Args:
        tr: The transaction.
        backend: The backend of its tasks.
        tree: Its id.
    """

    def __init__(self, tr: Transaction, backend: Any, tree: str) -> None:
        self._tr = tr
        self._backend = backend
        self._id = tree
        self.keys = TreeKeys(backend.records.prefix, tree)
        self._branches: dict[int, dict[str, Any]] = {}
        #: What is to be done yet: ends to note; tasks to push, each with its place and what it is
        #: given; whether a group has begun to wait.
        self._ends: list[PartEnd] = []
        self._pushes: list[tuple[TreePlace, tuple[Any, ...], dict[str, Any]]] = []
        self._waits = False
        #: Whether this transaction has taken some of those that wait, and who takes the rest.
        self._has_taken = self._has_rest = False
        self._raises = False

    def branch(self, branch: int) -> dict[str, Any]:
        """Return what a branch is; empty if the tree was removed."""
        if branch not in self._branches:
            row = self._tr[self.keys.branch(branch)]
            self._branches[branch] = json.loads(bytes(row)) if row.present() else {}
        return self._branches[branch]

    def place(self, branch: int, at: int) -> TreePlace:
        """Return the place of a part."""
        known = self.branch(branch)
        return TreePlace(self._id, branch, at, known["count"], known["kind"] == "chain")

    def part(self, branch: int, at: int) -> dict[str, Any] | None:
        """Return what a part is; None if the tree was removed."""
        row = self._tr[self.keys.part(branch, at)]
        return json.loads(bytes(row)) if row.present() else None

    def has_ended(self, place: TreePlace) -> bool:
        """Tell whether the end of a part was noted, or its tree was removed."""
        if place.at == place.of:  # what follows a group
            return bool(self._tr[self.keys.outcome(place.branch)].present())
        row = self._tr[self.keys.ended(place.branch, 0, place.at // PARTS_PER_ROW)]
        bits = bits_of(bytes(row) if row.present() else b"")
        return bits is None or bool(bits[0] >> place.at % PARTS_PER_ROW & 1)

    # What goes on

    def note(self, ends: Iterable[PartEnd]) -> None:
        """Note the ends of parts, and enqueue what can begin by that."""
        self._ends.extend(ends)
        while self._ends or self._pushes or self._waits:
            of_branches: dict[int, list[PartEnd]] = {}
            for end in self._ends:
                of_branches.setdefault(end.place.branch, []).append(end)
            self._ends = []
            for branch, some in of_branches.items():
                self._note_of_branch(branch, some)
            if not self._ends:
                self._enqueue()

    def begin(self) -> None:
        """Enqueue the first tasks of a tree that is stored.

        Raises:
            FdbQueueError: A queue refuses one of them; the transaction is not to be committed.
        """
        self._raises = True
        self._begin_branch(0, ())
        self.note(())

    def enqueue_waiting(self) -> bool:
        """Enqueue some tasks that wait for that; tell whether others do."""
        self._waits = self._has_rest = True
        self.note(())
        return any(True for _ in self._tr.get_range(*range_of(self.keys.waiting), limit=1))

    def _note_of_branch(self, branch: int, ends: Sequence[PartEnd]) -> None:
        parts = {end.place.at: end.is_success for end in ends if end.place.at < end.place.of}
        marked = self._marked(branch, ends[0].place.of, parts) if parts else (False, False)
        if marked is None or not (known := self._followed_branch(branch, ends, *marked)):
            return
        if known["kind"] == "chain":
            for end in ends:
                self._end_chain_part(branch, known, end)
            return
        for end in ends:
            if end.place.at == end.place.of:  # what follows the group
                self._write(
                    self.keys.follower.pack((branch,)), SUCCESSFUL if end.is_success else FAILED
                )
                self._branch_ended(branch, known, end.is_success, end.value)
        has_ended, has_succeeded = marked
        if known.get("then"):
            if has_ended if known.get("always") else has_succeeded:
                self._begin_follower(branch, known)
            elif has_ended and not known.get("always"):
                self._branch_ended(branch, known, False)
        elif has_ended or has_succeeded:
            self._branch_ended(branch, known, has_succeeded, group_id(self._id, branch))

    def _followed_branch(
        self, branch: int, ends: Sequence[PartEnd], has_ended: bool, has_succeeded: bool
    ) -> dict[str, Any]:
        """Return what a branch is if something follows these ends, and else nothing.

        Of most ends of a group's parts nothing does: then it is not even read.
        """
        is_last = has_ended or has_succeeded
        if is_last or any(end.place.leads or end.place.at == end.place.of for end in ends):
            return self.branch(branch)
        return {}

    def _begin_follower(self, branch: int, known: dict[str, Any]) -> None:
        """Let what follows a group begin, given the id of the group."""
        self._begin_part(branch, known["count"], (group_id(self._id, branch),))

    def _end_chain_part(self, branch: int, known: dict[str, Any], end: PartEnd) -> None:
        if end.is_success and end.place.at + 1 < known["count"]:
            self._begin_part(branch, end.place.at + 1, (end.value,))
        else:
            self._branch_ended(branch, known, end.is_success, end.value)

    def _marked(self, branch: int, count: int, parts: dict[int, bool]) -> tuple[bool, bool] | None:
        """Set the bits of parts that have ended.

        Args:
            branch: The number of their branch.
            count: How many parts it has.
            parts: Which have ended, and whether successfully.

        Returns:
            Whether by this all have ended, and whether by this all have succeeded; None if the
            tree was removed.
        """
        for level, rows in levels(count):
            keys = {
                at // PARTS_PER_ROW: self.keys.ended(branch, level, at // PARTS_PER_ROW)
                for at in parts
            }
            reads = {number: self._tr[key] for number, key in keys.items()}
            above: dict[int, bool] = {}
            for number, read in reads.items():
                if (bits := bits_of(bytes(read) if read.present() else b"")) is None:
                    return None
                ended, succeeded = bits
                for at, is_success in parts.items():
                    if at // PARTS_PER_ROW == number:
                        ended |= 1 << at % PARTS_PER_ROW
                        succeeded |= is_success << at % PARTS_PER_ROW
                if (ended, succeeded) != bits:
                    self._tr[keys[number]] = _BITS.pack(ended, succeeded)
                whole = (1 << min(PARTS_PER_ROW, count - PARTS_PER_ROW * number)) - 1
                if (ended == whole != bits[0]) or (succeeded == whole != bits[1]):
                    above[number] = succeeded == whole
                if rows == 1:
                    return ended == whole != bits[0], succeeded == whole != bits[1]
            if not above:
                break
            parts, count = above, rows
        return False, False

    def _branch_ended(
        self, branch: int, known: dict[str, Any], is_success: bool, value: Any = None
    ) -> None:
        """Note how a branch has ended, and that the part has which it is."""
        if branch == 0 and self.is_aborted():
            return
        how = {"status": SUCCESSFUL if is_success else FAILED, "ended": now_us()}
        self._write(self.keys.outcome(branch), how)
        if "place" in known:
            place = TreePlace(self._id, *known["place"])
            self._ends.append(PartEnd(place, is_success, value))

    def is_aborted(self) -> bool:
        """Tell whether the tree was aborted; the transaction then depends on that."""
        return bool(self._tr[self.keys.abort].present())

    # What begins

    def _begin_part(
        self,
        branch: int,
        at: int,
        given: tuple[Any, ...],
        part: dict[str, Any] | None = None,
    ) -> None:
        """Let a part begin; ``given`` has the first argument of its tasks, if they get one."""
        part = part or self.part(branch, at)
        if part is None:  # the tree was removed
            return
        if "branch" in part:
            self._begin_branch(part["branch"], given)
        else:
            self._pushes.append((self.place(branch, at), given, part))

    def _begin_branch(self, branch: int, given: tuple[Any, ...]) -> None:
        known = self.branch(branch)
        if not known:
            return
        if known["kind"] == "chain":
            self._begin_part(branch, 0, given)
            return
        state = {"next": 0, "is_given": bool(given)}
        self._write(self.keys.waiting.pack((branch,)), state)
        for key, data in (
            chunks_of(self.keys.all["given"][branch], encoded(given[0])) if given else ()
        ):
            self._tr[key] = data
        self._waits = True

    def _enqueue(self) -> None:
        """Push what is to be enqueued, as much as one transaction should; the rest waits."""
        waits, self._waits = self._waits, False
        if not (waits or self._pushes):
            return
        if self.is_aborted():
            self._pushes = []
            self._tr.clear_range(*range_of(self.keys.waiting))
            return
        if waits and (self._has_taken or self._take_waiting()) and not self._has_rest:
            self._has_rest = True
            self._pushes.append((TreePlace(self._id, -1, 0, 0), (), {}))
        self._has_taken, self._waits = self._has_taken or waits, False
        pushes, self._pushes = self._pushes, []
        self._push(pushes)

    def _take_waiting(self) -> bool:
        """Begin some parts of the groups that wait; tell whether others do."""
        size = 0
        while rows := list(self._tr.get_range(*range_of(self.keys.waiting), limit=1)):
            (branch,) = self.keys.waiting.unpack(rows[0].key)
            known, state = self.branch(branch), json.loads(rows[0].value)
            given = self._given(branch) if state["is_given"] else ()
            each = len(encoded(given[0])) if given else 0
            at = state["next"]
            begin, end = self.keys.part(branch, at), self.keys.part(branch, known["count"])
            for row in self._tr.get_range(begin, end, limit=MAX_ENQUEUED_TOGETHER):
                part = json.loads(row.value)
                size += part.get("size", 0) + each
                if self._pushes and (
                    len(self._pushes) >= MAX_ENQUEUED_TOGETHER or size > MAX_BYTES
                ):
                    break
                self._begin_part(branch, at, given, part)
                at += 1
            if at < known["count"]:
                self._write(rows[0].key, {**state, "next": at})
                if len(self._pushes) >= MAX_ENQUEUED_TOGETHER or size > MAX_BYTES:
                    return True
                continue
            self._tr.clear(rows[0].key)
            self._tr.clear_range(*range_of(self.keys.all["given"][branch]))
        return False

    def _given(self, branch: int) -> tuple[Any, ...]:
        rows = self._tr.get_range(*range_of(self.keys.all["given"][branch]))
        return (json.loads(b"".join([row.value for row in rows])),)

    def _push(self, pushes: Sequence[tuple[TreePlace, tuple[Any, ...], dict[str, Any]]]) -> None:
        """Push tasks, each queue's together; one that is refused has ended."""
        of_queues: dict[str, list[tuple[TreePlace, Any]]] = {}
        reads = [
            self._tr.get_range(*range_of(self.keys.all["call"][place.branch][place.at]))
            for place, *_ in pushes
        ]
        for (place, given, part), read in zip(pushes, reads, strict=True):
            if place.branch < 0:
                # a queue that takes tasks: that of the first one may be gone by now
                first = next(iter(of_queues), self.branch(0)["queue"])
                queue = self._backend.catalog.home(first)
                value = self._rest()
            else:
                if not (data := b"".join([row.value for row in read])):
                    continue  # the tree was removed
                queue, value = (stored := json.loads(data))["queue"], stored["value"]
                value |= {"args": [*given, *value["args"]], "tree": place.stored()}
                self._tr.clear_range(*range_of(self.keys.all["call"][place.branch][place.at]))
                if "key" in stored:
                    queue = self._limited_queue(place, queue, value, stored["key"])
                if not queue:
                    continue
                known = {**part, "queue": queue, "enqueued": True}
                self._write(self.keys.part(place.branch, place.at), known)
            of_queues.setdefault(queue, []).append((place, value))
        for queue, values in of_queues.items():
            try:
                self._push_to(queue, [value for _, value in values])
            except (EngineError, OutcomeUnknown):
                raise
            except FdbQueueError:  # nothing of them was written: each by itself
                for place, value in values:
                    self._push_or_refuse(queue, place, value)

    def _limited_queue(self, place: TreePlace, queue: str, value: Any, key: str | None) -> str:
        """Return the queue of a task whose key needs what it is given; empty if it has failed."""
        try:
            limited = where_given(value["task"], key, queue, value["args"], value["kwargs"])
        except BaseException as error:  # noqa: BLE001  # a project's own function may raise anything
            pass_interrupt(error)
            self.fail(place, text_of_error(error))
            return ""
        if limited is None:
            return queue
        declare(self._tr, self._backend.catalog, self._backend.records.prefix, limited)
        return limited.queue

    def _push_or_refuse(self, queue: str, place: TreePlace, value: Any) -> None:
        try:
            self._push_to(queue, [value])
        except (EngineError, OutcomeUnknown):
            raise
        except FdbQueueError as error:
            if self._raises:
                raise
            if place.branch < 0:
                facts = {"tree": self._id, "error": type(error).__name__}
                logger.exception("the rest of a group cannot be enqueued", extra=facts)
                return
            self.fail(place, text_of_error(error))

    def fail(self, place: TreePlace, problem: str) -> None:
        """Have a part fail without a result; :meth:`note` brings about what follows."""
        part = self.part(place.branch, place.at) or {}
        failed = {**part, "enqueued": False, "problem": problem}
        self._write(self.keys.part(place.branch, place.at), failed)
        self._ends.append(PartEnd(place, False))

    def _push_to(self, name: str, values: Sequence[Any]) -> None:
        calls = [call for call in map(unpacked, values) if call is not None]
        pushes = [
            Push(value, rank_of(call), not_before=aware(call.run_after))
            for value, call in zip(values, calls, strict=True)
        ]
        self._backend.prepare_batch(self._backend.catalog.queue(name), pushes)(self._tr)

    def _rest(self) -> dict[str, Any]:
        """Return the call of the task that enqueues what waits."""
        alias = self._backend.alias
        path = f"{__name__}.{enqueue_rest.func.__name__}"
        return {
            "id": new_id(),
            "task": path,
            "args": [self._id, alias],
            "kwargs": {},
            "backend": alias,
            "priority": enqueue_rest.priority,
        }

    def _write(self, key: bytes, value: Any) -> None:
        self._tr[key] = encoded(value)


def note_ends(tr: Transaction, backend: Any, ends: Iterable[PartEnd]) -> None:
    """Note the ends of parts in the transaction of their tasks' ends, after the acks.

    Enqueues what can begin by that: the next step of a chain, what follows a group.
    """
    of_trees: dict[str, list[PartEnd]] = {}
    for end in ends:
        of_trees.setdefault(end.place.tree, []).append(end)
    for tree, some in of_trees.items():
        Tree(tr, backend, tree).note(some)


# The task that enqueues the rest


def _own_task(function: Callable[..., Any]) -> FdbQueueTask[..., Any]:
    """Make a task for any backend; the decorator would ask one that the project may not have."""
    own = {
        "func": function,
        "max_attempts": 1_000,
        "backoff": _soon,
        "priority": 100,
        "backend": DEFAULT_TASK_BACKEND_ALIAS,
        "queue_name": DEFAULT_TASK_QUEUE_NAME,
        "run_after": None,
        "takes_context": False,
    }
    made = object.__new__(FdbQueueTask)
    for field in dataclasses.fields(FdbQueueTask):
        object.__setattr__(made, field.name, own.get(field.name, field.default))
    return made


def _soon(_error: BaseException | None, result: Any) -> float:
    return min(60.0, 2.0 ** min(result.attempts, 6))


@_own_task
def enqueue_rest(tree: str, backend: str) -> None:
    """Enqueue the tasks of a tree that wait for that, a hundred in each transaction."""
    owner: Any = task_backends[backend]
    while run(owner.catalog.database, lambda tr: Tree(tr, owner, tree).enqueue_waiting()):
        pass
