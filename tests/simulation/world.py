"""A run: the processes, the clients and the oracles over one cluster, from a plan and a seed."""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import logging
import random
from typing import Any

from tests.simulation import schedule as simulated
from tests.simulation import tasks, wrong
from tests.simulation.clients import STRANGE, Client, Ledger
from tests.simulation.cluster import Cluster, Database, Faults, FDBError
from tests.simulation.model import GONE, Model
from tests.simulation.programs import Program
from tests.simulation.promises import Promises
from tests.simulation.schedule import Found, Schedule
from tests.simulation.workload import PATTERN

_MODULES = ("service", "service.tools.examination", "service.tools.engine_copy", "exceptions")
#: Time that is left at the end for all leases, delays and handoffs to expire.
_REST_SECONDS = 400
#: For how long to wait for the last items: a rate may need a minute, and a minute more.
_DRAIN_SECONDS = 150
#: The tables in which no row is left when no item is: what is due, levels, ages, attempts,
#: leased and delayed items, chunks, handoffs and unique keys.
_EMPTY_TABLES = {bytes((byte,)) for byte in b"\x04\x06\x08\x09\x0a\x0b\x0d\x10\x13"}
_CHUNKS = b"\x0d"
_STRIKES = {"strike", "cancel"}
#: Of which kind workers are, and within which time others see them.
_WORKERS, _PRESENT_US = {"worker": "items", "family_worker": "items", "work": "tasks"}, 1_000_000
_FREE = {"max_leased": None, "rate": None}
_LIMITS = ("max_leased", "rate", "burst")
_REMOVALS = {"clear", "clear_state", "remove", "remove_many", "abort_group"}
#: If nothing is under way, and time is to jump by more than this, nobody may sleep who need not.
_JUMP_US = 1_500_000
#: How many seeds end by a copy to another cluster.
_COPIED = 0.1
#: At how many moments until then at which something is due it is looked for.
_DUES = 4
#: How many wrong calls each look makes at a queue.
_WRONG_CALLS = 3
#: How many bytes are before each third value of a queue with long ones.
_PADDING = 150_000
#: How many rows, items and queues the package deals with at once in some seeds.
_SMALL: dict[str, Any] = {"_PORTIONS": {"SUCCESSFUL": 2, "FAILED": 1}}
_SMALL |= {
    "MAX_EXPIRED": 4,
    "ROUND_ITEMS": 10,
    "MAX_RETURNED_BYTES": 400_000,
    "PORTION_BYTES": 3_000,
}
for _names in (
    "PAGE_ROWS ITERATED_ITEMS READ_AT_ONCE _READ_AT_ONCE _READS_AT_ONCE _AT_ONCE _NEXT_MOMENTS",
    "_FROM_EACH _ARMED_AT_ONCE _PUSHED_AT_ONCE _ROWS_AT_ONCE _AGES_AT_ONCE _LEVELS_AT_ONCE",
    "_REASONS_AT_ONCE _REMOVED_AT_ONCE _LONG_AT_ONCE _COUNTED_AT_ONCE _GAPS_AT_ONCE _MAX_PASSED",
    "_MAX_HINTS _MAX_KNOWN _MAX_REQUEUED _PAGE_ROWS _MEMBERS _KEYS_AT_ONCE _PARTS _MAX_KEPT",
    "_EXTENDED_TOGETHER _GIVEN_BACK_TOGETHER ABORTED_TOGETHER _LOOKED_UP_TOGETHER _SWEPT_AT_ONCE",
    "REQUESTS_A_TURN _HELPED_ITEMS _ROWS _FIRST_ITEMS",
):
    _SMALL |= dict.fromkeys(_names.split(), 2)
#: For so long an interrupt may have kept a waiter from being woken, as is documented.
_DISTURBED_US = 7_000_000
#: A wait makes so many transactions a second at most, beside some at its beginning.
_FREE_TRANSACTIONS, _TRANSACTIONS_A_SECOND = 400, 30


_programs: dict[tuple[str, bool], Program] = {}


def program(name: str, *, has_lines: bool = False) -> Program:
    """Return the copy of the package that processes of a name have."""
    if made := _programs.get((name, has_lines)):
        return made
    made = _programs[name, has_lines] = Program(name, has_lines=has_lines)
    for module in _MODULES:
        made[module]
    tasks.prepare(made)
    made.keep()
    return made


