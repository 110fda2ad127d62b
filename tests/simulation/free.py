"""The same plans on a real engine, with real threads: the order is free, the account is the same.

What only a simulation can do is left out: strikes, forks, clocks; and tasks, which take their time.
The clients are threads of this process, each simulated process has a catalog of its own, and waits
are short. At the end the clock goes ahead, so that all leases and delays expire.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import logging
import os
import threading
import time
import uuid
from typing import Any

from tests.simulation import schedule as simulated
from tests.simulation.clients import Client, Ledger
from tests.simulation.cluster import Faults
from tests.simulation.schedule import Found
from tests.simulation.world import World, open_catalog

_LEFT_OUT = {"fork", "clock"}
_LONGEST_WAIT = 0.5


class _Package:
    """The package itself, in place of a copy."""

    def __getitem__(self, name: str) -> Any:
        return importlib.import_module(f"fdbqueue.{name}")


class _Clock:
    """The real time, in place of a schedule."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.steps, self.found = 0, None

    @property
    def now_us(self) -> int:
        return time.monotonic_ns() // 1000

    def note(self, text: str) -> None:
        self.steps += 1
        self.log.append(f"{time.monotonic():12.6f} {threading.current_thread().name}: {text}")

    def fail(self, text: str) -> None:
        self.found = self.found or text  # the first
        raise Found(text)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class _Process:
    """A catalog of its own, in place of a process."""

    def __init__(self, world: FreeWorld, number: int, options: dict[str, Any]) -> None:
        self.world, self.name, self.options = world, f"p{number}", options
        self.program = _Package()
        errors = self.program["exceptions"].FdbQueueError, type(world.engine_error)
        self.errors = errors
        self.set_options(options, whole=True)

    def set_options(self, options: dict[str, Any], *, whole: bool = False) -> None:
        plan = self.world.plan
        self.options = options if whole else dict.fromkeys(plan["queues"], options)
        self.catalog = self.world.open(self.options)


class FreeWorld(World):
    """One run on a real engine.

    Args:
        plan: What is done.
        database: Where.
        engine_error: An error of the engine.
    """

    def __init__(self, plan: dict[str, Any], database: Any, engine_error: Exception) -> None:
        self.model, self.was_unclear = None, False
        self.plan, self.engine_error = _without_time(plan), engine_error
        self._database, self._prefix = database, ("sim", uuid.uuid4().hex)
        self.schedule = simulated.running = _Clock()  # as one
        self.note, self.ledger = self.schedule.note, Ledger()
        self.cluster = type("Engine", (), {"faults": Faults(), "commits": 0})()
        self.slept_us, self.longest_us, self._catalogs, self._promises = 0, 10_000_000, {}, []
        ops = [op for client in self.plan["clients"] for op in client["ops"]]
        self.names = sorted({op[key] for op in ops for key in ("queue", "to") if key in op})
        self.verbs, self.is_skewed = {op["do"] for op in ops}, False
        plans = self.plan["processes"]
        self.processes = [
            _Process(self, at, one.get("options", {}))  # in its place
            for at, one in enumerate(plans)
        ]
        self.clients = [
            Client(self, at, self.processes[one.get("process", 0)], one["ops"])
            for at, one in enumerate(self.plan["clients"])
        ]

    def open(self, options: dict[str, Any]) -> Any:
        """Return a new catalog."""
        return open_catalog(_Package(), self._database, self.plan, options, self._prefix)

    def _catalog(self, options: dict[str, Any]) -> Any:
        if repr(options) not in self._catalogs:
            self._catalogs[repr(options)] = self.open(options)
        return self._catalogs[repr(options)]

    def progress(self) -> None:
        """Do nothing: a free run is not counted."""

    def run(self) -> None:
        """Run to the end.

        Raises:
            Found: A promise was broken.
        """
        logging.disable(logging.CRITICAL)
        for client in self.clients:
            client.thread = threading.Thread(
                target=self._run_client, args=(client,), name=client.name
            )
        for client in self.clients:
            client.thread.start()
        for client in self.clients:
            client.thread.join()
        if self.schedule.found is not None:
            raise Found(self.schedule.found)
        time.sleep(1.2)  # for handoffs, which expire by the engine's versions
        clock = importlib.import_module("fdbqueue.service.clock")
        clock.set_ahead(3_600_000_000)
        try:
            self._end()
        finally:
            clock.set_ahead(-3_600_000_000)
            database, begin = (
                self._database,
                importlib.import_module("fdb.tuple").pack(self._prefix),
            )
            importlib.import_module("fdbqueue.service").run(
                database, lambda tr: tr.clear_range(begin, begin + b"\xff")
            )

    def _run_client(self, client: Client) -> None:
        with contextlib.suppress(Found):  # which the clock has noted
            client.run()

    def _end(self) -> None:
        free = {name: {"max_leased": None, "rate": None} for name in self.plan["queues"]}
        catalog, present = self._catalog(free), dict[int, str]()
        for paused in (*catalog.families(), *map(catalog.queue, self.names)):
            paused.resume()
        self._drain(catalog, present, wait=0.0)
        for queue in map(catalog.queue, self.names):
            counts = queue.counts()
            if counts.ready or counts.leased or counts.delayed:
                raise Found(f"{queue.name} has {counts} at the end")
            for item in queue.iterate(state="dead"):
                self._note_present(present, item, "dead")
        self._account(present)


def _without_time(plan: dict[str, Any]) -> dict[str, Any]:
    """Return a plan without what needs a virtual clock or a simulated process."""
    plan = copy.deepcopy(plan)
    for options in plan["queues"].values():
        options["handoff_timeout_seconds"] = 1
        options.pop("stored", None)
    for client in plan["clients"]:
        has_tasks = "tasks" in plan
        client["ops"] = [op for op in client["ops"] if not (has_tasks or op["do"] in _LEFT_OUT)]
        for op in client["ops"]:
            op.pop("strike", None)
            if "wait" in op:
                op["wait"] = min(op["wait"], _LONGEST_WAIT)
    return plan


def open_engine() -> tuple[Any, Exception]:
    """Return the database to run on, a cluster if there is a cluster file, and an error of it."""
    if os.environ.get("FDB_CLUSTER_FILE"):
        engine = importlib.import_module("fdbqueue.engines.foundationdb")
        engine.load_binding()
        database = engine.open(cluster_file=os.environ["FDB_CLUSTER_FILE"])
        return database, importlib.import_module("fdb").FDBError(1031)
    engine = importlib.import_module("fdbqueue.engines.embedded")
    path = f"/dev/shm/simulation-{uuid.uuid4().hex}.sqlite3"
    return engine.open(path, durability="normal"), engine.FDBError(1031)
