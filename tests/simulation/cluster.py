"""A cluster in memory: the embedded engine's transactions over versions of a dictionary.

Reads, writes and conflicts of a transaction are worked out by the embedded engine's own code, which
answers as a real cluster does; here are the store beneath it, the commits and the watches. A commit
is an event: once sent it takes effect, or is refused, whatever becomes of the thread that waits.
"""

from __future__ import annotations

import itertools
import random
import weakref
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.simulation import schedule as simulated
from tests.simulation.locks import EngineLock, Waited
from tests.simulation.programs import Program

#: How long versions are kept: what is read at an older one fails.
_LIFE_US = 5_000_000
_CLIENT = Program("client", EngineLock)
_transaction = _CLIENT["engines.embedded.transaction"]
_snapshots = _CLIENT["engines.embedded.snapshots"]
_state = _CLIENT["engines.embedded.transaction_state"]
_futures = _CLIENT["engines.embedded.futures"]
_writes = _CLIENT["engines.embedded.write_buffer"]
_keys = _CLIENT["engines.embedded.keys"]
KeyValue = _futures.KeyValue
KeySelector = _keys.KeySelector
FDBError = _CLIENT["engines.embedded.fdb_errors"].FDBError
_CLIENT.keep()


class State(NamedTuple):
    """What is stored at a version: the keys in order, and the values."""

    version: int
    keys: list[bytes]
    values: dict[bytes, bytes]

    def between(self, begin: bytes, end: bytes) -> list[bytes]:
        """Return the keys of a range."""
        return self.keys[bisect_left(self.keys, begin) : bisect_left(self.keys, end)]

    def change(
        self, mutations: list[Any], stamp: bytes
    ) -> tuple[dict[bytes, bytes | None], list[bytes]]:
        """Apply mutations, in order; return what the keys held before, and the stamped keys."""
        changes: dict[bytes, bytes | None] = {}
        stamped = []
        for name, key, param in mutations:
            if name == "clear_range":
                for one in self.between(key, param):
                    self._put(one, None, changes)
            elif name == "set_versionstamped_key":
                stamped.append(_writes.stamped(key, stamp))
                self._put(stamped[-1], param, changes)
            else:
                value = param if name == "set" else None
                if name == "set_versionstamped_value":
                    value = _writes.stamped(param, stamp)
                elif name in _writes.OPERATIONS:
                    value = _writes.OPERATIONS[name](self.values.get(key), param)
                self._put(key, value, changes)
        return changes, stamped

    def _put(self, key: bytes, value: bytes | None, changes: dict[bytes, bytes | None]) -> None:
        before = self.values.get(key)
        changes.setdefault(key, before)
        if value is None:
            if before is not None:
                del self.values[key], self.keys[bisect_left(self.keys, key)]
            return
        if before is None:
            insort(self.keys, key)
        self.values[key] = value


class Faults(NamedTuple):
    """How probable what is: of each commit, read and answer."""

    commit: float = 0.0
    read: float = 0.0
    slow: float = 0.0
    longest: float = 0.02
    watch: float = 0.0


#: Codes of commits that fail, and whether these take effect: before, not at all, or later.
_COMMITS = [(code, "") for code in (1020, 1007, 1009, 1037)] + [
    (code, effect) for code in (1021, 1031, 1039) for effect in ("", "now", "late")
]
_COMMITS.remove((1021, "late"))  # after it a commit is not under way any more
_READS = [1007, 1009, 1037, 1007, 1031]