class Process:
    """A simulated process: a copy of the package, its database and its catalog.

    Attributes:
        name: What its threads are called by.
        errors: The errors that its calls raise.
    """

    def __init__(self, world: World, number: int, plan: dict[str, Any]) -> None:
        self.world, self.number = world, number
        self.name = f"p{number}"
        self.program = own = program(self.name, has_lines="lines" in world.plan)
        own.begin(f"{world.seed} {number}", 100 + number, int(plan.get("skew", 0) * 1e6))
        if "small" in world.plan:
            own.shrink(_SMALL)
        #: What operations it has measured, if its client is alone.
        self.reported: list[Any] = []
        if world.is_alone:
            own["service.instrumentation"].observers = (self,)
        unknown = own["tasks.compat"].TaskResultDoesNotExist
        self.errors = own["exceptions"].FdbQueueError, FDBError, unknown
        self.options: dict[str, Any] = plan.get("options", {})
        self.is_dead = False
        #: Whether it has neither died nor forked.
        self.is_whole = True
        self.databases: list[Database] = []
        self.open()

    def skews_us(self) -> tuple[int, int]:
        """Return by how much its clock is wrong at least and at most, in the plan."""
        plan, number = self.world.plan, self.number
        skews = [0, plan["processes"][number].get("skew", 0)]
        own = [one["ops"] for one in plan["clients"] if one.get("process", 0) == number]
        skews += [op["ahead"] for ops in own for op in ops if "ahead" in op]
        return int(min(skews) * 1e6), int(max(skews) * 1e6)

    def open(self) -> None:
        """Open the catalog."""
        self.database = Database(self.world.cluster, self.program)
        self.databases.append(self.database)
        self.catalog = open_catalog(self.program, self.database, self.world.plan, self.options)

    def operation(self, done: Any) -> None:
        """Note an operation that was measured."""
        self.reported.append(done)

    def engine_error(self, code: int) -> None:
        """Do nothing: a client who is alone meets none."""

    def set_options(self, options: dict[str, Any]) -> None:
        """Be a process with other settings from now on."""
        self.options = dict.fromkeys(self.world.plan["queues"], options)
        self.open()

    def die(self) -> None:
        """End at once: none of its threads goes on."""
        self.is_dead, self.is_whole = True, False
        for database in self.databases:
            database.close()
        simulated.running.kill(self._threads())

    def fork(self, client: Client) -> None:
        """Be the child of a fork that a client made: it has no thread but that of the client."""
        self.is_whole = False

        def end_others() -> None:
            simulated.running.kill([one for one in self._threads() if one is not client.thread])
            for database in self.databases:
                database.forget()

        self.program.fork(self.program.pid + 10, end_others)

    def _threads(self) -> list[Any]:
        threads = simulated.running.threads
        return [one for one in threads if one.process is self.program and not one.is_over]


def _limits_key(pattern: str, _: str = "") -> bytes:
    """Return the key of the row that has the limits of a queue, or of the members of a family."""
    return b"limits of " + pattern.encode()


def _padded(owner: Program) -> Any:
    """Return a codec of numbers that writes some of them as texts of more than one chunk."""
    made = owner["service.codecs"].JsonCodec()
    written = made._written

    def padded(value: Any, level: int) -> list[str]:
        return [" " * _PADDING * (type(value) is int and value % 3 == 0), *written(value, level)]

    made._written = padded
    return made


def open_catalog(
    owner: Program,
    database: Database,
    plan: dict[str, Any],
    changed: dict[str, Any],
    prefix: tuple[str, ...] = ("sim",),
) -> Any:
    """Return the catalog of a plan's queues for a process, with the options that it changes."""
    service, specs = owner["service"], []
    for name, options in plan["queues"].items():
        own = {**options, **changed.get(name, {})}
        if own.pop("stored", False) and changed.get(name) != _FREE:
            for limit in _LIMITS:
                own.pop(limit, None)
            own["limits_at"] = functools.partial(_limits_key, name)
        if not own.get("rate"):
            own.pop("burst", None)
        if own.pop("padded", False):
            own |= {"codec": _padded(owner), "max_value_bytes": 1_000_000}
        specs.append(service.QueueSpec(name, **own))
    if "tasks" not in plan:
        return service.Catalog(database, prefix, specs)
    backend = tasks.backend_of(owner, plan["tasks"])
    catalog = service.Catalog(database, prefix, [*specs, *backend.specs()])
    owner["tasks.compat"].task_backends["default"] = backend.over(catalog)
    return catalog


