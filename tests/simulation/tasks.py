"""Tasks in a run: what clients do with them, and what must hold of their records and groups.

The backend and the workers are the package's own: a client that works is the main thread of a
worker with threads of its own, which leases tasks and ends them as any worker does. Groups enqueue
two tasks in each transaction, and two parts share a row of bits, so that small ones go the ways of
large ones.

Left out is what is no step of the engine: the outbox, whose rows are in another database that has
locks of its own; time limits, which strike real threads; event loops; imports.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from fdb.subspace_impl import Subspace

from tests.simulation import schedule as simulated
from tests.simulation.schedule import Found

if TYPE_CHECKING:
    from tests.simulation.clients import Client
    from tests.simulation.cluster import State
    from tests.simulation.programs import Program
    from tests.simulation.world import World

QUEUE, PREFIX = "tasks-default", ("sim",)
_MODULES = ("worker", "groups", "aborts", "current")
#: How many parts share a row of bits, and how many tasks one transaction enqueues.
_TOGETHER = 2
#: Some tasks have expired after this time if they have not begun.
_EXPIRES_SECONDS = 5.0
#: Within this time it is found that the task of a part was removed by hand.
_UPKEEP_SECONDS, _LAST_ROUNDS = 4_000, 14
_BY_HAND = {"remove", "clear", "clear_state"}


def prepare(own: Program) -> None:
    """Load what tasks need into a copy of the package."""
    own["tasks.compat"].task_backends = {}
    own["conf"].prefix = lambda: PREFIX
    for module in _MODULES:
        own[f"tasks.{module}"]
    own.named[f"{__name__}.{work.__name__}"] = _task(own)
    trees = own["tasks.trees"]
    trees.PARTS_PER_ROW = trees.MAX_ENQUEUED_TOGETHER = _TOGETHER


def backend_of(own: Program, options: dict[str, Any]) -> Any:
    """Return the backend of a copy, over no catalog yet."""
    params = {"QUEUES": ["default"], "OPTIONS": {**options, "retention": {"successful": None}}}
    return own["tasks.backend"].FdbQueueBackend("default", params)


def work(*given: Any) -> Any:
    """Be a task: take some seconds, fail some times, enqueue another task at the end."""
    own, how = simulated.running.current.process, given[-1]
    simulated.running.tasks.begin(how)
    simulated.running.sleep(how["seconds"])
    if simulated.running.tasks.runs[how["id"]] <= how["fails"]:
        if how["id"] % 2:  # some ask to run again, and half of these spend no attempt
            raise own["tasks.exceptions"].Retry(how["seconds"], spend=_spends(how))
        raise ValueError(how["id"])
    if "more" in how:
        own["tasks.current"].enqueue_at_end(_task(own), how["more"])
    return how["id"]


def _spends(how: dict[str, Any]) -> bool:
    return bool(how["id"] % 4 != 3)


def _task(own: Program, priority: int = 0, expires: float | None = None) -> Any:
    """Return the task, as its code says it or with another priority, which the backend allows."""
    facts = {"backend": "default", "queue_name": "default", "run_after": None}
    made = own["tasks.options"].FdbQueueTask(func=work, priority=0, **facts)
    object.__setattr__(made, "priority", priority)
    object.__setattr__(made, "expires", expires)
    return made


class Tasks:
    """The tasks of a run.

    Args:
        world: The run.
        own: The copy of the package that looks.
        catalog: What it looks at.

    Attributes:
        runs: How often each task has begun.
    """

    def __init__(self, world: World, own: Program, catalog: Any) -> None:
        self._world, self._own, self._catalog = world, own, catalog
        self._records = own["tasks.records"].Records(PREFIX)
        self._first = self._records._results_key  # where records begin
        self._trees = Subspace((*PREFIX, "tasks", "tree"))
        self.runs: Counter[int] = Counter()
        self._created: set[bytes] = set()
        self._succeeded: set[int] = set()
        self._enqueued: set[int] = set()
        self._ids: list[str] = []
        self._groups: dict[str, list[int]] = {}
        #: What is enqueued once others have ended: its number, theirs, and whether also if one of
        #: them has failed.
        self._followers: list[tuple[int, list[int], bool]] = []

    # What clients do

    def _how(self, op: dict[str, Any]) -> dict[str, Any]:
        """Return how a new task is to run."""
        pushed = self._world.ledger.pushed
        number = len(pushed) + 1
        pushed[number] = QUEUE, simulated.running.now_us
        return {"id": number, "seconds": op["seconds"], "fails": op["fails"]}

    def enqueue(self, client: Client, op: dict[str, Any]) -> Any:
        """Enqueue a task, which may enqueue another at its end."""
        own, ledger, how = client.process.program, self._world.ledger, self._how(op)
        if op.get("more"):
            how["more"] = self._how(op)
            self._followers.append((how["more"]["id"], [how["id"]], False))
        backend, known = own["tasks.compat"].task_backends["default"], {how["id"]: None}
        task = _task(own, op["priority"], expires=None if how["id"] % 7 else _EXPIRES_SECONDS)
        call = functools.partial(backend.enqueue, task, [how], {})
        found = client.call(call, undo=lambda: ledger.refused.update(known))
        self._ids.append(found.id)
        ledger.sure.update(known)
        return how["id"]

    def group(self, client: Client, op: dict[str, Any]) -> Any:
        """Enqueue a group, perhaps one that something follows, or in the middle of a chain."""
        groups, task = client.process.program["tasks.groups"], _task(client.process.program)
        parts = [self._how({**op, "fails": 0}) for _ in range(op["count"] - 1)] + [self._how(op)]
        first = last = [how["id"] for how in parts]
        branch = groups.group([groups.call(task, how) for how in parts])
        if op.get("then"):
            how = self._how(op)
            branch = branch.then(groups.call(task, how), always=op["always"])
            self._followers.append((how["id"], first, op["always"]))
            last = [how["id"]]
        if op.get("chain"):
            begin, end = self._how(op), self._how(op)
            branch = groups.chain(groups.call(task, begin), branch, groups.call(task, end))
            self._followers += [(one, [begin["id"]], False) for one in first]
            self._followers.append((end["id"], last, False))
            first = [begin["id"]]
        known, ledger = dict.fromkeys(first), self._world.ledger
        found = client.call(branch.enqueue, undo=lambda: ledger.refused.update(known))
        self._groups[found.id] = first
        ledger.sure.update(known)
        return first

    def work(self, client: Client, op: dict[str, Any]) -> Any:
        """Be a worker until no task is ready."""
        worker = self._worker(client.process.program, client.name, op)

        def run() -> None:
            try:
                worker.run()
            except KeyboardInterrupt:
                client.process.die()  # as the command does

        client.call(run)
        return f"{worker.succeeded} succeeded, {worker.failed} failed, {worker.lost} lost"

    def _worker(self, own: Program, name: str, op: dict[str, Any]) -> Any:
        return own["tasks.worker"].TaskWorker(
            own["tasks.compat"].task_backends["default"],
            threads=op["threads"],
            prefetch=op.get("prefetch"),
            follow=False,
            worker=name,
        )

    def abort(self, client: Client, op: dict[str, Any]) -> Any:
        """Abort a task."""
        if not self._ids:
            return "there is none"
        one = self._ids[op["which"] % len(self._ids)]
        return client.call(client.process.program["tasks.aborts"].abort, one)

    def abort_group(self, client: Client, op: dict[str, Any]) -> Any:
        """Abort a group: what of it has not been enqueued never is."""
        if not self._groups:
            return "there is none"
        one = [*self._groups][op["which"] % len(self._groups)]
        self._world.ledger.perhaps_gone.update(self._groups[one])
        return client.call(client.process.program["tasks.groups"].abort_group, one)

    # What must hold

    def begin(self, how: dict[str, Any]) -> None:
        """Note that a task begins; what it follows must have succeeded."""
        self._world.progress()
        self.runs[how["id"]] += 1
        most = self._world.plan["tasks"]["max_attempts"]
        most += most > 1  # a killed worker's is spared once, unless it may run once only
        most += 0 if _spends(how) else how["fails"]
        if self.runs[how["id"]] > most and "redrive" not in self._world.verbs:
            simulated.running.fail(f"{how['id']} has begun {self.runs[how['id']]} times")
        for number, before, is_always in self._followers:
            missing = [one for one in before if one not in self._succeeded]
            if number == how["id"] and missing and not is_always:
                simulated.running.fail(f"{number} began, and {missing} have not succeeded")

    def see(self, before: State, after: State, changes: dict[bytes, Any]) -> None:
        """Check a commit: a task is enqueued once, and its end is noted once."""
        for key in changes:
            if key.startswith(self._trees.key()):
                self._see_tree(before, after, key)
            if not (key.startswith(self._first) and key.endswith(b"\x14")):
                continue  # no record, or not the first part of one
            was, now = before.values.get(key), after.values.get(key)
            if now is None:
                continue
            if was is None and key in self._created:
                raise Found(f"the task {now!r} is enqueued twice")
            self._created.add(key)
            record = json.loads(now)
            if was is None:
                self._enqueued.add(self._number_of(after, record["item"]))
            if was is not None and was != now and "status" in json.loads(was):
                raise Found(f"the end of {was!r} is noted again: {now!r}")
            if record.get("status") == "SUCCESSFUL" and record["args"]:
                self._succeeded.add(_number(record))

    def _see_tree(self, before: State, after: State, key: bytes) -> None:
        """Check that a group which nothing follows ends once in each way."""
        tree, kind, *branch = self._trees.unpack(key)
        values = before.values.get(key), after.values.get(key)
        if kind == "outcome" and None not in values and "abort_group" not in self._world.verbs:
            was, now = map(json.loads, values)
            about = json.loads(after.values[self._trees.pack((tree, "branch", *branch))])
            is_group = about["kind"] == "group" and not about.get("then")
            if is_group and was["status"] == now["status"]:
                raise Found(f"the end of the group {tree} is noted again: {now}")

    def _number_of(self, after: State, item_id: str) -> int:
        store = self._queue().parts.store
        data = after.values[store.keys.key(store.keys.place_named(item_id))]
        return _number(store.codec.decode(data).value)

    def check(self) -> None:
        """Check that each item has its record, each record its item or its end."""
        queue, found = self._queue(), {}
        for state in ("ready", "delayed", "leased", "dead"):
            found.update((item.value["id"], item) for item in queue.iterate(state=state))
        for result_id, record in self._all_records():
            item = found.pop(result_id, None)
            is_pending = "item" in record
            if item is None and is_pending and not _BY_HAND & self._world.verbs:
                raise Found(f"the task of {record} is in no queue")
            if item is not None and (not is_pending or record["item"] != item.id):
                raise Found(f"the task of {record} is in the queue, {item.state}")
            if not (is_pending or self._has_entry(result_id, record)):
                raise Found(f"the index of ended tasks lacks {record}")
        if found:
            raise Found(f"the tasks {[*found]} have no record")

    def _queue(self) -> Any:
        return self._catalog.queue(QUEUE)

    def _all_records(self) -> list[tuple[str, dict[str, Any]]]:
        tr = self._queue().database.create_transaction()
        ids, _ = self._records.some(tr, None, 10_000)
        return [(one, self._records.read(tr, one)) for one, _ in ids]

    def _has_entry(self, result_id: str, record: dict[str, Any]) -> bool:
        made = self._own["tasks.records"].EndedTask
        ended = made(QUEUE, record["status"], record["ended"], result_id, record["task"])
        return self._records.ended_row(ended)[0] in self._world.cluster.state.values

    def settle(self, present: dict[int, str]) -> None:
        """Run all that is left; then each task has one end, and what follows it was enqueued."""
        for at in range(_LAST_ROUNDS):  # what is lost is found, and what follows that runs
            self._queue().pause()  # a commit, without which versions of the engine stand still
            self._queue().resume()
            if at > 2 and not self._queue().counts().delayed:
                break
            self._worker(self._own, "the end", {"threads": 1}).run()
            simulated.running.sleep(_UPKEEP_SECONDS)
        self.check()
        ends = {_number(record): record for _, record in self._all_records() if "status" in record}
        for item in self._queue().iterate(state="dead"):
            ends.setdefault(_number(item.value), {"status": "dead"})
        ends.pop(0, None)
        for number, record in ends.items():
            present[number] = record["status"]
            if record["status"] == "SUCCESSFUL" and not self.runs[number]:
                raise Found(f"the task {number} has succeeded, and did not run")
        for follower in self._followers:
            self._check_follower(ends, *follower)

    def _check_follower(
        self, ends: dict[int, Any], number: int, before: list[int], is_always: bool
    ) -> None:
        """Check that what follows others was enqueued if they have succeeded, and only then.

        With ``always``, if each of them has ended or was removed by hand.
        """
        statuses = [ends[one]["status"] if one in ends else None for one in before]
        if is_always:
            statuses = ["ended" if one in ends or one in self._enqueued else None for one in before]
        is_due = None not in statuses if is_always else {*statuses} == {"SUCCESSFUL"}
        if number in ends and not (is_due or is_always):
            raise Found(f"{number} was enqueued, though not all of {before} have succeeded")
        if is_due and number not in self._enqueued and "abort_group" not in self._world.verbs:
            raise Found(f"{number} was not enqueued, though {before} have ended")


def _number(call: dict[str, Any]) -> int:
    """Return the number of a task, given its call; 0 for one that enqueues others."""
    how = call["args"][-1]
    return how["id"] if isinstance(how, dict) else 0