class Cluster:
    """The database of one run.

    Attributes:
        state: What is stored now.
        transactions, reads, commits, refusals: How many there were.
        on_transaction: Called when a transaction begins.
        on_commit: Called with what was stored before and after a commit, its changes and itself.
    """

    def __init__(self, seed: str, faults: Faults, *, has_reservations: bool = False) -> None:
        _CLIENT.begin(seed, 0)
        self.dice = random.Random(seed)
        self.faults, self.has_reservations = faults, has_reservations
        self.reservations = Reservations(has_reservations)
        self.is_sound = False
        self.state = State(self._version(), [], {})
        self.states: deque[State] = deque([self.state])
        self.transactions = self.reads = self.commits = self.refusals = 0
        self.watches: dict[bytes, dict[int, weakref.ref[Watch]]] = {}
        self.numbers = itertools.count()
        self._read = 0
        self.on_transaction: Callable[[], None] = lambda: None
        self.on_commit: Callable[[State, State, dict[bytes, Any], Any], None] = lambda *_: None
        #: How many watches are about to report a change.
        self._telling = 0
        self._written: deque[tuple[int, Any]] = deque()

    def _version(self) -> int:
        return simulated.running.now_us - simulated.START_US + 1_000_000_000

    def read_version(self) -> int:
        """Return the version at which who begins reads; without reservations it goes with time."""
        now = self.state.version if self.has_reservations else self._version()
        self._read = max(self._read, self.state.version, now)
        return self._read

    # Latency and faults

    def draw(self, rate: float) -> bool:
        """Tell whether something happens whose probability is given."""
        return not self.is_sound and rate > 0 and self.dice.random() < rate

    def latency_us(self) -> int:
        """Return how long a message takes."""
        if self.is_sound:
            return 1
        if self.draw(self.faults.slow):
            return int(self.dice.random() * self.faults.longest * 1e6)
        return self.dice.randrange(1, 1000) if self.dice.random() < 0.5 else 0

    def wait(self) -> None:
        """Let the current thread wait as long as a message takes."""
        latency, me = self.latency_us(), simulated.running.current
        me.is_at_engine = True
        simulated.running.sleep(latency / 1e6)
        me.is_at_engine = False

    def is_under_way(self) -> bool:
        """Tell whether a message is on its way."""
        waits = any(one.is_at_engine and not one.is_gone for one in simulated.running.threads)
        return waits or self._telling > 0

    def cost(self) -> tuple[int, ...]:
        """Return what there was of transactions, reads and refusals, and the microseconds."""
        return self.transactions, self.reads, self.refusals, simulated.running.now_us

    # Commits

    def send(self, request: Any, done: Callable[[], None]) -> None:
        """Send a commit; call a function once it is answered."""
        schedule, (code, effect) = simulated.running, (0, "now")
        if self.draw(self.faults.commit):
            code, effect = self.dice.choice(_COMMITS)
        arrives = schedule.now_us + self.latency_us()
        answers = arrives + self.latency_us()
        if effect == "late":
            arrives = answers + self.dice.randrange(1, 3_000_000)

        def arrive() -> None:
            if effect:
                self.apply(request)

        def answer() -> None:
            if code and (not request.error or code == 1031):
                schedule.note(f"commit fails with {code}, effect: {effect or 'none'}")
                request.refusal = request.error = None
                request.end(FDBError(code))
            else:
                request.end(request.error)
            done()

        schedule.at(arrives, arrive)
        schedule.at(answers, answer)

    def apply(self, request: Any) -> None:
        """Let a commit take effect, or refuse it."""
        before = self.state
        if request.read_version is None:
            request.read_version = before.version
        request.refusal = self._refusal(request)
        if request.on_written is not None:
            request.on_written()
        if request.refusal is not None:
            request.error = FDBError(request.refusal)
            self.refusals += 1
            return
        version = request.version = max(before.version, self._read, self._version() - 1) + 1
        request.stamp = version.to_bytes(8, "big") + b"\x00\x00"
        self.state = after = State(version, [*before.keys], {**before.values})
        changes, stamped = after.change(request.mutations, request.stamp)
        request.stamped_ranges = [(key, _keys.after(key)) for key in stamped]
        ranges = _keys.RangeSet.of([*request.write_ranges, *request.stamped_ranges])
        self._written.append((version, ranges))
        self.states.append(after)
        for kept in (self.states, self._written):
            while kept[0][0] < version - 2 * _LIFE_US:  # a version is first
                kept.popleft()  # a deque
        self.commits += 1
        for key in [key for key in changes if key in self.watches]:
            for watch in self.watching(key):
                self.look(watch)
        self.on_commit(before, after, changes, request)

    def _refusal(self, request: Any) -> int | None:
        if not request.read_ranges or request.read_version >= self.state.version:
            return None
        if request.read_version < self._version() - _LIFE_US:
            return 1007
        for version, written in reversed(self._written):
            if version <= request.read_version:
                return None
            if any(written.intersects(begin, end) for begin, end in request.read_ranges):
                return 1020
        return None

    # Watches

    def watching(self, key: bytes) -> list[Watch]:
        """Return the watches of a key that somebody has; the others are cancelled."""
        found = [watch() for watch in self.watches.get(key, {}).values()]
        return [watch for watch in found if watch is not None]

    def look(self, watch: Watch) -> None:
        """Let a watch report a change, if there is one, after a while."""
        if self.state.values.get(watch.key) != watch.value:
            when = simulated.running.now_us + 1 + self.latency_us()
            self._telling += 1
            simulated.running.at(when, watch.tell)

    def state_at(self, version: int) -> State | None:
        """Return what was stored at a version, None if that is too old."""
        for state in reversed(self.states):
            if state.version <= version:
                return state
        return None


