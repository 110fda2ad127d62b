"""How many Python calls an operation makes, and through how much of the package it goes.

On a fast disk, and beside a cluster that is near, Python is most of what an operation costs. A
count of calls is the same on every machine, so it shows what a change of the code has added. How
deep the first read is, and how many files the call enters, is what one has to read to follow it.

*Calls* are the ``call`` events of :func:`sys.setprofile` in the calling thread: each call of a
Python function, each comprehension, and each time that a generator goes on. Calls of functions
written in C are not counted. *Frames* are those from the verb to the first read, with the verb's
and that of the transaction's method. *Files* are those of the package in which something is
called, without the engine's. Nothing observes the queues: the metrics, where they are installed,
make some twenty calls more for each operation.

The *list* is what ``manage.py queue_list`` prints of three queues, from its arguments on: Django's
and argparse's calls are counted, too.

Of a task there are its enqueue, its *run* and its *life*. The calls of a run are those of all
threads of a worker that has one thread for tasks, from one lease to the next, Django's included;
but not of the engine's thread that watches, because how often that looks depends on the time.
The files of a life are those from the enqueue over the run to the result.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import inspect
import io
import os
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import fdb.tuple
from fdb.subspace_impl import Subspace

import fdbqueue
from benchmarks.measure import Line, line_of
from benchmarks.plan import Benchmark, Plan
from benchmarks.queues import SMALL, Load, Ours
from benchmarks.task_processes import Backend, Process
from benchmarks.task_workers import our_backend
from fdbqueue.engines.embedded.files import STAMP_GRANULARITY_NS
from fdbqueue.engines.embedded.watches import WatchRegistry
from fdbqueue.service import Catalog, QueueSpec
from fdbqueue.service.combiner import HELPER

#: Run before any is counted: they fill caches, and write what is written once a queue.
_WARM_UP = 20
_TURNS = 200
#: Of fewer, one that does some housekeeping would decide the median.
_LEAST_TURNS = 15
_PRIORITY = 3
#: How many tasks the worker runs whose calls are counted.
_RUNS = 50
#: How often that is measured.
_ROUNDS = 3
#: The queues that are listed, and their options.
_LISTED: dict[str, dict[str, str]] = {
    "mail": {"kind": "fifo"},
    "jobs": {"kind": "priority"},
    "raw": {"kind": "fifo", "codec": "bytes"},
}
_PACKAGE = str(Path(fdbqueue.__file__).parent)
_ENGINES = str(Path(_PACKAGE, "engines"))
#: The methods of a transaction that read.
_READS = {"get", "get_key", "get_range", "get_range_startswith", "__getitem__"}


class Case(NamedTuple):
    """A figure of an operation, the most that it may be, and what it was before.

    ``before`` was counted in the same way: calls when a queue was one class that inherited from
    ten; frames and files when a push, for example, was an object that called its pusher back; those
    of tasks when an attempt was three objects, and a result was normalised again.
    """

    verb: str
    kind: str
    figure: str
    most: int
    before: int


CASES = (
    Case("push", "FIFO", "calls", 149, 347),
    Case("push", "priority", "calls", 163, 400),
    Case("pop", "FIFO", "calls", 164, 425),
    Case("pop", "priority", "calls", 178, 480),
    Case("lease and ack", "FIFO", "calls", 322, 830),
    Case("lease and ack", "priority", "calls", 338, 887),
    Case("push", "FIFO", "frames", 9, 14),
    Case("pop", "FIFO", "frames", 12, 21),
    Case("lease", "FIFO", "frames", 12, 21),
    Case("ack", "FIFO", "frames", 11, 16),
    Case("nack", "FIFO", "frames", 11, 16),
    Case("pop_from", "FIFO", "frames", 17, 19),
    Case("push", "FIFO", "files", 11, 20),
    Case("pop", "FIFO", "files", 13, 27),
    Case("lease", "FIFO", "files", 14, 28),
    Case("ack", "FIFO", "files", 10, 17),
    Case("nack", "FIFO", "files", 16, 20),
    Case("pop_from", "FIFO", "files", 17, 24),
    Case("pop_from", "family", "calls", 194, 268),
    Case("pop_from", "family", "frames", 15, 19),
    Case("pop_from", "family", "files", 16, 23),
    Case("enqueue", "task", "calls", 203, 297),
    Case("run", "task", "calls", 290, 708),
    Case("list", "three queues", "calls", 2_400, 3_860),
    Case("enqueue", "task", "frames", 12, 12),
    Case("enqueue", "task", "files", 16, 19),
    Case("life", "task", "files", 55, 36),
)


def calls(plan: Plan) -> Iterator[Line]:
    """The calls of verbs, their frames to the first read, and their files; beside the most."""
    turns = max(plan.turns(_TURNS), _LEAST_TURNS)
    backend = our_backend(plan, ("fdbqueue-benchmarks", os.urandom(8).hex()))
    backend.settings["FDBQUEUE"]["QUEUES"] = _LISTED
    with Process(backend) as process:
        measured = process.call(list_counted, turns) | process.call(tasks_counted, turns)
    for case in CASES:
        operation = case.verb, case.kind
        if operation not in measured:
            with plan.subspace(database := plan.open()) as subspace:
                ours: Ours | _Family
                if case.kind == "family":
                    ours = _Family(database, subspace)
                else:
                    method = "pop_from" if case.verb == "pop_from" else "pop"
                    ours = Ours(database, subspace, Load(kind=case.kind.lower(), method=method))
                measured[operation] = median_of(ours, *operation, turns)
        yield line_of(
            f"{case.kind} {case.verb}, {case.figure}",
            [(getattr(measured[operation], case.figure), case.most)],
            peer_name=f"the most ({case.before} before)",
            unit=case.figure,
            bar="at most 1",
        )


class _Family:
    """Ten members of a family, all with items, and one of them to push to."""

    def __init__(self, database: Any, subspace: Subspace) -> None:
        specs = [QueueSpec("user-*", "fifo")]
        catalog = Catalog(database, fdb.tuple.unpack(subspace.key()), specs)
        for number in range(10):
            catalog.queue(f"user-{number}").push_many([SMALL] * _TURNS)
        self.queue: Any = catalog.queue("user-0")
        self.several = catalog.several(["user-*"])


@dataclasses.dataclass
class Count:
    """What was counted of a call.

    Attributes:
        calls: How many Python functions were called.
        frames: How many frames there are from the call to the first read; 0 if none reads.
        files: How many files of the package were entered, without the engine's.
    """

    calls: float = 0
    frames: float = 0
    files: float = 0


def median_of(ours: Ours | _Family, verb: str, kind: str, turns: int) -> Count:
    """Return the medians of what is counted of an operation."""
    queue = ours.queue
    priority = (_PRIORITY,) if kind == "priority" else ()
    push = functools.partial(queue.push, {"number": 1, **SMALL}, *priority)
    counts = []
    for turn in range(_WARM_UP + turns):
        if turn == _WARM_UP // 2:
            settle()
        if verb == "push":
            counts.append(counted(push)[0])
            continue
        push()
        push()  # so that the queue is not empty afterwards
        if verb in ("pop", "pop_from"):
            counts.append(counted(queue.pop if verb == "pop" else ours.several.pop)[0])
            continue
        lease, item = counted(queue.lease)
        end, _ = counted(functools.partial(queue.nack if verb == "nack" else queue.ack, item))
        if verb == "lease and ack":
            end.calls += lease.calls
        counts.append(lease if verb == "lease" else end)
    return median(counts[_WARM_UP:])


def settle() -> None:
    """Wait until a commit does not look at the engine's files again because they are so young."""
    time.sleep(2 * STAMP_GRANULARITY_NS / 1e9)


