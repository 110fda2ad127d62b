"""Tasks in a run: what clients do with them, and what must hold of their records and groups.

The backend and the workers are the package's own: a client that works is the main thread of a
worker with threads of its own, which leases tasks and ends them as any worker does. Groups enqueue
two tasks in each transaction, and two parts share a row of bits, so that small ones go the ways of
large ones.

There are four functions: a plain one, one with limits by key, one that notes how far it is and
writes a key in the transaction of its end, and a coroutine, which has a time limit and fewer
attempts, and is ended by an abort by force. A schedule enqueues the first. When all wait, each
result and each group is read, and the counters of functions; they show what was seen at commits.

Some processes have other limits in their code than others, as during a deployment. After an abort
a task does not begin, and one that has expired never does.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import functools
import json
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from fdb.subspace_impl import Subspace

from tests.simulation import schedule as simulated
from tests.simulation import wrong
from tests.simulation.schedule import Found

if TYPE_CHECKING:
    from tests.simulation.clients import Client
    from tests.simulation.cluster import State
    from tests.simulation.programs import Program
    from tests.simulation.world import World

QUEUE, PREFIX = "tasks-default", ("sim",)
_MODULES = ("task_worker", "groups", "aborts", "running", "group_results", "results")
#: What keys limited tasks have, and how often the schedule is due.
KEYS, _EVERY_SECONDS = ("x", "Y_z"), 7
_DONE, _ABORTED = b"done ", "fdbqueue.tasks.exceptions.TaskAborted"
#: The number of the tasks of the schedule.
_TICKS = -1
_TICK = {"task": f"{__name__}.work", "args": [{"id": _TICKS, "seconds": 0, "fails": 0}]}
_CRON = {**_TICK, "args": [{"id": _TICKS - 1, "seconds": 0, "fails": 0}], "cron": "* * * * *"}
SCHEDULES = {"tick": {**_TICK, "every": _EVERY_SECONDS}, "cron": _CRON}
#: How many parts share a row of bits, and how many tasks one transaction enqueues.
_TOGETHER = 2
#: How many tasks a group or a chain has at most, as the largest of clients.
_MOST_TASKS = 6
#: Some tasks have expired after this time if they have not begun.
_EXPIRES_SECONDS = 5.0
#: Within this time it is found what waits to be enqueued.
_UPKEEP_SECONDS, _LAST_ROUNDS = 4_000, 14
_BY_HAND = {"remove", "clear", "clear_state"}
#: What else ends tasks, or changes what is known of them, and how exactly moments are noted.
_DISTURBING = {*_BY_HAND, "redrive", "abort", "abort_group", "fork", "clock"}
_NOTED_US = 300_000
#: The time limit of a coroutine, and how many attempts at it there are.
_TIMEOUT, _FEWER = 8, 2
_TIMED_OUT = "fdbqueue.tasks.exceptions.TaskTimeout"
#: An abort by force ends what runs within this time.
_FORCED_US = 10_500_000


def prepare(own: Program) -> None:
    """Load what tasks need into a copy of the package."""
    own["tasks.compat"].task_backends = {}
    own["conf"].prefix = lambda: PREFIX
    for module in _MODULES:
        own[f"tasks.{module}"]
    kind, backends = own["tasks.options"].FdbQueueTask, own["tasks.compat"].task_backends
    kind.get_backend = lambda _: backends["default"]
    own["tasks.groups"].MAX_TASKS = _MOST_TASKS
    trees = own["tasks.trees"]
    trees.PARTS_PER_ROW = trees.MAX_ENQUEUED_TOGETHER = _TOGETHER
    own["tasks.group_results"].PARTS_PER_ROW = _TOGETHER


def backend_of(own: Program, options: dict[str, Any]) -> Any:
    """Return the backend of a copy, over no catalog yet."""
    options = {"retention": {"successful": None}, "grace_seconds": 1, **options}
    limits = options.pop("limits", {"max_running": 1})
    params = {"QUEUES": ["default"], "OPTIONS": options}
    made = own["tasks.backend"].FdbQueueBackend("default", params)
    own["tasks.compat"].task_backends["default"] = made
    named = {work: {}, limited: _limits(limits), noting: {}, awaiting: _HURRIED}
    for function, given in named.items():
        own.named[f"{__name__}.{function.__name__}"] = _task(own, function, **given)
    return made


def work(*given: Any) -> Any:
    """Be a task: take some seconds, fail some times, enqueue another task at the end."""
    own, how = simulated.running.current.process, given[-1]
    simulated.running.tasks.begin(how)
    simulated.running.sleep(how["seconds"])
    return _ended(own, how)


async def awaiting(how: dict[str, Any]) -> Any:
    """Be a coroutine that takes some seconds, unless it is ended before."""
    own = simulated.running.current.process
    simulated.running.tasks.begin(how)
    try:
        await asyncio.sleep(how["seconds"])
    except asyncio.CancelledError:
        simulated.running.tasks.leave(how)
        raise
    return _ended(own, how)


_HURRIED = {"timeout": _TIMEOUT, "max_attempts": _FEWER}


def _ended(own: Program, how: dict[str, Any]) -> Any:
    """End a task."""
    simulated.running.tasks.leave(how)
    if simulated.running.tasks.runs[how["id"]] <= how["fails"]:
        if how["id"] % 2:  # some ask to run again, and half of these spend no attempt
            raise own["tasks.exceptions"].Retry(how["seconds"], spend=_spends(how))
        raise ValueError(how["id"])
    if "more" in how:
        own["tasks.running"].enqueue_at_end(_task(own), how["more"])
    return how["id"]


def limited(*given: Any) -> Any:
    """Be a task that has limits by its key."""
    return work(*given)


def noting(context: Any, *given: Any) -> Any:
    """Be a task that notes how far it is, and writes a key with its end, once."""
    own, how = simulated.running.current.process, given[-1]
    own["tasks.running"].at_end(lambda tr: tr.add(_DONE + str(how["id"]).encode(), b"\x01"))
    before, now = context.metadata.get("runs", 0), simulated.running.tasks.runs[how["id"]] + 1
    if before >= now or context.remaining_seconds is not None:
        simulated.running.fail(f"{how['id']} is told of {before} runs")
    for done, whole in ((True, None), ("1", None), (-1, None), (math.inf, 2), (1, True)):
        with contextlib.suppress(TypeError, ValueError):
            context.progress(done, of=whole)
            simulated.running.fail(f"a progress of {done} of {whole} was not refused")
    for name, value in ((5, 1), ("x", {5}), ("x", "x" * 10_000)):
        with contextlib.suppress(TypeError, ValueError, own["exceptions"].FdbQueueError):
            context.metadata[name] = value
            simulated.running.fail(f"the metadata {name} was not refused")
    context.metadata["runs"] = now
    context.progress(1, of=2)
    found = work(*given)
    context.metadata["asked"] = context.is_aborted
    context.progress(2, of=2)
    return found


def _limits(limits: dict[str, Any]) -> dict[str, Any]:
    return {"concurrency_key": "{0[key]}", **limits}


def _spends(how: dict[str, Any]) -> bool:
    return bool(how["id"] % 4 != 3)


def _is_long(how: dict[str, Any]) -> bool:
    """Tell whether each attempt at a task is over its time limit."""
    return "coroutine" in how and how["seconds"] > _TIMEOUT


def _task(own: Program, function: Any = work, **options: Any) -> Any:
    """Return a task, as its code says it or with other options, which the backend allows."""
    facts = {"backend": "default", "queue_name": "default", "run_after": None, "priority": 0}
    facts["takes_context"] = function is noting
    return own["tasks.options"].FdbQueueTask(func=function, **{**facts, **options})


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
        #: When the runs of each have begun, and when the last ended.
        self._begun: dict[int, list[int]] = {}
        self._left: dict[int, int] = {}
        self._created: set[bytes] = set()
        self._succeeded: set[int] = set()
        self._enqueued: set[int] = set()
        self._ids: list[str] = []
        self._numbers: dict[str, int] = {}
        #: When tasks expire that have not begun.
        self._expires: dict[int, int] = {}
        #: What an abort of a task has said, and when.
        self._aborted: dict[int, tuple[str, int]] = {}
        self._forced: dict[int, int] = {}
        self._groups: dict[str, list[int]] = {}
        self._slots: set[int] = set()
        self._hows: dict[int, dict[str, Any]] = {}
        self._delayed = own["service.storage.tables"].State.DELAYED
        self._again = 0
        self._ended: Counter[str] = Counter()
        #: What is enqueued once others have ended: its number, theirs, and whether also if one of
        #: them has failed.
        self._followers: list[tuple[int, list[int], bool]] = []
        #: Whether nothing fails, is late, or has a wrong clock.
        faults = world.cluster.faults
        self._is_even = world.is_calm and not (faults.slow or world.is_skewed)

    # What clients do

    def _how(self, op: dict[str, Any]) -> dict[str, Any]:
        """Return how a new task is to run."""
        pushed = self._world.ledger.pushed
        number = len(pushed) + 1
        pushed[number] = QUEUE, simulated.running.now_us
        key = {"key": op["key"]} if "key" in op else {}
        how = {"id": number, "seconds": op["seconds"], "fails": op["fails"], **key}
        self._hows[number] = how
        return how

    def _made(self, own: Program, op: dict[str, Any], how: dict[str, Any]) -> Any:
        """Return the task of an operation: limited, noting or plain, with its options."""
        options: dict[str, Any] = {"priority": op["priority"]}
        options["expires"] = None if how["id"] % 7 else _EXPIRES_SECONDS
        if how["id"] % 7 == 0:
            seconds = _EXPIRES_SECONDS + op.get("later", 0)
            self._expires[how["id"]] = simulated.running.now_us + int(seconds * 1e6)
        if how["id"] % 14 == 0:  # the same as a moment
            moment = (simulated.running.now_us + own.skew_us) / 1e6 + _EXPIRES_SECONDS
            moment += op.get("later", 0)
            options["expires"] = datetime.datetime.fromtimestamp(moment, datetime.timezone.utc)
        if "unique" in op:
            options |= {"unique_key": op["unique"], "unique_while": op["while"]}
        if "later" in op:
            moment = (simulated.running.now_us + own.skew_us) / 1e6 + op["later"]
            how["after"] = simulated.running.now_us + int(op["later"] * 1e6)
            options["run_after"] = datetime.datetime.fromtimestamp(moment, datetime.timezone.utc)
        if "key" in op:
            limits = self._world.plan["tasks"]["limits"]
            limits = {"max_running": op["newer"]} if "newer" in op else limits
            return _task(own, limited, **_limits(limits), **options)
        if "coroutine" in op:
            how["coroutine"] = True
            return _task(own, awaiting, **_HURRIED, **options)
        return _task(own, noting if "notes" in op else work, **options)

    def enqueue(self, client: Client, op: dict[str, Any]) -> Any:
        """Enqueue a task, which may enqueue another at its end."""
        own, ledger, how = client.process.program, self._world.ledger, self._how(op)
        if op.get("more"):
            how["more"] = self._how(op)
            self._followers.append((how["more"]["id"], [how["id"]], False))
        backend, known = own["tasks.compat"].task_backends["default"], {how["id"]: None}
        task = self._made(own, op, how)
        if op.get("within"):
            run, into = own["service"].run, own["tasks.running"].enqueue_in
            call = functools.partial(run, backend.catalog.database, lambda tr: into(tr, task, how))
        else:
            call = functools.partial(backend.enqueue, task, [how], {})
        found = client.call(call, undo=lambda: ledger.refused.update(known))
        self._ids.append(found.id)
        number = self._numbers[found.id] = _number({"args": found.args})
        if number != how["id"] and "unique" not in op:
            simulated.running.fail(f"{how['id']} was enqueued, and {number} is shown")
        if number == how["id"]:
            ledger.sure.update(known)
        return number

    def enqueue_many(self, client: Client, op: dict[str, Any]) -> Any:
        """Enqueue some tasks with one call."""
        own, hows = client.process.program, [self._how(op) for _ in range(op["count"])]
        known = [one["id"] for one in hows]
        task = self._made(own, op, {"id": 1})
        for how in hows if "coroutine" in op and "key" not in op else ():
            how["coroutine"] = True
        undo = functools.partial(self._world.ledger.refused.update, dict.fromkeys(known))
        found = client.call(task.enqueue_many, [([how], {}) for how in hows], undo=undo)
        if [one.args for one in found] != [[how] for how in hows]:
            simulated.running.fail(f"{known} were enqueued, and {found} are shown")
        self._ids += [one.id for one in found]
        self._numbers.update((one.id, _number({"args": one.args})) for one in found)
        self._world.ledger.sure.update(dict.fromkeys(known))
        return known

    def result(self, client: Client, op: dict[str, Any]) -> Any:
        """Wait for the end of a task, or look how far a group is."""
        own = client.process.program
        if op.get("of_group") and self._groups:
            one = [*self._groups][op["which"] % len(self._groups)]
            group = client.call(own["tasks.group_results"].group_result, one)
            client.call(group.refresh)
            return group.status
        if not self._ids:
            return "there is none"
        one = self._ids[op["which"] % len(self._ids)]
        result = client.call(own["tasks.compat"].task_backends["default"].get_result, one)
        client.call(result.wait, op["wait"])
        if not result.is_finished:
            simulated.running.fail(f"{result} was waited for")
        return result.status

    def group(self, client: Client, op: dict[str, Any]) -> Any:
        """Enqueue a group, perhaps one that something follows, or in the middle of a chain."""
        own, limits = client.process.program, self._world.plan["tasks"]["limits"]
        groups, task = own["tasks.groups"], _task(own)
        if "key" in op:  # the same for all: what follows others is given what these return
            task = _task(own, limited, concurrency_key=op["key"], **limits)
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
        if self._world.is_alone and not self._world.is_skewed:
            self._check_worked()
        return f"{worker.succeeded} succeeded, {worker.failed} failed, {worker.lost} lost"

    def _check_worked(self) -> None:
        """Check that a worker which nothing disturbs leaves nothing that was not delayed."""
        queue = self._queue()
        with self._world._looking():
            left = queue.paused() is None and queue.peek()
        how = self._hows.get(_number(left.value)) if left else None
        if how and "after" not in how and not self.runs[how["id"]]:
            simulated.running.fail(f"a worker has left {left}")

    def _worker(self, own: Program, name: str, op: dict[str, Any]) -> Any:
        return own["tasks.task_worker"].TaskWorker(
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
        how = {"by_force": True} if "force" in op else {}
        outcome = client.call(client.process.program["tasks.aborts"].abort, one, **how)
        if outcome == "asked" and how:
            self._forced.setdefault(self._numbers[one], simulated.running.now_us)
        if "redrive" not in self._world.verbs or outcome == "aborted":
            self._aborted[self._numbers[one]] = outcome, simulated.running.now_us
        return outcome

    def abort_group(self, client: Client, op: dict[str, Any]) -> Any:
        """Abort a group: what of it has not been enqueued never is."""
        if not self._groups:
            return "there is none"
        one = [*self._groups][op["which"] % len(self._groups)]
        return client.call(client.process.program["tasks.groups"].abort_group, one)

    # What must hold

    def begin(self, how: dict[str, Any]) -> None:
        """Note that a task begins; what it follows must have succeeded."""
        self._world.progress()
        self.runs[how["id"]] += 1
        self._begun.setdefault(how["id"], []).append(simulated.running.now_us)
        if simulated.running.now_us < how.get("after", 0) and not self._world.is_skewed:
            simulated.running.fail(f"{how['id']} has begun before its time")
        if how["id"] < 0:
            return
        is_late = simulated.running.now_us > self._expires.get(how["id"], math.inf) + _NOTED_US
        is_first = self.runs[how["id"]] == 1 and "redrive" not in self._world.verbs
        if is_late and is_first and self._is_even:
            simulated.running.fail(f"{how['id']} has begun, and had expired")
        outcome, at = self._aborted.get(how["id"], ("", 0))
        late_us = _NOTED_US + 3 * self._world.longest_us + self._world.slept_us
        if outcome and (outcome != "asked" or simulated.running.now_us - at > late_us):
            simulated.running.fail(f"{how['id']} has begun, and an abort said {outcome!r}")
        self._again += how["id"] % 2
        most = self._most(how)
        most += most > 1  # a killed worker's is spared once, unless it may run once only
        most += 0 if _spends(how) else how["fails"]
        if self.runs[how["id"]] > most and "redrive" not in self._world.verbs:
            simulated.running.fail(f"{how['id']} has begun {self.runs[how['id']]} times")
        for number, before, is_always in self._followers:
            missing = [one for one in before if one not in self._succeeded]
            if number == how["id"] and missing and not is_always:
                simulated.running.fail(f"{number} began, and {missing} have not succeeded")

    def leave(self, how: dict[str, Any]) -> None:
        """Note that a task is about to end; a coroutine that was to end before has done so."""
        late_us = simulated.running.now_us - self._forced.get(how["id"], math.inf)
        took_us = simulated.running.now_us - self._begun[how["id"]][-1]
        is_late = late_us > _FORCED_US or took_us > _TIMEOUT * 1e6 + _NOTED_US
        if "coroutine" in how and is_late and self._is_even:
            simulated.running.fail(f"{how} was to end before: {took_us} us, {late_us} us")
        self._left[how["id"]] = simulated.running.now_us

    def _most(self, how: dict[str, Any]) -> int:
        """Return how many attempts at a task there are at most."""
        return _FEWER if "coroutine" in how else int(self._world.plan["tasks"]["max_attempts"])

    def see(self, before: State, after: State, changes: dict[bytes, Any]) -> None:
        """Check a commit: a task is enqueued once, and its end is noted once."""
        noted = 0
        for key in changes:
            if key.startswith(self._trees.key()):
                self._see_tree(before, after, key)
            # the first part of a record
            if key.startswith(self._first) and key.endswith(b"\x14") and key in after.values:
                noted += self._see_record(key, before, after)
        marked = [key for key in changes if key.startswith(_DONE)]
        if len(marked) != noted or any(after.values[key] != b"\x01" for key in marked):
            raise Found(f"{marked} were written, and {noted} tasks have ended")

    def _see_record(self, key: bytes, before: State, after: State) -> bool:
        """Check that a record may become what it is; tell whether it is the end of who notes."""
        was, now = before.values.get(key), after.values[key]
        record = json.loads(now)
        if was is None:
            if key in self._created:
                raise Found(f"the task {now!r} is enqueued twice")
            self._created.add(key)
            number = self._number_of(after, record)
            self._enqueued.add(number)
            if number == _TICKS:
                self._see_tick()
        elif was != now and "status" in json.loads(was):
            raise Found(f"the end of {was!r} is noted again: {now!r}")
        if record.get("status") != "SUCCESSFUL" or was == now:
            return False
        self._ended[record["task"]] += 1
        if record["args"]:
            self._succeeded.add(_number(record))
        return bool(record["task"].endswith(noting.__name__))

    def _see_tick(self) -> None:
        """Check that there is a slot for a task of the schedule, or was when it was enqueued."""
        every, now = int(_EVERY_SECONDS * 1e6), simulated.running.now_us
        late = self._world.longest_us + self._world.slept_us
        slots = range((now - late) // every - 1, now // every + 1)  # the oldest, as it may be late
        slot = next((one for one in slots if one not in self._slots), None)
        if slot is None and not self._world.is_skewed:
            raise Found(f"a slot of {[*slots]} of the schedule is dealt with twice")
        self._slots.add(slot or 0)

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

    def _number_of(self, after: State, record: dict[str, Any]) -> int:
        store = self._catalog.queue(record["queue"]).parts.store
        place, delayed = store.keys.place_named(record["item"]), self._delayed
        keys = store.keys.key(place), store.tables.hidden_keys(delayed, place)[1]
        data = next(after.values[key] for key in keys if key in after.values)
        return _number(store.codec.decode(data).value)

    def check(self) -> None:
        """Check that each item has its record, each record its item or its end."""
        found: dict[str, Any] = {}
        for queue in map(self._catalog.queue, self.names()):
            for state in ("ready", "delayed", "leased", "dead"):
                found.update((item.value["id"], item) for item in queue.iterate(state=state))
        records = self._all_records()
        self._check_groups(self._checked_results(records, found))
        self._check_counters()
        for result_id, record in records:
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

    def check_wrong(self, dice: Any) -> None:
        """Check that what is no task is refused."""
        wrong.check_task(self._own, dice, _task)

    def _checked_results(
        self, records: list[tuple[str, Any]], items: dict[str, Any]
    ) -> dict[int, Any]:
        """Check what the results of tasks show; return the statuses of those that have ended."""
        statuses = {}
        backend = self._own["tasks.compat"].task_backends["default"]
        for result_id, record in records:
            item = items.get(result_id)
            if item is None and "status" not in record:
                continue  # it was removed by hand
            found = backend.get_result(result_id)
            is_dead = item is not None and item.state == "dead"
            status = record.get("status") or ("FAILED" if is_dead else None)
            number = _number({"args": found.args}) if found.args else 0
            statuses[number] = status
            paths = [one.exception_class_path for one in found.errors]
            if self._aborted.get(number, "?")[0] == "aborted" and paths[-1:] != [_ABORTED]:
                raise Found(f"the task {number} was aborted, and shows {paths}")
            if found.is_finished != (status is not None) or status not in (None, found.status):
                raise Found(f"the result of {record} is {found}")
            if status is not None and number > 0:
                self._check_attempts(number, found, status == "SUCCESSFUL")
            if status == "SUCCESSFUL" and number and found.return_value != number:
                raise Found(f"the task {number} returned {found.return_value}")
            if status == "SUCCESSFUL" and found.task.func.__name__ == noting.__name__:
                is_told = 1 <= found.metadata["runs"] <= self.runs[number]
                if not is_told or found.progress.done != 2 or found.progress.of != 2:
                    raise Found(f"the task {number} shows {found}")
        return statuses

    def _check_attempts(self, number: int, found: Any, has_succeeded: bool) -> None:
        """Check what a result shows of the attempts of a task that nothing has disturbed."""
        world, begun = self._world, self._begun.get(number, [])
        is_disturbed = world.verbs & _DISTURBING or not self._is_even
        if is_disturbed or number % 7 == 0 or not _spends({"id": number}):
            return
        shown = [_us(at) for at in (found.started_at, found.last_attempted_at, found.finished_at)]
        expected = begun[0], begun[-1], self._left[number]
        if any(abs(at - one) > _NOTED_US for at, one in zip(shown, expected, strict=True)):
            raise Found(f"the task {number} shows {found}, and has begun at {begun}")
        names = {one.name for one in world.clients} | {"the end"}
        if len(found.worker_ids) != len(begun) or {*found.worker_ids} - names:
            raise Found(f"the task {number} shows {found.worker_ids}, of {len(begun)} runs")
        failed = len(begun) - has_succeeded
        paths = [one.exception_class_path for one in found.errors]
        how = self._hows[number]
        kind = _TIMED_OUT if _is_long(how) else "builtins.ValueError"
        if (number % 2 == 0 or _is_long(how)) and paths != [kind] * failed:
            raise Found(f"the task {number} shows {paths} of {failed} failures")

    def _check_groups(self, known: dict[int, Any]) -> None:
        """Check what the results of groups show."""
        if self._world.verbs & {*_BY_HAND, "redrive"} or "retention" in self._world.plan["tasks"]:
            return
        for group_id, first in self._groups.items():
            group = self._own["tasks.group_results"].group_result(group_id)
            if group.kind == "chain":
                continue
            statuses = [known.get(one) for one in first]
            shown = [part.status for part in group.parts()]
            failed = [part.at for part in group.parts(failed=True)]
            counts = group.succeeded, group.failed, group.count
            expected = statuses.count("SUCCESSFUL"), statuses.count("FAILED"), len(first)
            if shown != statuses or counts != expected or len(failed) != expected[1]:
                raise Found(f"{group} shows {shown}, of {statuses}")
            self._check_group(group, [known.get(one) for one in first])
            if [one.at for one in group.parts(after=0, limit=2)] != [1, 2][: len(first) - 1]:
                raise Found(f"{group} shows other parts than the first")

    def _check_group(self, group: Any, statuses: list[Any]) -> None:
        """Check whether a group has ended as its parts have, and what an outline shows of it."""
        own, then = self._own, group.follows
        has_failed = "FAILED" in statuses and not (then and then.is_enqueued)
        last = then.status if then else None
        is_over = None not in statuses and (then is None or last is not None)
        expected = "RUNNING" if any(statuses) else "READY"
        if is_over and (last == "SUCCESSFUL" if then else not has_failed):
            expected = "SUCCESSFUL"
        shown = str(group.status), group.is_finished == (group.finished_at is not None)
        is_fixed = has_failed or last == "FAILED" or group.is_aborted
        if not is_fixed and shown != (expected, True):
            raise Found(f"{group} shows {shown}, of {statuses}, {last}")
        results, parts = own["tasks.group_results"], group.parts()
        enqueued = [one for one in parts if one.is_enqueued]
        if [one.result().id for one in enqueued] != [one.id for one in enqueued]:
            raise Found(f"the results of {group} are others")
        place = own["tasks.records"].TreePlace(*results.branch_named(group.id), 0, group.count)
        backend = own["tasks.compat"].task_backends["default"]
        first, *lines = results.outline_of(self._queue().database, backend, place)
        ids = [one.id for one in (*parts, *([then] if then else []))]
        share = 100 * (group.succeeded + group.failed) / group.count
        here = [one.is_here for one in lines]
        if (
            [one.task for one in lines] != ids
            or abs(first.percent - share) > 0.1
            or here.index(True)
        ):
            raise Found(f"the outline of {group} is {first}, {lines}")

    def _check_counters(self) -> None:
        """Check how many attempts have succeeded, as is counted for each function."""
        counters = self._own["tasks.function_counters"].FunctionCounters(PREFIX)
        tr = self._catalog.queue(QUEUE).database.create_transaction()
        rows = counters.read(tr, [QUEUE], simulated.running.now_us, 1_000).rows
        found = sum(row.day.runs - row.day.failures for row in rows)
        most = sum(self._ended.values()) + self._again
        is_aborted = self._world.verbs & {"abort", "abort_group"}  # which is no failure
        if not (self._world.is_skewed or is_aborted) and not most - self._again <= found <= most:
            raise Found(f"{rows} are counted, and {self._ended} have succeeded")

    def names(self) -> list[str]:
        """Return the names of the queues where tasks may be."""
        member, path = self._own["tasks.key_limit_queues"].member_name, f"{__name__}.limited"
        return [QUEUE, *(member(QUEUE, path, key) for key in KEYS)]

    def _queue(self) -> Any:
        return self._catalog.queue(QUEUE)

    def _all_records(self) -> list[tuple[str, dict[str, Any]]]:
        tr = self._queue().database.create_transaction()
        ids, _ = self._records.some(tr, None, 10_000)
        return [(one, self._records.read(tr, one)) for one, _ in ids]

    def _has_entry(self, result_id: str, record: dict[str, Any]) -> bool:
        made = self._own["tasks.records"].EndedTask
        ended = made(QUEUE, record["status"], record["ended"], result_id, record["task"])
        text = self._world.cluster.state.values.get(self._records.ended_row(ended)[0])
        task, _, tree = (text or b"").decode().partition("\0")
        return task == record["task"] and bool(tree) == ("tree" in record)

    def settle(self, present: dict[int, str]) -> None:
        """Run all that is left; then each task has one end, and what follows it was enqueued."""
        for at in range(_LAST_ROUNDS):  # what is lost is found, and what follows that runs
            self._queue().pause()  # a commit, without which versions of the engine stand still
            self._queue().resume()
            counts = [self._catalog.queue(name).counts() for name in self.names()]
            if at > 2 and not any(one.delayed + one.ready for one in counts):
                break
            self._worker(self._own, "the end", {"threads": 1}).run()
            simulated.running.sleep(_UPKEEP_SECONDS)
        self.check()
        if problems := self._own["tasks.compat"].task_backends["default"].check():
            raise Found(f"the setting is refused: {problems}")
        ends = {_number(record): record for _, record in self._all_records() if "status" in record}
        for queue in map(self._catalog.queue, self.names()):
            for item in queue.iterate(state="dead"):
                tree = {"tree": 0} if "tree" in item.value else {}
                end = {"status": "dead", "ended": _us(item.died_at), **tree}
                ends.setdefault(_number(item.value), end)
            counts = queue.counts()
            if counts.ready + counts.leased + counts.delayed:
                raise Found(f"{queue.name} has {counts} at the end")
        self._check_ends({number: end for number, end in ends.items() if number > 0}, present)

    def _check_ends(self, ends: dict[int, Any], present: dict[int, str]) -> None:
        for number, record in ends.items():
            present[number] = record["status"]
            if record["status"] == "SUCCESSFUL" and not self.runs[number]:
                raise Found(f"the task {number} has succeeded, and did not run")
            self._check_end(number, record["status"])
        if "retention" in self._world.plan["tasks"]:
            oldest = simulated.running.now_us - int(3 * _UPKEEP_SECONDS * 1e6)
            alone = [one for one in ends.values() if "tree" not in one]
            kept = [one for one in alone if one.get("ended", oldest) < oldest]
            if kept and not self._world.is_skewed:
                raise Found(f"{kept[0]} is kept too long")
            return
        for follower in self._followers:
            self._check_follower(ends, *follower)

    def _check_end(self, number: int, status: str) -> None:
        """Check that a task has run as often as it must, if nothing else has ended it."""
        how, world = self._hows[number], self._world
        if not self._is_even or number % 7 == 0 or world.verbs & _DISTURBING:
            return
        most, fails = self._most(how), math.inf if _is_long(how) else how["fails"]
        # some ask to run again, and spend no attempt
        is_free = number % 2 and not _spends(how) and not _is_long(how)
        runs = fails + 1 if is_free else min(fails + 1, most)
        if (status == "SUCCESSFUL") != (runs > fails) or self.runs[number] != runs:
            raise Found(f"{how} has ended as {status} after {self.runs[number]} runs, not {runs}")

    def _check_follower(
        self, ends: dict[int, Any], number: int, before: list[int], is_always: bool
    ) -> None:
        """Check that what follows others was enqueued if they have succeeded, and only then.

        With ``always``, if each of them has ended; what was removed by hand never does.
        """
        statuses = [ends[one]["status"] if one in ends else None for one in before]
        is_due = None not in statuses if is_always else {*statuses} == {"SUCCESSFUL"}
        if number in ends and not (is_due or is_always):
            raise Found(f"{number} was enqueued, though not all of {before} have succeeded")
        if is_due and number not in self._enqueued and "abort_group" not in self._world.verbs:
            raise Found(f"{number} was not enqueued, though {before} have ended")


def _number(call: dict[str, Any]) -> int:
    """Return the number of a task, given its call; 0 for one that enqueues others."""
    how = call["args"][-1]
    return how["id"] if isinstance(how, dict) else 0


def _us(moment: datetime.datetime) -> int:
    return round(moment.timestamp() * 1e6)