class Watch(_futures.SignalledFuture):  # of a copy
    """A watch of one key."""

    def __init__(self, database: Database, key: bytes, value: bytes | None) -> None:
        super().__init__()
        self.key, self.value, self.database = key, value, database
        self._number = next(database.cluster.numbers)

    def activate(self) -> None:
        """Set it: its transaction has committed."""
        cluster = self.database.cluster
        if not self.is_ready():
            cluster.watches.setdefault(self.key, {})[self._number] = weakref.ref(self)
            if cluster.draw(cluster.faults.watch):
                when = simulated.running.now_us + cluster.dice.randrange(1, 2_000_000)
                simulated.running.at(when, lambda: self.fire(FDBError(1009)))
            cluster.look(self)

    def on_ready(self, callback: Callable[[Any], object]) -> None:
        """Call a function once it is ready; until then it is not cancelled."""
        if not self.is_ready():
            self.database.kept[self] = None
        super().on_ready(callback)

    def tell(self) -> None:
        """Report a change."""
        self.database.cluster._telling -= 1
        self.fire()

    def fire(self, error: Exception | None = None) -> None:
        """Report a change, or an error, by the network thread of its process."""
        if self.drop():
            self.database.post(lambda: self.complete(error))

    def drop(self) -> bool:
        """Forget it; tell whether it was set."""
        self.database.kept.pop(self, None)
        watches = self.database.cluster.watches
        found = watches.get(self.key, {}).pop(self._number, None)
        if not watches.get(self.key, True):
            del watches[self.key]
        return found is not None

    def cancel(self) -> None:
        """Cancel it."""
        self.drop()
        super().cancel()


class _Snapshot:
    """What takes the place of :class:`fdbqueue.engines.embedded.snapshots.Snapshot`."""

    def __init__(self, cluster: Cluster, state: State, version: int) -> None:
        self._cluster, self._state, self.version = cluster, state, version
        self._opened_us = simulated.running.now_us

    @property
    def expired(self) -> bool:
        return simulated.running.now_us - self._opened_us > _LIFE_US

    def release(self) -> None:
        """Do nothing: it has nothing to give back."""

    def get(self, key: bytes) -> bytes | None:
        self._check()
        return self._state.values.get(key)

    def rows(self, begin: bytes, end: bytes, limit: int, *, reverse: bool) -> list[Any]:
        self._check()
        keys, values = self._state.between(begin, end), self._state.values
        chosen = keys[: -limit - 1 : -1] if reverse else keys[:limit]
        return [(key, values[key]) for key in chosen]

    def query(self, sql: str, parameters: tuple[Any, ...]) -> list[Any]:
        if sql == _snapshots.GET:
            value = self.get(*parameters)
            return [] if value is None else [(value,)]
        return self.rows(*parameters, reverse=sql == _snapshots.REVERSE)

    def _check(self) -> None:
        simulated.running.turn()
        self._cluster.reads += not simulated.running.is_quiet
        if self.expired:
            raise FDBError(1007)
        if self._cluster.draw(self._cluster.faults.read):
            code = self._cluster.dice.choice(_READS)
            simulated.running.note(f"read fails with {code}")
            raise FDBError(code)


class Reservation(NamedTuple):
    """A reservation of one attempt."""

    number: int
    is_contended: bool