def median(counts: list[Count]) -> Count:
    """Return the median of each figure."""
    return Count(
        *(
            statistics.median(getattr(one, field.name) for one in counts)
            for field in dataclasses.fields(Count)
        )
    )


def list_counted(_: Backend, turns: int) -> dict[tuple[str, str], Count]:
    """Return what is counted of the list, in a process that has set Django up."""
    from django.core.management import call_command

    for name, options in _LISTED.items():
        value: Any = b"work" if "codec" in options else SMALL
        fdbqueue.queue(name).push_many([value] if options["kind"] == "fifo" else [(value, 1)])

    def list_queues() -> None:
        call_command("queue_list", stdout=io.StringIO())

    counts = [counted(list_queues)[0] for _ in range(_WARM_UP + turns)]
    return {("list", "three queues"): median(counts[_WARM_UP:])}


def tasks_counted(_: Backend, turns: int) -> dict[tuple[str, str], Count]:
    """Return what is counted of tasks, in a process that has set Django up.

    Its clock is its own processor time: so how many tasks share a lease does not depend on what
    else the machine does.
    """
    from benchmarks.nothing_task import nothing

    time.monotonic = time.process_time

    def enqueue() -> Any:
        return nothing.enqueue(SMALL)

    for _ in range(_WARM_UP):
        enqueue()
    settle()
    enqueues = [counted(enqueue)[0] for _ in range(_WARM_UP + turns)]
    work_off()
    enqueued = median(enqueues)
    run = min(_calls_of_more(enqueue) for _ in range(_ROUNDS)) / _RUNS - enqueued.calls
    life, _ = counted_in_threads(lambda: nothing.get_result(work_off(enqueue)[0].id))
    return {
        ("enqueue", "task"): enqueued,
        ("run", "task"): Count(calls=round(run)),
        ("life", "task"): life,
    }


