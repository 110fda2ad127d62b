"""A run: the processes, the clients and the oracles over one cluster, from a plan and a seed."""

from __future__ import annotations

import contextlib
import gc
import logging
import math
from bisect import bisect_left
from typing import Any

from tests.simulation import schedule as simulated
from tests.simulation.clients import Client, Ledger
from tests.simulation.cluster import Cluster, Database, Faults, FDBError, KeyValue, State
from tests.simulation.programs import Program
from tests.simulation.schedule import Found, Schedule
from tests.simulation.workload import PATTERN

PREFIX = ("sim",)
_MODULES = ("service", "service.tools.upkeep", "exceptions")
#: Time that is left at the end for all leases, delays and handoffs to expire.
_REST_SECONDS = 400
#: For how long to wait for the last items: a rate may need a minute, and a minute more.
_DRAIN_SECONDS = 150
#: The tables in which no row is left when no item is: what is due, levels, ages, attempts,
#: leased and delayed items, chunks, handoffs and unique keys.
_EMPTY_TABLES = {bytes((byte,)) for byte in b"\x04\x06\x08\x09\x0a\x0b\x0d\x10\x13"}
#: If nothing is under way, and time is to jump by more than this, nobody may sleep who need not.
_JUMP_US = 1_500_000
#: For so long an interrupt may have kept a waiter from being woken, as is documented.
_DISTURBED_US = 7_000_000
#: A wait makes so many transactions a second at most, beside some at its beginning.
_FREE_TRANSACTIONS, _TRANSACTIONS_A_SECOND = 400, 30

_programs: dict[str, Program] = {}


def program(name: str) -> Program:
    """Return the copy of the package that processes of a name have."""
    if name not in _programs:
        made = _programs[name] = Program(name)
        for module in _MODULES:
            made[module]
        made.keep()
    return _programs[name]


class Process:
    """A simulated process: a copy of the package, its database and its catalog.

    Attributes:
        name: What its threads are called by.
        errors: The errors that its calls raise.
    """

    def __init__(self, world: World, number: int, plan: dict[str, Any]) -> None:
        self.world, self.number = world, number
        self.name = f"p{number}"
        self.program = own = program(self.name)
        own.begin(f"{world.seed} {number}", 100 + number, int(plan.get("skew", 0) * 1e6))
        self.errors = own["exceptions"].FdbQueueError, FDBError
        self.options: dict[str, Any] = plan.get("options", {})
        self.is_dead = False
        self.databases: list[Database] = []
        self.open()

    def open(self) -> None:
        """Open the catalog."""
        self.database = Database(self.world.cluster, self.program)
        self.databases.append(self.database)
        self.catalog = open_catalog(self.program, self.database, self.world.plan, self.options)

    def set_options(self, options: dict[str, Any]) -> None:
        """Be a process with other settings from now on."""
        self.options = {name: options for name in self.world.plan["queues"]}
        self.open()

    def die(self) -> None:
        """End at once: none of its threads goes on."""
        self.is_dead = True
        for database in self.databases:
            database.close()
        simulated.running.kill(self._threads())

    def fork(self, client: Client) -> None:
        """Be the child of a fork that a client made: it has no thread but that of the client."""

        def end_others() -> None:
            simulated.running.kill([one for one in self._threads() if one is not client.thread])
            for database in self.databases:
                database.forget()

        self.program.fork(self.program.pid + 10, end_others)

    def _threads(self) -> list[Any]:
        threads = simulated.running.threads
        return [one for one in threads if one.process is self.program and not one.is_over]


def open_catalog(
    owner: Program, database: Database, plan: dict[str, Any], changed: dict[str, Any]
) -> Any:
    """Return the catalog of a plan's queues for a process, with the options that it changes."""
    service, specs = owner["service"], []
    for name, options in plan["queues"].items():
        options = {**options, **changed.get(name, {})}
        if not options.get("rate"):
            options.pop("burst", None)
        specs.append(service.QueueSpec(name, **options))
    return service.Catalog(database, PREFIX, specs)