class World:
    """One run.

    Args:
        plan: What is done.
        seed: Of the order in which it is done, and of the faults.
    """

    def __init__(self, plan: dict[str, Any], seed: str) -> None:
        self.plan, self.seed = plan, seed
        self.schedule = simulated.running = Schedule(
            f"schedule {seed}", plan["switch"], lines=plan.get("lines", 0.0)
        )
        self.note = self.schedule.note
        faults, reserves = Faults(**plan["faults"]), plan.get("reserves", False)
        self.cluster = Cluster(f"cluster {seed}", faults, has_reservations=reserves)
        for name, options in plan["queues"].items():
            if options.get("stored"):
                row = json.dumps({limit: options.get(limit) for limit in _LIMITS}).encode()
                self.cluster.state.change([("set", _limits_key(name), row)], b"")
        self.cluster.on_transaction = self._count_transaction
        self.cluster.on_commit = self._see
        self.schedule.before_jump = self._before_jump
        self.ledger, self._dice = Ledger(), random.Random(f"wrong {seed}")
        self.slept_us = self._disturbed_until = self._mark = self._marked_us = self._checked = 0
        self.longest_us = int(self.cluster.faults.longest * 3e6)
        self.was_interrupted = self.was_unclear = False
        self.ops = ops = [op for client in plan["clients"] for op in client["ops"]]
        self.names = sorted({op[key] for op in ops for key in ("queue", "to") if key in op})
        self.verbs = {op["do"] for op in ops}
        #: Whether the plan has neither faults, strikes nor cancellations.
        faults = self.cluster.faults
        self.is_calm = not (faults.commit or faults.read or any({*op} & _STRIKES for op in ops))
        #: Whether nothing but the operations of one client happens, without a delay.
        self.is_alone = self.is_calm and not faults.slow and len(plan["clients"]) == 1
        skews = [one.get("skew", 0) for one in (*plan["processes"], *ops)]
        skews += [op["ahead"] for op in ops if "ahead" in op]
        self.is_skewed, self._ahead = any(skews), max([0, *skews])
        self.processes = [Process(self, at, one) for at, one in enumerate(plan["processes"])]
        self.clients = [
            Client(self, at, self.processes[one.get("process", 0)], one["ops"])
            for at, one in enumerate(plan["clients"])
        ]
        self.doctor = program("doctor")
        self.doctor.begin(f"{seed} doctor", 99)
        self._database = Database(self.cluster, self.doctor)
        self._catalogs: dict[str, Any] = {}
        #: Of what kind are queues of which clients have different settings.
        self.strange: dict[str, str] = {}
        self.tasks = self.schedule.tasks = tasks.Tasks(self, self.doctor, self._catalog({}))
        names = [*self.names, *(self.tasks.names()[1:] if "tasks" in plan else ())]
        self._promises = [Promises(self, self._catalog({}), name) for name in names]
        #: Of items; what tasks are is looked at by their own.
        self.model = None if "tasks" in plan else Model(self, self._catalog({}))

    def _catalog(self, options: dict[str, Any]) -> Any:
        """Return a catalog of the observer, with some options."""
        if repr(options) not in self._catalogs:
            made = open_catalog(self.doctor, self._database, self.plan, options)
            self._catalogs[repr(options)] = made
        return self._catalogs[repr(options)]

    def run(self) -> None:
        """Run to the end.

        Raises:
            Found: A promise was broken.
        """
        logging.disable(logging.CRITICAL)
        try:
            for client in self.clients:
                client.thread = self.schedule.start(client.name, client.process.program, client.run)
            for client in self.clients:
                self.schedule.join(client.thread)
            self._settle()
            if self._dice.random() < _COPIED:
                self._check_copy()
        finally:
            self.schedule.end()
            logging.disable(logging.NOTSET)

    # While calls run

    def progress(self) -> None:
        """Note that a call has ended."""
        self._mark, self._marked_us = self.cluster.transactions, self.schedule.now_us

    def check_empty(self, names: Any, began_us: int) -> None:
        """Check that a call which has found nothing could find that."""
        for promises in self._promises:
            if promises.name in self.expanded(names) and promises.was_filled(began_us):
                self.schedule.fail(f"{names} were found empty, and {promises.name} was not")

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
            self.schedule.fail(f"{begun} transactions in {seconds} s, no call ends: {waiting}")

    def _see(self, *commit: Any) -> None:
        for promises in self._promises:
            promises.see(*commit, self.schedule.now_us)
        self.tasks.see(*commit[:3])
        if self.model is not None:
            self.model.see(*commit)

    # When all wait

    def _before_jump(self, when: int) -> None:
        schedule = self.schedule
        is_short = when - schedule.now_us < _JUMP_US
        if is_short or self.cluster.is_sound or self.cluster.is_under_way():
            return
        with self._looking():
            if self.cluster.commits - self._checked >= 10:
                self._check_counts()
            if not self.is_skewed and schedule.now_us > self._disturbed_until:
                self._check_waiters(when)

    @contextlib.contextmanager
    def _looking(self) -> Any:
        was, self.cluster.is_sound = self.cluster.is_sound, True
        try:
            with self.schedule.quiet():
                yield
        finally:
            self.cluster.is_sound = was

    def _check_counts(self) -> None:
        self._checked = self.cluster.commits
        for promises in self._promises:
            promises.check_counts()
            queue = self._catalog({}).queue(promises.name)
            for _ in range(_WRONG_CALLS):
                wrong.check(queue, self._dice)
            if ready := self.cluster.state.between(*queue.parts.store.keys.bounds):
                wrong.check_corrupt(queue, self._dice, ready)
        self._check_names()
        self._check_formats()
        if self.is_calm and not (self.cluster.faults.slow or self.is_skewed):
            self._check_workers()
        if self.model is not None:
            self.model.look()
        if "tasks" in self.plan:
            self.tasks.check_wrong(self._dice)
            self.tasks.check()

    def _check_workers(self) -> None:
        """Check that others see the workers that are at work, and which queues were served."""
        presences = self._catalog({}).presences
        rows = {row.name: row for row in presences.read().rows if not row.is_lost}
        working = {one.name: one for one in self.clients if one.op and one.op["do"] in _WORKERS}
        if "fork" not in self.verbs and rows.keys() - {*working, "the end"}:
            raise Found(f"the workers are shown as {rows}, and {[*working]} work")
        for name, client in working.items():
            op, row = client.op, rows.get(name)
            if row is None and self.schedule.now_us - client.began_us > _PRESENT_US:
                raise Found(f"{name} works, and is not shown")
            kind, queues = _WORKERS[op["do"]], self.expanded(op.get("names") or [op["queue"]])
            if row and ((row.kind, row.threads) != (kind, op["threads"]) or row.age_seconds > 6):
                raise Found(f"{name} does {op}, and is shown as {row}")
            if row and not all(map(row.may_serve, queues)):
                raise Found(f"{name} works at {queues}, and is shown as {row}")
            served = presences.served_in(self._database.create_transaction()).rows
            if row and row.serves not in [one.serves for one in served]:
                raise Found(f"{name} works at {queues}, which nobody has served: {served}")

    def _check_formats(self) -> None:
        """Check that a queue to which strangers have pushed has one format."""
        service, state = self.doctor["service"], self.cluster.state
        for name in STRANGE if "stranger" in self.verbs else ():
            catalog = service.Catalog(self._database, ("sim",), [service.QueueSpec(name, "fifo")])
            formats = state.between(*catalog.queue(name).parts.store.tables.formats)
            if len(formats) > 1:
                raise Found(f"{name} has the formats {formats}")

    def _check_names(self) -> None:
        """Check which queues there are, and how many items they have together."""
        catalog, members = self._catalog({}), self.expanded([PATTERN])
        names = catalog.names()
        stored = {one for one in self.names if catalog.queue(one).counts().ready > 0}
        if names != sorted(names) or stored - {*names} or catalog.names(limit=1) != names[:1]:
            raise Found(f"the names are {names}, and {stored} have something")
        if catalog.names(after=names[0] if names else "") != names[1:]:
            raise Found(f"the names after the first of {names} are others")
        if not members:
            return
        several = catalog.several([PATTERN])
        size = sum(max(0, catalog.queue(one).size()) for one in members)
        shown = {queue.name for queue in several.queues()}
        if several.size() != size or (stored & {*members}) - shown:
            raise Found(f"{PATTERN} has {several.size()} in {shown}, not {size} in {stored}")
        several.held_until(to_lease=True)

    def _check_waiters(self, when: int) -> None:
        """Check that nobody sleeps while something can be taken, now and until time goes on."""
        schedule, read, now = self.schedule, self.cluster._read, self.schedule.now_us
        for client in self.clients:
            if client.waits is None or client.thread.is_gone:
                continue
            names, leases, since, options = client.waits
            for name in self.expanded(names):
                queue = self._catalog(options).queue(name)
                held, tables = queue.held_until(to_lease=leases), queue.parts.store.tables
                dues = self.cluster.state.between(*tables.dues)[:_DUES]
                moments = [since, *(tables.parse_due(key).moment for key in dues)]
                moments += [] if held is None else [int(held.timestamp() * 1e6)]
                for moment in moments:
                    schedule.now_us = max(now, moment + _JUMP_US)
                    if moment + _JUMP_US < when and (found := self._takeable(queue, leases)):
                        later = f"{found[0].value} in {(schedule.now_us - now) / 1e6} s"
                        raise Found(f"{client.name} sleeps though {name} has {later}")
                    schedule.now_us = now
        self.cluster._read = read

    def expanded(self, names: Any) -> list[str]:
        members = [one for one in self.names if one.startswith("m-") and PATTERN in names]
        return [*members, *[one for one in names if one != PATTERN and one not in members]]

    def _takeable(self, queue: Any, leases: bool) -> list[Any]:
        tr = self._database.create_transaction()
        try:
            return queue.lease_many(1, seconds=1, tr=tr) if leases else queue.pop_many(1, tr=tr)
        finally:
            tr.cancel()

    # The end

    def _settle(self) -> None:
        """Let everything come to rest; then account for every value."""
        schedule, self.cluster.is_sound = self.schedule, True
        schedule.note("all clients have ended")
        schedule.sleep(_REST_SECONDS)
        left = [one.name for one in schedule.threads if not (one.is_over or one.is_gone)]
        if left:
            raise Found(f"threads are left: {left}")
        gc.collect()
        watching = [one for key in self.cluster.watches for one in self.cluster.watching(key)]
        if watching and not self.was_interrupted:  # it may have been about to cancel one
            raise Found(f"{len(watching)} watches are left")
        with self._looking():
            self._check_counts()
        free: dict[str, Any] = {}
        if not self.plan["drain"]["limits"]:
            free = dict.fromkeys(self.plan["queues"], _FREE)
            for promises in self._promises:
                promises.most_leased = None
        catalog, present = self._catalog(free), dict[int, str]()
        for paused in (*catalog.families(), *map(catalog.queue, self.names)):
            paused.resume()
        self._drain(catalog, present)
        schedule.sleep(self._ahead)
        self._drain(catalog, present)
        if "tasks" in self.plan:
            self.tasks.settle(present)
        for queue in map(catalog.queue, self.names):
            self._check_rest(queue)
            for item in queue.iterate(state="dead") if queue.name != tasks.QUEUE else ():
                self._note_present(present, item, "dead")
        with self._looking():
            self._check_counts()
        for promises in self._promises:
            promises.check_end()
        self._account(present)

    def _check_copy(self) -> None:
        """Check that a copy to another cluster, which is ended at times, has all there is."""
        copying, target = self.doctor["service.tools.engine_copy"], Cluster("copy", Faults())
        target.is_sound, bounds = True, (b"\x02sim\x00", b"\x02sim\x01")
        sides = (
            copying.Side(self._database, "here"),
            copying.Side(Database(target, self.doctor), ""),
        )
        presences, census = self._catalog({}).presences, None

        def step(_: int) -> None:
            if self._dice.random() < 0.2:
                raise InterruptedError

        with self._looking():
            here = {
                key: self.cluster.state.values[key] for key in self.cluster.state.between(*bounds)
            }
            while here and census is None:
                copy = copying.EngineCopy(*sides, [bounds], b"mark", presences)
                with contextlib.suppress(InterruptedError):
                    copy.begin(step)
                    copy.copy(step)
                    census = copy.finish(step)
            if target.state.values != here or (census and census.keys != len(here)):
                raise Found(f"{census} was copied, of {len(here)} keys")
            with contextlib.suppress(copying.CopyRefused):
                copying.EngineCopy(*sides, [bounds], b"mark", presences).check()
                raise Found("what was copied may be copied again")

    def _drain(self, catalog: Any, present: dict[int, str], wait: float = _DRAIN_SECONDS) -> None:
        """Take all there is, members by their family; add the values, and where each was."""
        members = self.expanded([PATTERN])
        others = [one for one in self.names if one not in (*members, tasks.QUEUE)]
        sources = [(catalog.queue(one), [one]) for one in others]
        if members:
            sources.append((catalog.several([PATTERN]), members))
        for source, names in sources:
            items: list[Any] = [None]
            while items:
                self.progress()
                op = {"do": self.plan["drain"]["verb"], "names": names, "seconds": 60}
                with self._doing(op):
                    if op["do"] == "pop":
                        items = source.pop_many(3, wait=wait)
                    else:
                        items = source.lease_many(3, seconds=60, wait=wait)
                for item in items if op["do"] == "lease" else ():
                    with self._doing({"do": "ack"}, [item.value]):
                        catalog.queue(item.queue).ack(item)
                for item in items:
                    self._note_present(present, item, "ready")
            for queue in map(catalog.queue, names):
                limits = queue.parts.taker.limits
                is_limited = limits is not None and limits.max_leased is not None
                found, is_held = queue.peek(), is_limited and queue.counts().leased
                if found is not None and not is_held:
                    raise Found(f"{queue.name} has {found.value}, which takes do not find")

    def _doing(self, *given: Any) -> Any:
        return contextlib.nullcontext() if self.model is None else self.model.doing(*given)

    def _check_rest(self, queue: Any) -> None:
        """Check that nothing but dead letters is left."""
        counts, tables = queue.counts(), queue.parts.store.tables
        if counts.ready or counts.leased or counts.delayed:
            raise Found(f"{queue.name} has {counts} at the end")
        keys = [key[len(tables.bounds[0]) :] for key in self.cluster.state.between(*tables.bounds)]
        empty = _EMPTY_TABLES - ({_CHUNKS} if counts.dead else set())
        left = [key for key in keys if key[:1] in empty]
        if left:
            raise Found(f"{queue.name} has rows at the end: {left[:3]}")

    def _note_present(self, present: dict[int, str], item: Any, state: str) -> None:
        self.ledger.see(item.value, "the end")
        where, before = f"{state} in {item.queue}", present.get(item.value)
        before = before or self.ledger.gone.get(item.value)
        if before is not None:
            raise Found(f"value {item.value} is {where}, and was {before}")
        present[item.value] = where

    def _account(self, present: dict[int, str]) -> None:
        """Check that each value that was pushed is there, gone, or was perhaps taken.

        No client has seen what was removed from a handoff.
        """
        ledger, has_moves = self.ledger, "move" in self.verbs
        is_kept = "retention" not in self.plan.get("tasks", ())
        if not is_kept or self.verbs & _REMOVALS or (self.model is None and self.was_unclear):
            return
        missing = [
            (value, ledger.pushed[value][0])
            for value in ledger.sure
            if value not in present and value not in ledger.gone and not self._is_gone(value)
        ]
        for name in dict.fromkeys(queue for _, queue in missing):
            lost = [value for value, queue in missing if has_moves or queue == name]
            if not self.model or len(lost) > self.model.unseen(name, is_anywhere=has_moves):
                raise Found(f"values {lost} were lost")

    def _is_gone(self, value: int) -> bool:
        """Tell whether a value was perhaps removed from its queue, as the model says."""
        was = self.model.was(value) if self.model is not None else ()
        return any(one.table == GONE for one in was)