def _calls_of_more(enqueue: Callable[[], Any]) -> float:
    """Return how many calls fifty more tasks cost a worker, their enqueues included."""
    few, _ = counted_in_threads(lambda: work_off(enqueue))
    more, _ = counted_in_threads(lambda: work_off(*[enqueue] * (1 + _RUNS)))
    return more.calls - few.calls


def work_off(*enqueue: Callable[[], Any]) -> list[Any]:
    """Enqueue tasks, have a worker do all there are, and return their results."""
    from fdbqueue.tasks.compat import task_backends
    from fdbqueue.tasks.task_worker import TaskWorker

    results = [one() for one in enqueue]
    TaskWorker(task_backends["default"], follow=False).run()
    return results


def counted_in_threads(function: Callable[[], Any]) -> tuple[Count, Any]:
    """Count as :func:`counted` does, in the threads too that are started meanwhile.

    The helpers of calls before do not help here: what they did would not be counted.
    """
    for thread in threading.enumerate():
        if thread.name == HELPER:
            thread.join()
    of_threads: dict[int, int] = Counter()
    watching: set[int] = set()
    files: set[str] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        thread = threading.get_ident()
        if frame.f_code is WatchRegistry._tend.__code__:  # noqa: SLF001  # it is all that it runs
            (watching.add if event == "call" else watching.discard)(thread)
        if event == "call" and thread not in watching:
            of_threads[thread] += 1
            files.add(frame.f_code.co_filename)

    with _no_collection():
        threading.setprofile(note)
        sys.setprofile(note)
        try:
            result = function()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return Count(calls=sum(of_threads.values()), files=_ours_of(files)), result


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Collect no garbage meanwhile: what is finalised, and who is told of it, is of others."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def counted(function: Callable[[], Any]) -> tuple[Count, Any]:
    """Call a function; return what was counted of that, and its result."""
    count = Count()
    files: set[str] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event != "call":
            return
        count.calls += 1
        code = frame.f_code
        if not code.co_filename.startswith(_ENGINES):
            files.add(code.co_filename)
        elif not count.frames and code.co_name in _READS:
            count.frames = _depth(frame, below=own)

    own = inspect.currentframe()
    before = sys.getprofile()
    with _no_collection():
        sys.setprofile(note)
        try:
            result = function()
        finally:
            sys.setprofile(before)
    count.files = _ours_of(files)
    return count, result


def _ours_of(files: set[str]) -> int:
    """Return how many files are the package's, and not the engine's."""
    ours = [name for name in files if name.startswith(_PACKAGE)]
    return sum(not name.startswith(_ENGINES) for name in ours)


def _depth(frame: FrameType | None, below: FrameType | None) -> int:
    """Return how many frames there are from the one that another has called, to this one."""
    depth = 0
    while frame is not None and frame is not below:
        frame = frame.f_back
        depth += 1
    return depth


BENCHMARKS = (Benchmark("calls", calls, engines=("embedded",)),)
