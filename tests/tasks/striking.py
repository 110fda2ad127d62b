"""Workers that are killed while tasks hang past their time limits: a workload for tests."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fdbqueue.service import Counts, now_us, run
from fdbqueue.tasks import TaskTimeout
from fdbqueue.tasks.records import MAX_ERRORS
from tests.engines.children import wait_until
from tests.tasks import timed_jobs
from tests.tasks.stored import SUCCESSFUL
from tests.tasks.test_worker_command import is_alive

#: How long attempts may take, their grace, and leases.
LIMIT_SECONDS, GRACE_SECONDS, LEASE_SECONDS = 1.0, 0.5, 6.0
#: A parent looks twice, half a second apart; a process whose parent was killed waits two seconds.
#: The rest is for a machine that has much else to do.
LATE_SECONDS = 8.0
_DEADLINE_SECONDS = 900
#: If C code holds the interpreter, and the parent was killed, nobody ends a process before that
#: code ends.
_ENDLESS, _HELD_SECONDS = "C code that holds the interpreter", 120.0


class Lives:
    """See how long the processes live in which attempts hang.

    Args:
        folder: Where each attempt that hangs leaves a file: ``hang`` or, if it holds the
            interpreter, ``hold``, with its process and its beginning.

    Attributes:
        seconds: How long each process lived after the attempt began, by the file's name.
        without_parent: Processes whose parent was killed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.seconds: dict[str, float] = {}
        self.without_parent: set[int] = set()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._is_over.wait(0.05):
            self.look()

    def look(self) -> int:
        """Look at those that were alive, and return how many are."""
        alive = 0
        for path in self._folder.glob("h???-*"):
            _, process, began = path.name.split("-")
            if path.name in self.seconds:
                continue
            if is_alive(int(process)):
                alive += 1
            else:
                self.seconds[path.name] = time.monotonic() - int(began) / 1e9
        return alive

    def end(self) -> list[float]:
        """Wait until none is alive, and return how long they lived, the shortest first.

        Left out are processes without a parent in which an attempt held the interpreter.
        """
        wait_until(lambda: self.look() == 0, _HELD_SECONDS)
        self._is_over.set()
        self._thread.join()
        held = {int(name.split("-")[1]) for name in self.seconds if name.startswith("hold")}
        left_out = held & self.without_parent
        lived = self.seconds.items()
        return sorted(s for name, s in lived if int(name.split("-")[1]) not in left_out)


def children(process: int) -> list[int]:
    """Return the children of a process."""
    try:
        return [*map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())]
    except FileNotFoundError:
        return []


def limits_survive_strikes(
    configure: Any,
    start: Callable[..., Any],
    folder: Path,
    *,
    threads: int,
    hangs: int,
    kills: int,
    seed: int,
) -> list[float]:
    """Let tasks hang in all ways, beside others, and kill processes of their workers at random.

    Each that hangs ends as ``TaskTimeout`` once, in time, and each of its attempts once; each of
    the others once. A worker whose parent is killed is started again.

    Returns:
        How long each process lived in which an attempt hung, since that attempt began.
    """
    options = {
        "timeout": LIMIT_SECONDS,
        "grace_seconds": GRACE_SECONDS,
        "lease_seconds": LEASE_SECONDS,
    }
    backend = configure(**options)
    dice, queue = random.Random(seed), backend.queue("default")
    names = [name for name in timed_jobs.HANGS if name != _ENDLESS]
    jobs = [
        *(("hang", names[number % len(names)]) for number in range(hangs)),
        *(("beside", number) for number in range(hangs)),
    ]
    dice.shuffle(jobs)
    hanging, beside = [], {}
    for kind, what in jobs:
        if kind == "hang":
            hanging.append(timed_jobs.hang_until_timeout.enqueue(str(folder), what))
        else:
            beside[what] = timed_jobs.read_beside.enqueue(what, dice.uniform(0.01, 2.0))

    def left() -> int:
        counts = queue.counts()
        return int(counts.ready + counts.leased + counts.delayed)

    def begin() -> Any:
        return start("--threads", str(threads), FDBQUEUE_TEST_OPTIONS=json.dumps(options))

    lives, worker = Lives(folder), begin()
    for kill in range(kills):
        goal = len(jobs) - len(jobs) * (kill + 1) // (kills + 1)
        wait_until(lambda goal=goal: left() <= goal, _DEADLINE_SECONDS)
        time.sleep(dice.uniform(0.0, 2 * (LIMIT_SECONDS + GRACE_SECONDS)))
        found = children(worker.process.pid)
        if found and dice.random() < 0.7:
            os.kill(dice.choice(found), signal.SIGKILL)
        else:
            lives.without_parent.update(found)
            worker.process.kill()
            worker = begin()
    wait_until(lambda: left() == 0, _DEADLINE_SECONDS)
    worker.process.send_signal(signal.SIGTERM)
    code = worker.process.wait(60)  # 1 if a process hung in an attempt that another has repeated
    assert code in (0, 1, -signal.SIGTERM), (code, worker.said[-3_000:])
    for one in (*hanging, *beside.values()):
        one.refresh()
        assert one.status is SUCCESSFUL
    for one in hanging:
        ends = [error.exception_class for error in one.errors].count(TaskTimeout)
        # An attempt is over its limit, too, if one beside it held the interpreter all that time.
        assert ends == one.return_value == 1 or ends == one.return_value > 1 < threads, one.errors
        assert len(one.errors) == min(len(one.worker_ids) - 1, MAX_ERRORS), one.errors
    assert {number: one.return_value for number, one in beside.items()} == {n: n for n in beside}
    assert queue.counts() == Counts(0, 0, 0, 0)
    rows = run(
        backend.catalog.database,
        lambda tr: backend.records.functions.read(tr, ["tasks-default"], now_us(), 1_000).rows,
        read_only=True,
    )
    succeeded = {row.path: row.day.runs - row.day.failures for row in rows}
    assert succeeded == {
        timed_jobs.hang_until_timeout.module_path: len(hanging),
        timed_jobs.read_beside.module_path: len(beside),
    }
    lived = lives.end()
    assert len(lives.seconds) >= hangs
    assert lived[-1] < LIMIT_SECONDS + GRACE_SECONDS + LATE_SECONDS
    return lived