class Reservations(Waited):
    """Who may go on after a conflict, as on the embedded engine: one attempt at a time.

    Args:
        are_there: Whether the engine has reservations.
    """

    is_strict = False

    def __init__(self, are_there: bool) -> None:
        super().__init__()
        self._are_there, self._owner, self._numbers = are_there, 0, itertools.count(1)

    def open(self) -> Reservations | None:
        """Return something if there are reservations."""
        return self if self._are_there else None

    def reserve(self) -> Reservation | None:
        """Wait for a reservation, but not for long."""
        is_contended = self._owner > 0
        self._await(lambda: not self._owner, 0.2)
        self._owner = next(self._numbers)
        return Reservation(self._owner, is_contended)

    def let_pass(self, deadline: float | None) -> None:
        """Let those commit first that have a reservation."""
        simulated.running.turn()

    def hold(self, number: int) -> None:
        """Do nothing: who commits holds no more than the reservation."""

    def release(self, number: int) -> None:
        """End a reservation."""
        if number == self._owner:
            self._owner = 0
            self._wake()


class Database:
    """The cluster as one process sees it.

    Args:
        cluster: The cluster.
        program: The process.
    """

    def __init__(self, cluster: Cluster, program: Program) -> None:
        self.cluster, self._program = cluster, program
        self._defaults = _state.OptionValues()
        #: The watches that somebody waits for.
        self.kept: dict[Watch, None] = {}
        self._posted: list[Callable[[], None]] = []
        self._network: Any = None
        self.turn = self
        self.reservations = cluster.reservations
        self.has_reservations = self.commits_one_at_a_time = cluster.has_reservations

    def create_transaction(self) -> Any:
        """Return a new transaction."""
        simulated.running.turn()
        if not simulated.running.is_quiet:
            self.cluster.transactions += 1
            self.cluster.on_transaction()
        return _transaction.Transaction(self, self, self, self, self._defaults)

    def post(self, work: Callable[[], None]) -> None:
        """Let the network thread of the process do something."""
        schedule = simulated.running
        self._posted.append(work)
        if self._network is None or self._network.is_over:
            self._network = schedule.start(
                f"{self._program.name}/network", self._program, self._work
            )

    def forget(self) -> None:
        """Be the database of a forked process, or of none: without a thread and watches."""
        self._posted, self._network = [], None
        for watch in [one for key in [*self.cluster.watches] for one in self.cluster.watching(key)]:
            if watch.database is self:
                watch.drop()

    def close(self) -> None:
        """Be the database of a process that has died."""
        self.forget()
        self.post = lambda _: None  # it has no threads any more

    def _work(self) -> None:
        while self._posted:
            self._posted.pop(0)()

    # As a store

    def reserve(self, deadline: float | None) -> Reservation | None:
        """Wait for a reservation."""
        return self.reservations.reserve()

    def snapshot(self) -> _Snapshot:
        """Begin to read."""
        self.cluster.wait()
        found = _Snapshot(self.cluster, self.cluster.state, self.cluster.read_version())
        self.cluster.wait()
        return found

    def snapshot_at(self, version: int) -> _Snapshot:
        """Begin to read at a version."""
        state = self.cluster.state_at(version)
        if state is None:
            raise FDBError(1007)
        return _Snapshot(self.cluster, state, version)

    def has_synced(self, _: int) -> bool:
        """Tell that a cluster has on its disks what it lets be read."""
        return True

    # As a committer

    def submit(self, request: Any) -> None:
        """Do nothing: it is sent when somebody waits for it."""

    def wait(self, request: Any) -> None:
        """Send a commit, and wait for the answer."""
        schedule, me = simulated.running, simulated.running.current
        schedule.turn()
        if self.cluster.is_sound and schedule.is_quiet:
            self.cluster.apply(request)
            request.end(request.error)
            return
        if hasattr(request, "was_sent"):
            request.end(FDBError(1021))
        elif not request.done:
            request.was_sent, request.program = True, self._program
            self.cluster.send(request, lambda: schedule.wake(me))
            me.is_at_engine = True
            while not request.done:
                schedule.block()
            me.is_at_engine = False

    def withdraw(self, request: Any, error: Exception) -> None:
        """End a commit for who waits; it may be under way all the same."""
        request.end(error)

    # As a registry of watches

    def create(self, database: Database, key: bytes, value: bytes | None) -> Watch:
        """Return a watch that is not set yet."""
        return Watch(database, key, value)

    def activate(self, watch: Watch, version: int) -> None:
        """Set a watch."""
        watch.activate()