class World:
    """One run.

    Args:
        plan: What is done.
        seed: Of the order in which it is done, and of the faults.
    """

    def __init__(self, plan: dict[str, Any], seed: str) -> None:
        self.plan, self.seed = plan, seed
        self.schedule = simulated.running = Schedule(f"schedule {seed}", plan["switch"])
        self.cluster = Cluster(f"cluster {seed}", Faults(**plan["faults"]))
        self.cluster.on_transaction = self._count_transaction
        self.ledger = Ledger()
        self.raised = {1031, 1025}
        self.allowed = ("FormatMismatch",) if False else ()
        self.slept_us = 0
        self.longest_us = int(plan["faults"]["longest"] * 3e6)
        self._disturbed_until = self._awake_until = 0
        self._mark = self._marked_us = 0
        self.names = sorted(
            {op["queue"] for op in self._ops() if "queue" in op}
            | {op["to"] for op in self._ops() if "to" in op}
        )
        self.processes = [Process(self, at, one) for at, one in enumerate(plan["processes"])]
        self.clients = [
            Client(self, at, self.processes[one["process"]], one["ops"])
            for at, one in enumerate(plan["clients"])
        ]
        self.doctor_program = program("doctor")
        self.doctor_program.begin(f"{seed} doctor", 99)
        self.doctor_database = Database(self.cluster, self.doctor_program)
        self.doctor = open_catalog(self.doctor_program, self.doctor_database, plan, {})
        self._observers: dict[str, Any] = {}
        self._checked_commits = 0
        self.cluster.seen.append(self._see)
        self._verbs = {op["do"] for op in self._ops()}
        self._ahead = max(
            [
                *[one.get("skew", 0) for one in plan["processes"]],
                *[op["ahead"] for op in self._ops() if op["do"] == "clock"],
                0,
            ]
        )
        self._is_skewed = "clock" in self._verbs or any(
            one.get("skew") for one in plan["processes"]
        )
        self.schedule.before_jump = self._before_jump
        self._prepare_oracles()

    def _ops(self) -> list[dict[str, Any]]:
        return [op for client in self.plan["clients"] for op in client["ops"]]

    def note(self, text: str) -> None:
        """Add a line to the history."""
        self.schedule.note(text)

    def run(self) -> None:
        """Run to the end.

        Raises:
            Found: A promise was broken.
        """
        logging.disable(logging.CRITICAL)
        gc.disable()
        try:
            for client in self.clients:
                client.thread = self.schedule.start(client.name, client.process.program, client.run)
            for client in self.clients:
                self.schedule.join(client.thread)
            self._settle()
        finally:
            self.schedule.end()
            gc.enable()
            logging.disable(logging.NOTSET)

    # What the clients tell

    def progress(self) -> None:
        """Note that a call has ended."""
        self._mark, self._marked_us = self.cluster.transactions, self.schedule.now_us

    def disturb(self, seconds: float) -> None:
        """Note that a thread is struck, and sleeps for so many seconds."""
        until = self.schedule.now_us + int(seconds * 1e6) + _DISTURBED_US
        self._disturbed_until = max(self._disturbed_until, until)
        self.slept_us += int(seconds * 1e6)

    def _count_transaction(self) -> None:
        seconds = (self.schedule.now_us - self._marked_us) / 1e6
        begun = self.cluster.transactions - self._mark
        if begun > _FREE_TRANSACTIONS + _TRANSACTIONS_A_SECOND * seconds:
            waiting = [client.name for client in self.clients if client.waits]
            self.schedule.fail(
                f"{begun} transactions in {seconds:.3f} seconds while no call ends; "
                f"waiting: {waiting}"
            )

    # Oracles of each commit

    def _prepare_oracles(self) -> None:
        """Find out which promises can be checked at each commit, and where their keys are."""
        changed: set[str] = set()
        for process in self.plan["processes"]:
            changed |= set(process.get("options", {}))
        if "settings" in self._verbs:
            changed |= set(self.plan["queues"])
        self._indexes = [family.keys for family in self.doctor.families()]
        self._noted: dict[bytes, int] = {}
        self._places = []
        for name in self.names:
            queue = self.doctor.queue(name)
            store, options = queue.parts.store, queue.options
            is_strict = options.shards is None and not self._verbs & {
                "remove",
                "bury",
                "clear_state",
            }
            spec = PATTERN if name.startswith("m-") else name
            most = None if spec in changed else options.max_leased
            leased = store.tables.state_bounds(
                self.doctor_program["service.storage.tables"].State.LEASED
            )
            is_indexed = (
                spec == PATTERN and spec not in changed and not (options.max_leased or options.rate)
            )
            member = store.tables.member if is_indexed else None
            self._places.append((name, store, is_strict, leased, member, most))

    def _see(self, before: State, after: State, changes: dict[bytes, Any], request: Any) -> None:
        self._check_rows(after, changes, request)
        for name, store, is_strict, leased, member, most in self._places:
            begin, end = store.keys.bounds
            if member is not None and request is not None:
                self._check_index(name, store, member, after)
            touched = [key for key in changes if begin <= key < end]
            taken = [key for key in touched if key not in after.values]
            if taken and is_strict:
                self._check_order(name, begin, end, taken, after, request)
            if most is not None and any(leased[0] <= key < leased[1] for key in changes):
                keys = after.between(*leased)
                number = len([key for key in keys if key.endswith(b"\x00")])
                was = len([key for key in before.between(*leased) if key.endswith(b"\x00")])
                if number > most and number > was:
                    raise Found(f"{name} has {number} leases, max_leased is {most}")

    def _check_rows(self, after: State, changes: dict[bytes, Any], request: Any) -> None:
        """Check that nobody removes a row of an index that was written after it had read."""
        for keys in self._indexes:
            for key in changes:
                if not keys.bounds[0] <= key < keys.bounds[1]:
                    continue
                if key in after.values:
                    self._noted[key] = after.version
                elif self._noted.get(key, 0) > request.read_version:
                    name = next(iter(keys.rows([KeyValue(key, b"")]))).name
                    if keys.member(name).ready not in after.values:
                        raise Found(f"a row of {name} was removed that is newer than the take")

    def _check_index(self, name: str, store: Any, member: Any, state: State) -> None:
        """Check that a member without limits is found by its family from when it has something."""
        tables = store.tables
        if tables.paused in state.values or member.ready in state.values:
            return
        dues = [tables.parse_due(key) for key in state.between(*tables.dues)[:1]]
        moment = 0 if state.between(*store.keys.bounds) else dues[0].moment if dues else None
        if moment is None:
            return
        begin, stop = self.doctor.index(self.doctor.spec(name)).later(None, moment)
        noted = [
            key for key in state.between(begin, stop) if key[len(begin) + 8 :] == name.encode()
        ]
        if not noted:
            raise Found(f"{name} has something that its family does not find")

    def _check_order(
        self, name: str, begin: bytes, end: bytes, taken: list[bytes], after: State, request: Any
    ) -> None:
        """Check that what was taken was first, or last when the transaction read."""
        left = after.between(begin, end)
        if not left:
            return
        seen = self.cluster.state_at(request.read_version)
        last = (
            b""
            if seen is None
            else max([key for key in seen.between(begin, end) if key not in taken], default=b"")
        )
        wrong = [key for key in taken if key > left[0] and key < last]
        if wrong:
            raise Found(f"{name}: {wrong[0]!r} was taken before {left[0]!r}")

    # Oracles of a moment at which all wait

    def _before_jump(self, when: int) -> None:
        if self.cluster.is_sound:
            return
        schedule = self.schedule
        if when - schedule.now_us < _JUMP_US or self.cluster.is_under_way():
            return
        with self._looking():
            if self.cluster.commits - self._checked_commits >= 10:
                self._checked_commits = self.cluster.commits
                self._check_counts()
            if not self._is_skewed and schedule.now_us > self._disturbed_until:
                self._check_waiters()

    @contextlib.contextmanager
    def _looking(self) -> Any:
        was, self.cluster.is_sound = self.cluster.is_sound, True
        try:
            with self.schedule.quiet():
                yield
        finally:
            self.cluster.is_sound = was

    def _check_waiters(self) -> None:
        for client in self.clients:
            if client.waits is None or client.process.is_dead or client.thread.is_gone:
                continue
            names, to_lease, since, options = client.waits
            if self.schedule.now_us - since < _JUMP_US:
                continue
            for name in self._expanded(names):
                found = self._takeable(options, name, to_lease)
                if found is not None:
                    raise Found(f"{client.name} sleeps though {name} has {found}")

    def _expanded(self, names: Any) -> list[str]:
        found = [] if PATTERN not in names else [one for one in self.names if one.startswith("m-")]
        return [*dict.fromkeys([*found, *[one for one in names if one != PATTERN]])]

    def _takeable(self, options: dict[str, Any], name: str, to_lease: bool) -> Any:
        key = repr(options)
        if key not in self._observers:
            self._observers[key] = open_catalog(
                self.doctor_program, self.doctor_database, self.plan, options
            )
        queue = self._observers[key].queue(name)
        tr = self.doctor_database.create_transaction()
        try:
            take = queue.lease_many(1, seconds=1, tr=tr) if to_lease else queue.pop_many(1, tr=tr)
        finally:
            tr.cancel()
        return take[0].value if take else None

    def _check_counts(self) -> None:
        """Check that counts and indexes equal a scan."""
        for name in self.names:
            queue = self.doctor.queue(name)
            examiner = self.doctor_program["service.tools.upkeep"].Examiner(queue)
            try:
                examiner.stored_format()
            except self.doctor_program["exceptions"].FormatMismatch:
                raise Found(f"{name} has another format") from None
            census = examiner.census(math.inf)
            counts = queue.counts()
            if census.counts != counts or not census.is_exact:
                raise Found(f"{name}: counted {census.counts}, stored {counts}")
            levels = {} if queue.kind == "fifo" else dict(queue.by_priority())
            if levels and {**levels, **census.levels} != levels | {}:
                raise Found(f"{name}: levels {levels} are not {dict(census.levels)}")
            if examiner.strays():
                raise Found(f"{name} has strays")

    # The end

    def _settle(self) -> None:
        """Let everything come to rest; then account for every value."""
        schedule = self.schedule
        self.cluster.is_sound = True
        schedule.note("all clients have ended")
        for process in self.processes:
            process.program.skew_us = 0
        schedule.sleep(_REST_SECONDS)
        left = [one.name for one in schedule.threads if not (one.is_over or one.is_gone)]
        if left:
            raise Found(f"threads are left: {left}")
        gc.collect()
        watching = [one for key in self.cluster.watches for one in self.cluster.watching(key)]
        if watching:
            raise Found(f"{len(watching)} watches are left")
        with self._looking():
            self._check_counts()
        self.progress()
        catalog = self.doctor
        if not self.plan["drain"]["limits"]:
            none = {name: {"max_leased": None, "rate": None} for name in self.plan["queues"]}
            catalog = open_catalog(self.doctor_program, self.doctor_database, self.plan, none)
            self._places = [(*place[:-1], None) for place in self._places]
        for family in catalog.families():
            family.resume()
        for name in self.names:
            catalog.queue(name).resume()
        present: dict[int, str] = {}
        self._drain(catalog, present)
        schedule.sleep(self._ahead)
        self._drain(catalog, present)
        self._check_rest(catalog, present)
        with self._looking():
            self._check_counts()
        self._account(present)

    def _drain(self, catalog: Any, present: dict[int, str]) -> None:
        """Take all there is, members by their family; add the values, and where each was."""
        members = [name for name in self.names if name.startswith("m-")]
        sources = [(catalog.queue(one), [one]) for one in self.names if one not in members]
        if members:
            sources.append((catalog.several([PATTERN]), members))
        for source, names in sources:
            items: list[Any] = [None]
            while items:
                self.progress()
                if self.plan["drain"]["verb"] == "pop":
                    items = source.pop_many(3, wait=_DRAIN_SECONDS)
                else:
                    items = source.lease_many(3, seconds=60, wait=_DRAIN_SECONDS)
                    for item in items:
                        catalog.queue(item.queue).ack(item)
                for item in items:
                    self._note_present(present, item, "ready")
            for queue in map(catalog.queue, names):
                found, is_held = queue.peek(), queue.options.max_leased and queue.counts().leased
                if found is not None and not is_held:
                    raise Found(f"{queue.name} has {found.value}, which takes do not find")

    def _check_rest(self, catalog: Any, present: dict[int, str]) -> None:
        """Check that nothing but dead letters is left, and add these."""
        for name in self.names:
            queue = catalog.queue(name)
            counts = queue.counts()
            if counts.ready or counts.leased or counts.delayed:
                raise Found(f"{name} has {counts} at the end")
            tables = queue.parts.store.tables
            left = [
                key[len(tables.ready) - 1 :] for key in self.cluster.state.between(*tables.bounds)
            ]
            left = [key for key in left if key[:1] in _EMPTY_TABLES]
            if left:
                raise Found(f"{name} has rows at the end: {left[:3]}")
            for item in queue.iterate(state="dead"):
                self._note_present(present, item, "dead")

    def _note_present(self, present: dict[int, str], item: Any, state: str) -> None:
        self.ledger.see(item.value, "the end")
        if item.value in present:
            raise Found(f"value {item.value} is there twice: {present[item.value]}, {item.queue}")
        present[item.value] = f"{state} in {item.queue}"
        if item.value in self.ledger.gone:
            raise Found(
                f"value {item.value} was {self.ledger.gone[item.value]}, "
                f"and is {present[item.value]}"
            )

    def _account(self, present: dict[int, str]) -> None:
        ledger = self.ledger
        missing: dict[str, list[int]] = {}
        for value in ledger.sure:
            if value in present or value in ledger.gone or ledger.perhaps_gone[value] > 0:
                continue
            queue, pushed_us = ledger.pushed[value]
            cleared = any(
                (one.queue == queue or "move" in self._verbs)
                and (one.ended_us is None or pushed_us <= one.ended_us)
                for one in ledger.clearings
            )
            if not cleared:
                missing.setdefault(queue, []).append(value)
        every = [value for values in missing.values() for value in values]
        if len(every) > sum(taking.count for taking in ledger.takings):
            raise Found(f"values {every} were lost")
        if "move" in self._verbs:
            return
        for queue, values in missing.items():
            takings = [one for one in ledger.takings if queue in self._expanded(one.queues)]
            if len(values) > sum(one.count for one in takings):
                raise Found(f"values {values} of {queue} were lost")
