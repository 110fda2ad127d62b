"""A plain queue beside each queue: what every item is, worked out from what clients asked for.

At each commit, in the order of commits, the keys say which items have moved: from which table to
which. Each such move must have a cause: something that a client asks for at that moment, or whose
outcome it does not know, or a lease or a delay that is over. What the move makes of the item
(attempts, ends, reasons, failures) follows from its cause, and is never read from the row. If two
causes are possible, the item is one of two *things*, until somebody sees which. Moments are spans,
because a client looks at its clock between its call and the commit.

When all wait, an observer looks at every item in all ways there are, and each answer is compared.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.simulation import schedule as simulated
from tests.simulation.cluster import State
from tests.simulation.schedule import UNCLEAR, Found

if TYPE_CHECKING:
    from tests.simulation.world import Process, World

READY, LEASED, DELAYED, DEAD = "ready", "leased", "delayed", "dead"
#: Where an item is that was popped, or is in a handoff, from which it may come back.
AWAY = "away"
#: Where it is once it is removed for good.
GONE = "gone"
_HIDDEN = (LEASED, DELAYED, DEAD)
_EXPIRED, _GIVEN_BACK = "its lease expired", "it was given back"
_KEPT = 3
_ENDS = {"ack": GONE, "requeue": READY}
_PUSHES = ("push", "push_many", "push_batch")
_TAKES = ("pop", "lease", "family", "move")
#: What an item may be at most; a run in which it may be more says nothing.
_MOST_THINGS = 100


class Span(NamedTuple):
    """When something was: between two moments, both included."""

    low: float
    high: float

    def later(self, seconds: float) -> Span:
        """Return it after some seconds."""
        return Span(self.low + int(seconds * 1e6), self.high + int(seconds * 1e6))


class Thing(NamedTuple):
    """What an item may be."""

    value: Any
    table: str
    priority: Any
    pushed: Span | None
    attempts: int = 0
    #: When the lease or the delay ends, or when it died; when the lease began.
    until: Span | None = None
    began: Span | None = None
    reason: str | None = None
    worker: str | None = None
    #: What its token ends with.
    lease: str | None = None
    #: Attempt, reason, worker and moment of each failure.
    failures: tuple[tuple[int, str, str | None, Span], ...] = ()
    #: Its unique key, and until when; whether it has that now, None for perhaps.
    unique: tuple[str, str] | None = None
    has_key: bool | None = False

    def put(self, table: str, **facts: Any) -> Thing:
        """Return it in a table, without what it had in another."""
        fresh: dict[str, Any] = dict.fromkeys(("until", "began", "reason", "worker", "lease"))
        if self.unique is not None:
            is_freed = table in (DEAD, GONE) or (table == LEASED and self.unique[1] == "ready")
            # who requeues it takes the key again, if that is free
            is_back = table == READY and self.table in (LEASED, AWAY) and not self.has_key
            fresh["has_key"] = False if is_freed else None if is_back else self.has_key
            if table == AWAY and self.has_key:
                fresh["has_key"] = None  # it was popped, or is in a handoff
        return self._replace(**{"table": table, **fresh, **facts})


@dataclass(eq=False)
class Intent:
    """What a client is about to do: an operation, since when, and with which values, if known.

    Attributes:
        program: The process of the client.
        may_take: Whether it may have taken items that no client sees.
        returns_to: The process that then is to requeue them, if its thread was interrupted in line.
    """

    op: dict[str, Any]
    began_us: int
    values: frozenset[Any] | None
    program: Any
    may_take: bool = True
    returns_to: Process | None = None


class Model:
    """The queues of one run.

    Args:
        world: The run.
        catalog: Opens the queues for the observer.
    """

    def __init__(self, world: World, catalog: Any) -> None:
        self.world = world
        #: What clients do now, and what they have left with an unknown outcome.
        self.intents: dict[Intent, None] = {}
        self.queues = {name: QueueModel(self, catalog.queue(name)) for name in world.names}
        #: By how much the clocks of processes are wrong at least and at most.
        self.skews = {one.program: one.skews_us() for one in world.processes}
        #: The process whose commit is looked at.
        self.committer: Any = None
        sleeps = max((op.get("strike", {}).get("sleeps", 0) for op in world.ops), default=0)
        #: By how much a commit may come later than the look at the clock before it.
        late_us = 3_000_000 if world.cluster.faults.commit else 0
        self.slack_us = world.longest_us + int(sleeps * 1e6) + late_us
        #: What each value was, since when.
        self._history: dict[Any, list[tuple[int, list[Thing]]]] = {}
        #: How many items have left a table since a client who is alone began what it does.
        self.left: Counter[str] = Counter()

    def begin(
        self, op: dict[str, Any], values: Iterable[Any] | None = None, program: Any = None
    ) -> Intent:
        """Note what a client of a process is about to do, or the observer."""
        known = None if values is None else frozenset(values)
        program = program or self.world.doctor
        intent = Intent(op, simulated.running.now_us, known, program)
        self.intents[intent] = None
        return intent

    @contextlib.contextmanager
    def doing(self, op: dict[str, Any], values: Iterable[Any] | None = None) -> Iterator[None]:
        """Note what the observer does."""
        intent = self.begin(op, values)
        yield
        self.end(intent)

    def end(self, intent: Intent) -> None:
        """Note that it is done, and can have no effect any more."""
        self.intents.pop(intent, None)

    def see(self, before: State, after: State, changes: dict[bytes, Any], request: Any) -> None:
        """Let the items move that a commit has moved, those first that leave."""
        self.committer = getattr(request, "program", self.world.doctor)
        moved = {name: queue.moved(changes) for name, queue in self.queues.items()}
        for name, places in moved.items():
            for place in places:
                self.queues[name].move(place, before, after, is_arrival=False)
        for name, places in moved.items():
            for place in places:
                self.queues[name].move(place, before, after, is_arrival=True)

    def note(self, value: Any, things: list[Thing]) -> None:
        """Note what an item has become."""
        self._history.setdefault(value, []).append((simulated.running.now_us, things))

    def was(self, value: Any, since_us: float = math.inf) -> list[Thing]:
        """Return what a value was last, and before that since a moment."""
        found: list[Thing] = []
        for moment, things in reversed(self._history.get(value, ())):
            found += things
            if moment < since_us:
                break
        return found

    def answer(self, item: Any, began_us: int) -> None:
        """Compare an item that a call has returned with what it was while that ran."""
        old = self.was(item.value, began_us)
        if not any(_is_answer(one, item) for one in old):
            simulated.running.fail(f"{item} was returned, which was {old}")
        if item.lease is not None and (queue := self.queues.get(item.queue)):
            queue.narrow(item)

    def found(self, item: Any, op: dict[str, Any], began_us: int) -> None:
        """Check that an item which a push has found had its key at some time while that ran."""
        key, old = op.get("unique"), self.was(item.value, began_us)
        had = [
            one for one in old if one.unique and one.unique[0] == key and one.has_key is not False
        ]
        if not any(_is_answer(one, item) for one in had):
            simulated.running.fail(f"{op} found {item}, which was {old}")

    def lost(self, items: Iterable[Any], began_us: int) -> None:
        """Check that leases which a call says to be lost were not held all the time."""
        for item in items:
            secret = item.lease.rpartition(".")[2]
            if all(one.lease == secret for one in self.was(item.value, began_us)):
                simulated.running.fail(f"the lease of {item} is said to be lost, and is held")

    def unseen(self, name: str, *, is_anywhere: bool) -> int:
        """Return how many items of a queue pops may have taken whose outcome nobody knows."""
        faults, found = self.world.cluster.faults, 0
        for intent in self.intents:
            op, back = intent.op, intent.returns_to
            # what was taken for who left is requeued
            is_back = back is not None and back.is_whole and not (faults.commit or faults.read)
            names = self.world.expanded(op.get("names") or [op.get("queue")])
            if "pop" in op["do"] and intent.may_take and not is_back:
                found += op.get("count", 1) * (is_anywhere or name in names)
        return found

    def look(self) -> None:
        """Compare everything with what the observer sees."""
        for queue in self.queues.values():
            queue.look()

    def about(self, name: str, value: Any) -> Iterator[Intent]:
        """Yield what may be done to an item of a queue."""
        for intent in [*self.intents]:
            if intent.values is None or value in intent.values:
                names = intent.op.get("names")
                at = self.world.expanded(names) if names else [intent.op.get("queue")]
                if name in at or intent.values is not None:
                    yield intent

    def span(self, began_us: float, *programs: Any) -> Span:
        """Return when processes, or who commits, may have looked at their clocks since a moment."""
        skews = [self.skews.get(one, (0, 0)) for one in (*programs, self.committer)]
        low, high = (chosen(one[at] for one in skews) for at, chosen in ((0, min), (1, max)))
        return Span(began_us + low, simulated.running.now_us + high)


class QueueModel:
    """One queue, as lists."""

    def __init__(self, model: Model, queue: Any) -> None:
        self._model, self._queue, self._world = model, queue, model.world
        self._store, self._tables = queue.parts.store, queue.parts.store.tables
        self._keys = self._store.keys
        states = model.world.doctor["service.storage.tables"]
        self._states = {name: state for state, name in states.STATE_NAMES.items()}
        self._ready = self._keys.bounds
        self._hidden = {
            one: self._tables.state_bounds(state) for one, state in self._states.items()
        }
        self._keeps = self._store.codec.keeps_metadata
        self._most = queue.options.max_attempts or math.inf
        self._is_strict = queue.options.shards is None
        self.things: dict[bytes, list[Thing]] = {}

    # Moves

    def moved(self, changes: dict[bytes, Any]) -> list[bytes]:
        """Return the places of which a commit has changed something."""
        found = {}
        for key in changes:
            if self._ready[0] <= key < self._ready[1]:
                found[self._keys.place_of(key)] = None
            elif key.startswith(self._tables.bounds[0]):
                for name, (begin, end) in self._hidden.items():
                    if begin <= key < end:
                        found[self._tables.hidden_place(self._states[name], key)[0]] = None
        return [*found]

    def move(self, place: bytes, before: State, after: State, *, is_arrival: bool) -> None:
        """Let an item move, if it does, and if it comes from nowhere or does not."""
        was, now = self._at(place, before), self._at(place, after)
        if (was is None) != is_arrival or (was is None and now is None):
            return
        if was == now and not (now and now[0] == LEASED):
            return
        table = AWAY if now is None else now[0]
        is_again = was is not None and now is not None and was[0] == now[0]
        if was is None:
            value = self._value(place, after, table)
            old = [one for one in self.things.get(place, ()) if one.table == AWAY]
            found = [new for one in old for new in self._moves(one, table)]
            found += self._arrivals(value, table)
        else:
            old = self.things[place]
            value = old[0].value
            self._model.left[was[0]] += was != now
            if was == now:
                found = self._extended(old)
            else:
                found = [new for one in old for new in self._moves(one, table, is_again=is_again)]
        if not found:
            name, was_table = self._queue.name, None if was is None else was[0]
            raise Found(
                f"{name}: {value} went from {was_table} to {table}, and nobody asked for it"
            )
        if now is not None and now[0] == LEASED:
            secret = base64.urlsafe_b64encode(now[1]).rstrip(b"=").decode()
            found = [one._replace(lease=secret) for one in found]
        self.things[place] = _merged(found)
        if len(self.things[place]) > _MOST_THINGS:
            raise Found(f"{UNCLEAR}{value} may be {len(self.things[place])} things")
        self._check_key(place, *found[:1] * (was is None or was[0] == DEAD))
        self._model.note(value, self.things[place])

    def narrow(self, item: Any) -> None:
        """Let an item be what a call has returned, if it still is under its lease."""
        place, secret = self._keys.place_named(item.id), item.lease.rpartition(".")[2]
        old = self.things.get(place, [])
        found = [one for one in old if one.lease == secret and _is_answer(one, item)]
        self.things[place] = found or old

    def _check_key(self, place: bytes, new: Thing | None = None) -> None:
        """Check that no other item has the unique key that one gets."""
        for other, things in self.things.items() if new and new.has_key else ():
            unique = things[0].unique
            if unique and unique[0] == new.unique[0] and other != place and _have_key(things):
                raise Found(f"{new} has the unique key that {things} have")

    def _at(self, place: bytes, state: State) -> tuple[str, bytes] | None:
        """Return the table where an item is, and what only the holder of its lease knows."""
        if self._keys.key(place) in state.values:
            return READY, b""
        for name, one in self._states.items():
            facts = state.values.get(self._tables.hidden_keys(one, place)[0])
            if facts is not None:
                return name, self._secret(facts) if name == LEASED else b""
        return None

    def _secret(self, facts: bytes) -> bytes:
        tables = self._world.doctor["service.storage.tables"]
        return tables.unpacked_facts(tables.State.LEASED, None, facts).secret

    def _value(self, place: bytes, state: State, table: str) -> Any:
        key = self._keys.key(place)
        if table != READY:
            key = self._tables.hidden_keys(self._states[table], place)[1]
        return self._store.codec.decode(whole(state, self._tables, place, key)).value

    def _arrivals(self, value: Any, table: str) -> Iterator[Thing]:
        """Yield what a new item may be: pushed, or moved from another queue."""
        priority = 0 if self._queue.kind == "priority" else None
        for intent in [*self._model.intents]:
            op, span = intent.op, self._model.span(intent.began_us)
            if intent.program is not self._model.committer:
                continue
            if op["do"] in _PUSHES and value in (intent.values or ()):
                given = op["priority"] if priority is not None else None
                new = Thing(value, READY, given, span if self._keeps else None)
                if "unique" in op:
                    new = new._replace(unique=(op["unique"], op["while"]), has_key=True)
                if op.get("delay"):
                    new = new.put(DELAYED, until=span.later(op["delay"]))
                yield from [new] if new.table == table else self._moves(new, table)
            elif op["do"] == "move" and op["to"] == self._queue.name:
                for one in self._model.was(value):
                    own = one.priority if one.priority is not None else 1
                    level = None if priority is None else own
                    facts = {"priority": level, "failures": (), "unique": None, "has_key": False}
                    pushed = (one.pushed or span) if self._keeps else None
                    here = one.put(READY, pushed=pushed, **facts)
                    yield from [here] * (table == READY)

    def _moves(self, one: Thing, table: str, *, is_again: bool = False) -> list[Thing]:
        """Return what an item may be in a table, or under another lease."""
        found = [] if is_again else [*self._steps(one, table)]
        if one.table in (LEASED, DELAYED, AWAY) and (table != READY or is_again):
            for ready in self._steps(one, READY):
                found += self._steps(ready, table)
        return found

    def _steps(self, one: Thing, table: str) -> Iterator[Thing]:
        """Yield what an item may be after one step."""
        now = simulated.running.now_us
        is_over = one.until is not None and one.until.low <= self._model.span(now).high
        if one.table == LEASED and is_over:
            recent = self._model.span(now - self._model.slack_us)
            until = one.until
            ended = Span(min(until.low, recent.low), min(until.high, recent.high))
            yield from self._if(table, self._given_up(one, _EXPIRED, recent, ended=ended))
        if one.table == DELAYED and is_over and table == READY:
            yield one.put(READY)
        if one.table == AWAY and table == READY:
            yield one.put(READY)
        for intent in self._model.about(self._queue.name, one.value):
            yield from self._by(intent, one, table)

    def _by(self, intent: Intent, one: Thing, table: str) -> Iterator[Thing]:
        """Yield what a client may make of an item."""
        op, span = intent.op, self._model.span(intent.began_us, intent.program)
        verb = op["do"].partition("_")[0]
        is_taken = one.table in (READY, AWAY)
        if "lease" in op["do"] and is_taken and table == LEASED:
            until, worker = span.later(op["seconds"]), op.get("worker")
            yield one.put(LEASED, until=until, began=span, worker=worker)
        if one.table == READY and table == AWAY and op["do"].startswith(_TAKES):
            yield one.put(AWAY)
        if one.table == LEASED and intent.values and verb == "lease":
            yield from self._if(table, one.put(GONE))
        if intent.program is self._model.committer:
            yield from self._by_itself(intent, one, table, span)

    def _by_itself(self, intent: Intent, one: Thing, table: str, span: Span) -> Iterator[Thing]:
        """Yield what a client makes of an item in a commit of its process: only takes have help."""
        op = intent.op
        verb, is_struck = op["do"].partition("_")[0], "strike" in op or "cancel" in op
        if "lease" in op["do"] and one.table == LEASED and table == READY and is_struck:
            yield one.put(READY)
        if one.table == LEASED and intent.values and verb in _ENDS:
            yield from self._if(table, one.put(_ENDS[verb]))
        if one.table == LEASED and intent.values and verb == "nack":
            how = {"delay": op.get("delay"), "retry": op.get("retry", True)}
            yield from self._if(
                table, self._given_up(one, op.get("reason", "given up"), span, **how)
            )
        yield from self._by_hand(op, one, table, span)
        if op["do"] == "bury" and one.table == READY:
            yield from self._if(table, one.put(DEAD, until=span, reason=op.get("reason", "buried")))
        is_meant = _is_meant(op, one, span)
        if op["do"] == "redrive" and one.table == DEAD and is_meant:
            facts = {"attempts": 0, "failures": (), "has_key": one.unique is not None}
            yield from self._if(table, one.put(READY, **facts))
        is_cleared = op["do"] == "clear_state" and op["state"] == one.table and is_meant
        if op["do"] in ("remove", "remove_many", "clear") or is_cleared:
            yield from self._if(table, one.put(GONE))

    def _by_hand(self, op: dict[str, Any], one: Thing, table: str, at: Span) -> Iterator[Thing]:
        """Yield what who has no token may make of an item before its time."""
        if op["do"] == "give_back" and one.table == LEASED and _is_meant(op, one, at):
            spent = op.get("spend", True)
            back = self._given_up(one, _GIVEN_BACK, at) if spent else one.put(READY)
            yield from self._if(table, back)
        if op["do"] == "run_now" and one.table == DELAYED and _is_meant(op, one, at):
            yield from self._if(table, one.put(READY))

    def _if(self, table: str, new: Thing) -> Iterator[Thing]:
        """Yield a thing if it is in a table; what is gone is nowhere, as what is away."""
        if new.table == table or (new.table == GONE and table == AWAY):
            yield new

    def _given_up(
        self,
        one: Thing,
        reason: str,
        at: Span,
        delay: float | None = None,
        retry: bool = True,
        ended: Span | None = None,
    ) -> Thing:
        attempts = one.attempts + 1
        failures = (*one.failures, (attempts, reason, one.worker, ended or at))[-_KEPT:]
        facts: dict[str, Any] = {"attempts": attempts, "failures": failures}
        if attempts >= self._most or not retry:
            return one.put(DEAD, until=at, reason=reason, **facts)
        facts["has_key"] = one.has_key
        if delay:
            return one.put(DELAYED, until=at.later(delay), **facts)
        return one.put(READY, **facts)

    def _extended(self, old: list[Thing]) -> list[Thing]:
        """Return what a leased item may be of which something was written, under the same lease."""
        found = list(old)
        for one in old:
            for intent in self._model.about(self._queue.name, one.value):
                is_own = intent.program is self._model.committer
                if is_own and intent.op["do"].startswith("extend"):
                    until = self._model.span(intent.began_us).later(intent.op["seconds"])
                    found.append(one._replace(until=until))
        return found

    # Looks

    def least(self) -> int:
        """Return how many items a take finds at least, if others do nothing."""
        state = self._world.cluster.state
        now = simulated.running.now_us + min(low for low, _ in self._model.skews.values())
        paused = self._tables.paused, *([self._tables.member.paused] if self._tables.member else [])
        limits = self._world.processes[0].catalog.queue(self._queue.name).parts.taker.limits
        if limits or not self._is_strict or any(key in state.values for key in paused):
            return 0
        found = 0
        for place, things in self.things.items():
            at, one = self._at(place, state), things[0]
            is_over = at and one.until is not None and max(o.until.high for o in things) < now
            lives = at and (at[0] == DELAYED or (at[0] == LEASED and one.attempts + 1 < self._most))
            found += bool(at and (at[0] == READY or (is_over and lives)))
        return found

    def meant(self, op: dict[str, Any], table: str) -> int | None:
        """Return how many items of a table an operation is to change; None if that depends."""
        state, found = self._world.cluster.state, 0
        if "named" in op or "before" in op:
            return None
        for place, things in self.things.items():
            at, one = self._at(place, state), things[0]
            if at and at[0] == table:
                if len(things) > 1 or (op["do"] == "redrive" and one.unique):
                    return None
                found += _is_meant(op, one, Span(math.inf, math.inf))
        return found

    def look(self, queue: Any = None) -> None:
        """Compare what the observer sees of the queue, or a client by an object of its own."""
        mine, self._queue = self._queue, queue or self._queue
        try:
            self._look()
        finally:
            self._queue = mine

    def _look(self) -> None:
        queue, state = self._queue, self._world.cluster.state
        places: dict[str, list[bytes]] = {name: [] for name in (READY, *_HIDDEN)}
        for place in sorted(self.things, key=self._keys.key):
            at = self._at(place, state)
            if at is not None:
                places[at[0]].append(place)
        for table, some in places.items():
            self._look_at_pages(table, [self._keys.id_of(place) for place in some])
        tr = queue.database.create_transaction()
        self._look_at_overview(tr, places)
        for table, some in places.items():
            for place in some:
                item = queue.get(self._keys.id_of(place))
                self._look_at_key(tr, place, item)
                self._compare(place, item, table, f"get shows {item}")
        counts = queue.counts()
        hidden = [(name, len(places[name])) for name in _HIDDEN]
        if hidden != [(name, getattr(counts, name)) for name in _HIDDEN]:
            raise Found(f"{queue.name}: the counts are {counts}, and there are {hidden}")
        self._look_at_figures(places)
        self._look_at_limits(places[READY])
        if self._is_strict:
            self._look_at_searches(places)
        self._look_at_history(sum(map(len, places.values())))

    def _look_at_key(self, tr: Any, place: bytes, item: Any) -> None:
        """Compare whether an item has its unique key, and where its value is."""
        overview, things = self._queue.overview, self.things[place]
        kept = overview.unique_while(tr, item)
        has_key = things[0].has_key if len(things) == 1 else None
        if kept and (not things[0].unique or kept != things[0].unique[1]):
            raise Found(f"{self._queue.name}: {things} has a unique key while {kept}")
        if has_key is not None and (kept is not None) != has_key:
            raise Found(f"{self._queue.name}: {things} has a unique key while {kept}")
        if overview.key_of(item) not in self._world.cluster.state.values:
            raise Found(f"{item} is not at {overview.key_of(item)!r}")

    def _look_at_overview(self, tr: Any, places: dict[str, list[bytes]]) -> None:
        """Compare who holds items, and when something is due."""
        overview, now = self._queue.overview, simulated.running.now_us
        leased = [self.things[place] for place in places[LEASED]]
        is_sure = all(len(some) == 1 and _is_at(some[0], now) is not None for some in leased)
        # where some are shown, or those that have not expired by a clock that is ahead
        is_sure = is_sure and not ("small" in self._world.plan or self._world.is_skewed)
        shown = Counter(one.worker for one in overview.leases(tr))
        expected = Counter(some[0].worker for some in leased if _is_at(some[0], now))
        if is_sure and shown != expected:
            raise Found(f"{self._queue.name} shows leases of {shown}, not {expected}")
        if overview.begin_ends(tr)().is_empty == bool(places[READY]):
            raise Found(f"{self._queue.name} is shown as empty, and has {places[READY]}")
        dues = [one.until for place in places[DELAYED] for one in self.things[place]]
        dues += [one.until for some in leased for one in some]
        low, high = (min([one[at] for one in dues if one], default=0) for at in (0, 1))
        if not self._world.cluster.state.between(*self._tables.handoffs):
            due = overview.begin_due(tr)()
            if not low <= (due or 0) <= high:
                raise Found(f"{self._queue.name} shows {due} as due, not one of {dues}")

    def _look_at_limits(self, ready: list[bytes]) -> None:
        """Compare whether it is paused, and whether its limits keep items back."""
        queue = self._queue
        values, member = self._world.cluster.state.values, self._tables.member
        is_paused = self._tables.paused in values
        is_paused = is_paused or (member is not None and member.paused in values)
        if (queue.paused() is None) == is_paused:
            raise Found(f"{queue.name} is shown as paused: {queue.paused()}")
        held, is_limited = queue.held_until(to_lease=True), queue.parts.taker.limits is not None
        may_be_held = is_limited and not is_paused
        if (held is not None and not may_be_held) or (held is None and may_be_held and ready):
            raise Found(f"{queue.name} keeps {ready} until {held}")

    def _look_at_searches(self, places: dict[str, list[bytes]]) -> None:
        """Compare what searches and pages of priorities find."""
        queue, streams = self._queue, self._world.doctor["service.tools.streams"]
        tr = queue.database.create_transaction()
        for table, some in places.items():
            most: dict[str, Any] = {"most_found": 2, "most_looked_at": 4, "state": table, "tr": tr}
            ids = [item.id for item in self._paged(state=table, limit=50)]
            _check_search(
                ids, most, functools.partial(streams.scan, queue), self.things, self._keys
            )
            if table != READY:
                by_time = [item.id for item in self._paged(state=table, order="time", limit=50)]
                scan = functools.partial(streams.scan_by_moment, queue)
                _check_search(by_time, most, scan, self.things, self._keys)
            if queue.kind == "priority":
                level = (some and self.things[some[0]][0].priority) or 1
                bounds = {"min_priority": level, "max_priority": level}
                shown = self._paged(state=table, limit=50, **bounds)
                there = [one for one in some if self.things[one][0].priority == level]
                if sorted(map(self._keys.id_of, there)) != sorted(item.id for item in shown):
                    raise Found(f"{queue.name}: the page of priority {level} shows {shown}")

    def _look_at_history(self, present: int) -> None:
        """Compare how many were pushed, and how many have left, as the minutes of a day say."""
        world = self._world
        by_hand = world.verbs & {"move", "clear", "clear_state", "clock"} or world.is_skewed
        if by_hand or not world.is_calm or world.cluster.state.between(*self._tables.handoffs):
            return
        minutes = self._queue.history(1_440)
        sums = sum(one.pushes for one in minutes), sum(one.pops for one in minutes)
        if sums != (len(self.things), len(self.things) - present):
            raise Found(f"{self._queue.name}: {sums} in the history, of {len(self.things)}")

    def _look_at_pages(self, table: str, ids: list[str]) -> None:
        queue = self._queue
        shown = {}
        for end, limit in (("min", 2), ("max", 100)):
            items = self._paged(state=table, end=end, limit=limit)
            found = [item.id for item in items]
            expected = ids if end == "min" else ids[::-1]
            if found != expected and (self._is_strict or sorted(found) != sorted(ids)):
                raise Found(f"{queue.name}: the page of {table} shows {found}, not {expected}")
            shown = {item.id: item for item in items}
            if table != READY:
                items = self._paged(state=table, end=end, limit=limit, order="time")
                moments = [item.died_at or item.until for item in items]
                in_order = sorted(moments, reverse=end == "max")
                if sorted(item.id for item in items) != sorted(ids) or moments != in_order:
                    raise Found(f"{queue.name}: {table} by time are {items}")
        for one in ids:
            self._compare(
                self._keys.place_named(one), shown[one], table, f"a page shows {shown[one]}"
            )

    def _paged(self, **how: Any) -> list[Any]:
        """Return all items that pages show, each after the cursor of the one before."""
        page = self._queue.page(**how)
        items = [*page.items]
        while page.cursor is not None and page.items:
            page = self._queue.page(after=page.cursor, **how)
            items += page.items
        return items

    def _compare(self, place: bytes, item: Any, table: str, how: str) -> None:
        """Compare an item with what it may be, which is then no more than that."""
        has_failures = how.startswith("get") or table == DEAD
        old = self.things[place]
        found = [one for one in old if _is(one, item, table, has_failures=has_failures)]
        if not found or item.queue != self._queue.name or item.lease is not None:
            raise Found(f"{self._queue.name}: {how}, not {old}")
        self.things[place] = found

    def _look_at_figures(self, places: dict[str, list[bytes]]) -> None:
        queue, ready = self._queue, [self.things[place][0] for place in places[READY]]
        levels: dict[Any, int] = {}
        reasons: dict[str, int] = {}
        for one in ready:
            levels[one.priority] = levels.get(one.priority, 0) + 1
        for place in places[DEAD]:
            reason = _group(self.things[place][0].reason)
            reasons[reason] = reasons.get(reason, 0) + 1
        found = {one.reason: one.count for one in queue.dead_by_reason()}
        if found != reasons:
            raise Found(f"{queue.name}: the reasons are {found}, not {reasons}")
        away = self._world.cluster.state.between(*self._tables.handoffs)
        if not away and queue.size() != len(ready):
            raise Found(f"{queue.name}: the size is {queue.size()}, not {len(ready)}")
        if not away and queue.kind == "priority" and dict(queue.by_priority()) != levels:
            raise Found(f"{queue.name}: the levels are {queue.by_priority()}, not {levels}")
        oldest = queue.oldest()
        if (oldest is None) != (not ready or not self._keeps):
            raise Found(f"{queue.name}: the oldest is {oldest}, of {len(ready)}")
        if oldest is not None and self._keeps:
            first = ready[:1] if queue.kind == "fifo" and self._is_strict else ready
            spans = [one.pushed for one in first]
            if queue.kind != "fifo":
                spans = [Span(*(min(one[at] for one in spans) for at in (0, 1)))]
            # of shards, the first of each
            if not any(one.low <= _us(oldest) <= one.high for one in spans):
                raise Found(f"{queue.name}: the oldest is {oldest}, not {first}")


def whole(state: State, tables: Any, place: bytes, key: bytes) -> bytes:
    """Return what a key begins to hold of the value of an item, with its later chunks."""
    chunks = state.between(*tables.chunks(place))
    return b"".join([state.values[key], *(state.values[one] for one in chunks)])


def _check_search(
    ids: list[str], most: dict[str, Any], scan: Any, things: dict[bytes, list[Thing]], keys: Any
) -> None:
    """Check that a search finds the items with even values, among these in their order."""
    even = {one: not things[keys.place_named(one)][0].value % 2 for one in ids}
    after, rest, found = None, ids, None
    while found is None or after is not None:
        expected = [at for at, one in enumerate(rest) if even[one]][: most["most_found"]]
        seen = len(rest)
        if len(expected) == most["most_found"]:
            seen = expected[-1] + 1
        seen = min(seen, most["most_looked_at"])
        found = scan(lambda item: not item.value % 2, after=after, **most)
        shown = [(at, item.id) for at, item in found.found]
        if shown != [(at, rest[at]) for at in expected if at < seen] or found.looked_at != seen:
            raise Found(f"a search of {rest} finds {shown}")
        after, rest = found.cursor, rest[seen:]
        if (after is None) != (not rest):
            raise Found(f"a search goes on after {after}, and {rest} are left")


def _merged(things: list[Thing]) -> list[Thing]:
    """Return things, those as one that differ by moments alone."""
    found: dict[tuple[Any, ...], Thing] = {}
    for one in things:
        failures = tuple(failure[:3] for failure in one.failures)
        key = (one.table, one.priority, one.attempts, one.reason, one.worker, failures)
        found[key] = _joined(found[key], one) if key in found else one
    return [*found.values()]


def _is_meant(op: dict[str, Any], one: Thing, span: Span) -> bool:
    """Tell whether a verb by hand may be about an item: by its reason, worker and moment."""
    if op["do"] == "clear_state" and op["state"] != DEAD:
        return True
    at = one.began if op["do"] == "give_back" else one.until
    is_early = "before" not in op or at is None or at.low < span.high - op["before"] * 1e6
    is_theirs = "worker" not in op or op["worker"] == one.worker
    return is_early and is_theirs and _group(op.get("reason", one.reason)) == _group(one.reason)


def _have_key(things: list[Thing]) -> bool:
    """Tell whether an item certainly has its unique key."""
    return all(one.has_key for one in things)


def _joined(one: Thing, other: Thing) -> Thing:
    failures = [
        (*facts, _both(at, also[-1]))
        for (*facts, at), also in zip(one.failures, other.failures, strict=True)
    ]
    until, began = (_both(getattr(one, at), getattr(other, at)) for at in ("until", "began"))
    has_key = one.has_key if one.has_key == other.has_key else None
    return one._replace(
        has_key=has_key,
        pushed=_both(one.pushed, other.pushed),
        until=until,
        began=began,
        failures=tuple(failures),
    )


def _both(one: Any, other: Any) -> Any:
    """Return the span that has two."""
    if one is None or other is None:
        return one or other
    return Span(min(one.low, other.low), max(one.high, other.high))


def _is_answer(one: Thing, item: Any) -> bool:
    """Tell whether a call may return an item that is a thing."""
    facts = (item.value, item.priority, item.attempts, item.worker, item.reason)
    if facts != (one.value, one.priority, one.attempts, one.worker, one.reason):
        return False
    if item.lease is not None and item.lease.rpartition(".")[2] != one.lease:
        return False
    if item.state != one.table and (item.state != READY or one.table in _HIDDEN):
        return False
    moments = [(item.pushed_at, one.pushed), (item.until, one.until), (item.leased_at, one.began)]
    return all(
        moment is None or (span is not None and span.low <= _us(moment) <= span.high)
        for moment, span in moments
    )


def _group(reason: str | None) -> str:
    return str(reason).partition("\n")[0]


def _is_at(one: Thing, now_us: int) -> bool | None:
    """Tell whether a lease has not expired at a moment; None for perhaps."""
    assert one.until is not None
    return True if one.until.low > now_us else False if one.until.high < now_us else None


def _us(moment: Any) -> int:
    return round(moment.timestamp() * 1e6)


def _is(one: Thing, item: Any, table: str, *, has_failures: bool) -> bool:
    """Tell whether an item is as a thing says."""
    facts = (item.value, item.state, item.priority, item.attempts, item.reason, item.worker)
    expected = (one.value, table, one.priority, one.attempts, one.reason, one.worker)
    if facts != expected or one.table != table:
        return False
    moments = [(item.pushed_at, one.pushed), (item.leased_at, one.began)]
    moments.append((item.died_at if table == DEAD else item.until, one.until))
    for moment, span in moments:
        if (moment is None) != (span is None):
            return False
        if moment is not None and not span.low <= _us(moment) <= span.high:
            return False
    if not has_failures:
        return True
    failures = [(failure.attempt, failure.reason, failure.worker) for failure in item.failures]
    ats = [failure.at for failure in item.failures]
    spans = [span for *_, span in one.failures]
    return failures == [failure[:3] for failure in one.failures] and all(
        span.low <= _us(at) <= span.high for at, span in zip(ats, spans, strict=True)
    )
