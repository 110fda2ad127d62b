"""The clients of a run: each does its operations, and keeps an account of every value.

A value is pushed once, and counted from outside: what a call said of it, and what it left open.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import functools
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.simulation import schedule as simulated
from tests.simulation.locks import EventLoop

if TYPE_CHECKING:
    from tests.simulation.world import Process, World

#: A call takes so long at most, besides its wait and the latency of the engine.
_CALL_SECONDS = 60
#: If threads change at lines, a strike comes after so many of these in place of a turn.
_LINES_A_TURN = 20
#: Errors that say nothing of a verb's own, and those that a verb may raise.
_UNCLEAR = ("OutcomeUnknown", "PushInterrupted")
_ON_LEASES = ("ack", "nack", "extend", "requeue", "lease_ack")
_ALLOWED = {
    "ItemNotFound": ("remove", "bury", "look"),
    "ItemNotReady": ("bury",),
    "IdempotencyKeyReused": ("push_shared",),
    "FormatMismatch": ("stranger",),
    "LeaseLost": (*_ON_LEASES, "together", "leased"),
}
#: What verbs by hand are about: a state, the option of a moment, and that of ids.
_BY_HAND = {
    "redrive": ("dead", "died_before", "item_ids"),
    "give_back": ("leased", "leased_before", "ids"),
    "run_now": ("delayed", "due_before", "ids"),
    "clear_state": ("", "died_before", ""),
}
#: Queues of which clients have different settings.
STRANGE = ("s0", "s1", "s2")
#: Operations that say by themselves to which values they do something.
_ON_VALUES = ("ack", "nack", "requeue", "extend", "ack_many", "nack_many", "extend_many")
_ON_VALUES += ("push", "push_many", "push_batch", "together", "worker", "family_worker", "leased")
#: Errors that say of which queue they are; those of items say of which item, too.
_OF_QUEUES = ("LeaseLost", "IdempotencyKeyReused")
_ALLOWED["TaskResultDoesNotExist"] = ("abort", "abort_group", "result")
_ALLOWED["WaitTimedOut"] = ("result",)
#: How many transactions and reads operations make at most if they are alone, some that wait too.
_MOST: dict[str, tuple[int, int]] = {
    verb: most
    for most, verbs in {
        (1, 5): "pause resume pause_family resume_family sweep clear push_many",
        (1, 7): "ack nack requeue extend push_batch",
        (1, 15): "push nack_many ack_many pop_min pop_max wait_for_items",
        (1, 40): "lease_min lease_max pop lease lease_ack together extend_many",
        (4, 60): "family_pop family_lease",
        (2, 24): "remove bury push_shared result",
        (4, 24): "group look redrive remove_many enqueue abort move",
        (4, 50): "clear_state enqueue_many abort_group",
        (5, 90): "give_back run_now",
        (11, 50): "recount",
    }.items()
    for verb in verbs.split()
}
_MOST_OF_WAITS = 17, 250
#: And for how long, besides their wait.
_ALONE_US = 10_000


_EPOCH = datetime.datetime.fromtimestamp(0, datetime.timezone.utc)
_OF_ONE = ("pop_min", "pop_max", "lease_min", "lease_max")
#: The ways to look at a queue. What is a list has items.
LOOKS: dict[str, Callable[[Any], Any]] = {
    "peek": lambda queue: [queue.peek()],
    "peek at the max end": lambda queue: [queue.peek_max(), *queue.peek_many(3, end="max")],
    "page": lambda queue: queue.page(limit=3).items,
    "page from a cursor": lambda queue: queue.page(after=queue.page(limit=1).cursor).items,
    "leased": lambda queue: queue.page(state="leased", order="time", end="max").items,
    "delayed": lambda queue: queue.page(state="delayed", end="max", limit=2).items,
    "dead": lambda queue: [*queue.iterate(state="dead")],
    "get": lambda queue: [queue.get(item.id) for item in queue.page(state="leased").items[:1]],
    "has_item": lambda queue: (*map(queue.has_item, [one.id for one in queue.peek_many(1)]),),
    "counts": lambda queue: queue.counts().leased + queue.size(),
    "by_priority": lambda queue: queue.kind == "fifo" or dict(queue.by_priority(limit=2)),
    "page of a priority": lambda queue: (
        [] if queue.kind == "fifo" else queue.page(min_priority=1, max_priority=2).items
    ),
    "times": lambda queue: (queue.oldest(), queue.held_until(to_lease=True), queue.paused()),
    "history": lambda queue: len(queue.history(5)) + len(queue.dead_by_reason(limit=2)),
}


@dataclass
class Ledger:
    """What became of each value.

    Attributes:
        pushed: The queue and the moment of each push that may have taken effect, by value.
        sure, refused: Values that were certainly pushed, and certainly not.
        gone: How values ended that are certainly gone.
        shared: The values that several clients push under one key.
        taken: What several clients have popped under one key.
        kept: The last value that a client who is alone has pushed under a key, and until when that
            is known.
    """

    pushed: dict[int, tuple[str, int]] = field(default_factory=dict)
    sure: dict[int, None] = field(default_factory=dict)
    refused: dict[int, None] = field(default_factory=dict)
    gone: dict[int, str] = field(default_factory=dict)
    shared: dict[tuple[str, str], int] = field(default_factory=dict)
    taken: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    kept: dict[str, tuple[int, int]] = field(default_factory=dict)

    def see(self, value: Any, how: str) -> None:
        """Note that a call has returned a value."""
        if value in self.refused or (type(value) is int and value > 0 and value not in self.pushed):
            simulated.running.fail(f"{how} returned {value}, which was not pushed")

    def end(self, value: int, how: str) -> None:
        """Note that a value is gone for good; those of a schedule are all alike."""
        if value in self.gone and value > 0:
            simulated.running.fail(f"{value} is gone twice: {self.gone[value]}, and {how}")
        self.gone[value] = how


class Unclear(Exception):
    """A call ended, and it is not known whether it took effect."""


class Client:
    """One client: a thread of a process. A verb is a method; most are made by what follows.

    Attributes:
        op: What it does now, None between two operations; since when.
        waits: At which names it waits, whether to lease, since when, and with which options.
    """

    def __init__(self, world: World, number: int, process: Process, ops: list[dict[str, Any]]):
        self.world, self.process, self.ops, self.number = world, process, ops, number
        self.name = f"{process.name}/client{number}"
        self.ledger = world.ledger
        self.held: list[Any] = []
        self.op: dict[str, Any] | None = None
        self.began_us = 0
        self.waits: Any = None
        self.thread: Any = None
        self._calls = 0
        self._intents: list[Any] = []

    def run(self) -> None:
        """Do all operations."""
        for op in self.ops:
            self.op, self.began_us = op, simulated.running.now_us
            self.world.note(" ".join(str(one) for one in op.values()))
            self._arm(op)
            if self.world.model is not None:
                self.world.model.left.clear()
            result = self._do(op)
            self.thread.alarm = self.thread.pending = None
            self.waits = self.op = None
            self.world.progress()
            self.world.note(f"-> {result}")

    def _do(self, op: dict[str, Any]) -> Any:
        schedule, result = simulated.running, None
        began, self._intents, cost = schedule.now_us, [], self.world.cluster.cost()
        self.process.reported.clear()
        try:
            if op["do"] not in _ON_VALUES:
                self._intend(op)
            result = getattr(self, f"_{op['do']}", self._other)(op)
            self._end_intents()
        except Unclear as error:
            self.world.was_unclear, result = True, f"unclear: {error}"
        except KeyboardInterrupt:
            result = "interrupted"
        except self.process.errors as error:
            result = type(error).__name__
        if self.world.is_alone and op["do"] in _MOST and "small" not in self.world.plan:
            self._check_cost(op, result, [*map(operator.sub, self.world.cluster.cost(), cost)])
        limit_us = int((op.get("wait", 0) + _CALL_SECONDS) * 1e6) + 10 * self.world.longest_us
        if schedule.now_us - began > limit_us + self.world.slept_us:
            schedule.fail(f"{op['do']} took {(schedule.now_us - began) / 1e6} seconds")
        return result

    def _check_cost(self, op: dict[str, Any], found: Any, spent: list[int]) -> None:
        """Check that an operation takes no more than it needs if it is alone, and waits its time.

        Args:
            op: The operation.
            found: What it returned.
            spent: How many transactions, reads and conflicts there were, and microseconds.
        """
        wait_us = int(op.get("wait", 0) * 1e6)
        most = _MOST_OF_WAITS if wait_us else _MOST[op["do"]]
        most = *(number * (3 if "once" in op else 1) for number in most), 0, wait_us + _ALONE_US
        if any(map(operator.gt, spent, most)) or (not found and spent[-1] < wait_us):
            simulated.running.fail(f"{op} returned {found}, and took {spent} of {most}")

    def _intend(self, op: dict[str, Any], values: Iterable[Any] | None = None) -> None:
        """Let the model know what may happen from now on."""
        if self.world.model is not None:
            self._intents.append(self.world.model.begin(op, values, self.process.program))

    def _end_intents(self) -> None:
        for intent in self._intents:
            self.world.model.end(intent)

    def _arm(self, op: dict[str, Any]) -> None:
        """Let an operation be struck: after some turns of it, or some seconds."""
        strike = op.get("strike")
        if strike is None:
            return
        schedule, thread, what = simulated.running, self.thread, strike["what"]

        def act() -> None:
            schedule.note(f"{self.name} is struck: {what}")
            self.world.disturb(strike.get("sleeps", 0))
            if what == "interrupt":
                self.world.was_interrupted = True
                raise KeyboardInterrupt
            if what == "sleep":
                schedule.sleep(strike["sleeps"])
            else:
                self.process.die()

        def act_later() -> None:
            if self.op is not op or thread.is_gone:
                return
            self._leave()
            thread.pending = act
            if what != "sleep":
                schedule.wake(thread)

        if "turns" in strike:
            turns = strike["turns"] * (_LINES_A_TURN if "lines" in self.world.plan else 1)
            thread.alarm = turns, act
        else:
            schedule.at(schedule.now_us + int(strike["seconds"] * 1e6), act_later)

    def _leave(self) -> None:
        """Note that who waits in line is about to be interrupted: what is got for it goes back."""
        for intent in self._intents:
            if self.thread.is_blocked and not self.thread.is_at_engine:
                intent.returns_to = self.process

    # Calls

    def call(
        self, function: Callable[..., Any], *args: Any, undo: Any = lambda: None, **options: Any
    ) -> Any:
        """Make a call, under its key again if its outcome is not known.

        Args:
            function: The verb.
            args, options: Its arguments.
            undo: Called if it certainly had no effect.

        Raises:
            Unclear: It is not known whether it had any.
        """
        error: BaseException = Unclear()
        is_known = True
        op = self.op or {}
        name = "a" + getattr(function, "__name__", "")
        if "awaits" in op and hasattr(getattr(function, "__self__", None), name):
            function = functools.partial(self._await, getattr(function.__self__, name), op)
        for _ in range(3 if options.get("once") else 1):
            try:
                found = function(*args, **options)
                if options.get("once"):
                    self._call_again(found, functools.partial(function, *args, **options))
                return found
            except KeyboardInterrupt as raised:
                error = raised
                is_known = is_known and getattr(raised, "outcome_known", False)
            except Exception as raised:  # noqa: BLE001  # each is looked at
                error = raised
                is_known = self._is_known(raised) and is_known
            if is_known:
                break
            self.world.note(f"unclear: {error!r}")
        if is_known:
            undo()
            for intent in self._intents:
                intent.may_take = False
            raise error
        raise Unclear(repr(error)[:60]) from error

    def _await(self, verb: Any, op: dict[str, Any], *args: Any, **options: Any) -> Any:
        """Await a verb in an event loop; it may be cancelled there after some seconds."""
        loop, coroutine = EventLoop(), verb(*args, **options)
        try:
            task = loop.create_task(coroutine)
            if "cancel" in op:
                loop.call_later(op["cancel"], task.cancel)
            return loop.run_until_complete(task)
        except asyncio.CancelledError as error:
            raise _interrupted(outcome_known=error.outcome_known) from error
        finally:
            loop.close()
            coroutine.close()

    def _call_again(self, found: Any, call: Callable[[], Any]) -> None:
        """Check that a call under its key returns again what it returned, if nothing fails."""
        if self.world.is_calm and "clear" not in self.world.verbs:
            again = call()
            if _shown(again) != _shown(found):
                simulated.running.fail(f"{self.op} returned {found}, and then {again}")

    def _is_known(self, error: Exception) -> bool:
        """Tell whether an error says that nothing happened; an error that must not be is found."""
        kind = type(error).__name__
        if kind in _UNCLEAR:
            return False
        if kind == "FDBError" and error.code == 1031:
            return True
        if self.op is None or self.op["do"] not in _ALLOWED.get(kind, ()):
            simulated.running.fail(f"{self.op} raised {error!r}")
        said = (
            {"queue", "id"} if kind.startswith("Item") else {"queue"} if kind in _OF_QUEUES else ()
        )
        if not {*said} <= getattr(error, "context", {}).keys():
            simulated.running.fail(f"{self.op} raised {error!r}, which does not say {said}")
        return bool(getattr(error, "outcome_known", True))

    def _once(self, op: dict[str, Any]) -> dict[str, Any]:
        self._calls += 1
        return {"once": f"{self.number}-{self._calls}"} if op.get("once") else {}

    def _queue(self, op: dict[str, Any]) -> Any:
        return self.process.catalog.queue(op["queue"])

    def _other(self, op: dict[str, Any]) -> Any:
        return self.call(getattr(self._queue(op), op["do"]))

    # Pushes

    def _push(self, op: dict[str, Any]) -> Any:
        queue, ledger = self._queue(op), self.ledger
        op = self._with_priority(op, queue)
        values = range(len(ledger.pushed) + 1, len(ledger.pushed) + 1 + op["count"])
        now, delay = simulated.running.now_us, op.get("delay")
        ledger.pushed.update(dict.fromkeys(values, (op["queue"], now)))
        if op["do"] == "push_batch" and "unique" in op:
            return self._push_keyed(op, queue, [*values])
        self._intend(op, values)
        priority = {"priority": op["priority"]} if queue.kind == "priority" else {}
        options: dict[str, Any] = {"undo": lambda: ledger.refused.update(dict.fromkeys(values))}
        if op["do"] == "push_many":
            items = [(one, op["priority"]) if priority else one for one in values]
            self.call(queue.push_many, items, delay=delay, **options)
        elif op["do"] == "push_batch":
            push = self.process.program["service.items"].Push
            pushes = [push(one, delay=delay, **priority) for one in values]
            self._answers(self.call(queue.push_batch, pushes, **options, **self._once(op)), now)
        else:
            if "unique" in op:
                options |= {"unique": op["unique"], "unique_while": op["while"]}
            options |= priority
            if op.get("exactly") and delay:
                us = now + self.process.program.skew_us + int(delay * 1e6)
                options["not_before"], delay = _EPOCH + datetime.timedelta(microseconds=us), None
            if op.get("prepared"):
                push = self.process.program["service.items"].Push
                undo = options.pop("undo")
                prepared = queue.prepare(push(values[0], delay=delay, **options), **self._once(op))
                (item,) = self.call(prepared, None, undo=undo)
            else:
                item = self.call(queue.push, values[0], delay=delay, **options, **self._once(op))
            self._answers([item], now)
            if item.existing:
                ledger.see(item.value, "a push that found its key")
                if self.world.model is not None:
                    self.world.model.found(item, op, now)
                ledger.refused[values[0]] = None
                return f"found {item.value}"
        ledger.sure.update(dict.fromkeys(values))
        return [*values]

    _push_many = _push_batch = _push

    def _push_keyed(self, op: dict[str, Any], queue: Any, values: list[int]) -> Any:
        """Push some values in one transaction, the first and the last under one unique key."""
        push, now = self.process.program["service.items"].Push, simulated.running.now_us
        keyed = {values[0], values[-1]}
        self._intend(op, [values[0]])
        self._intend({key: op[key] for key in op if key != "unique"}, values[1:-1])
        how: dict[str, Any] = {"delay": op.get("delay")}
        how |= {"priority": op["priority"]} if queue.kind == "priority" else {}
        key = {"unique": op["unique"], "unique_while": op["while"]}
        pushes = [push(one, **how, **(key if one in keyed else {})) for one in values]
        undo = functools.partial(self.ledger.refused.update, dict.fromkeys(values))
        items = self.call(queue.push_batch, pushes, undo=undo, **self._once(op))
        self._answers([item for item in items if not item.existing], now)
        if items[0].existing and self.world.model is not None:
            self.world.model.found(items[0], op, now)
        is_same = items[0].id == items[-1].id and (len(values) == 1 or items[-1].existing)
        if not is_same or len({item.id for item in items}) != max(1, len(values) - 1):
            simulated.running.fail(f"{op} returned {items}")
        there = [one for one, item in zip(values, items, strict=True) if not item.existing]
        self.ledger.sure.update(dict.fromkeys(there))
        self.ledger.refused.update(dict.fromkeys({*values} - {*there}))
        return there

    def _answers(self, items: Iterable[Any], began_us: int) -> None:
        """Compare items that a call has returned with what the model says they were."""
        for item in items if self.world.model is not None else ():
            self.world.model.answer(item, began_us)

    def _with_priority(self, op: dict[str, Any], queue: Any) -> dict[str, Any]:
        """Return an operation with a priority as the queue has them."""
        return {**op, "priority": op["priority"] / 2} if queue.priority_type == "float" else op

    def _push_shared(self, op: dict[str, Any]) -> Any:
        """Push a value under a key that others use, too: it is pushed once."""
        queue, ledger, key = self._queue(op), self.ledger, f"shared {op['which'] % 3}"
        if "clear" in self.world.verbs:  # which removes what is known of keys
            return "nothing"
        if "kept" in op and self.world.is_alone:
            return self._push_kept(self._with_priority(op, queue), queue)
        op = self._with_priority(op, queue)
        value = ledger.shared.setdefault((op["queue"], key), len(ledger.pushed) + 1)
        ledger.pushed.setdefault(value, (op["queue"], simulated.running.now_us))
        self._intend({**op, "do": "push"}, [value])
        priority = {"priority": op["priority"]} if queue.kind == "priority" else {}
        item = self.call(queue.push, value, once=key, **priority)
        if item.value != value or item.priority not in (None, op["priority"]):
            simulated.running.fail(f"{op} returned {item}")
        ledger.sure[value] = None
        return value

    def _push_kept(self, op: dict[str, Any], queue: Any) -> Any:
        """Push a value under a key whose response is not kept for long, and then is forgotten."""
        own, key = self.process.program, f"kept {op['which'] % 2}"
        new, now = len(self.ledger.pushed) + 1, simulated.running.now_us
        old, until = self.ledger.kept.get(queue.name + key, (0, 0))
        value = old if now < until else new
        self.ledger.pushed.setdefault(value, (op["queue"], now))
        op = {**op, "priority": 0}
        self._intend({**op, "do": "push"}, [value])
        once = own["service.idempotency"].IdempotencyKey(key, op["kept"])
        priority = {"priority": 0} if queue.kind == "priority" else {}
        item = self.call(functools.partial(queue.push, value, once=once, **priority))
        if item.value != value or once.replayed != (value == old):
            simulated.running.fail(f"{op} returned {item}, {once}, and {value} was to be there")
        if value == new:
            until = simulated.running.now_us + int(op["kept"] * 1e6)
            self.ledger.kept[queue.name + key] = value, until
        self.ledger.sure[value] = None
        return value

    def _pop_shared(self, op: dict[str, Any]) -> Any:
        """Pop under a key that others use, too: all are given the same."""
        if "clear" in self.world.verbs:
            return "nothing"
        queue, key, now = self._queue(op), f"popped {op['which'] % 2}", simulated.running.now_us
        items = self.call(queue.pop_many, 2, once=key)
        before = self.ledger.taken.setdefault((queue.name, key), items)
        if _shown(before) != _shown(items):
            simulated.running.fail(f"{op} returned {items}, and to others {before}")
        if before is items:
            self._note_taken(items, op, now)
            for item in items:
                self.ledger.end(item.value, f"popped by {self.name}")
        return _values(items)

    def _together(self, op: dict[str, Any]) -> Any:
        """End leases, take, and push, in one transaction."""
        own, queue, ledger = self.process.program, self._queue(op), self.ledger
        target = self.process.catalog.queue(op["to"])
        op, now = self._with_priority(op, target), simulated.running.now_us
        done = [one for one in self.held if one.queue == queue.name][:2] if "ends" in op else []
        value = len(ledger.pushed) + 1
        ledger.pushed[value] = op["to"], now
        self._intend({**op, "do": op.get("ends"), "queue": queue.name}, _values(done))
        self._intend({**op, "do": op.get("take", "think")})
        self._intend({**op, "do": "push", "queue": op["to"]}, [value])
        self.held = [one for one in self.held if one not in done]
        how = {key: op[key] for key in ("seconds",) if op.get("ends") == "extend"}
        how |= {key: op[key] for key in ("delay",) if op.get("ends") == "nack" and key in op}
        seconds = {"seconds": op["seconds"]} if op.get("take") == "lease_many" else {}
        priority = {"priority": op["priority"]} if target.kind == "priority" else {}

        def work(tr: Any) -> list[Any]:
            for item in done:
                getattr(queue, op["ends"])(item, tr=tr, **how)
            take = getattr(queue, op["take"]) if "take" in op else None
            found = take(op["count"], tr=tr, **seconds) if take else []
            target.push(value, tr=tr, delay=op.get("delay"), **priority)
            return [*found]

        undo = functools.partial(ledger.refused.update, {value: None})
        items = self.call(own["service"].run, queue.database, work, undo=undo)
        ledger.sure[value] = None
        self._note_taken(items, op, now)
        for item in done if op.get("ends") == "ack" else ():
            ledger.end(item.value, f"acknowledged by {self.name}")
        for item in items if op.get("take") == "pop_many" else ():
            ledger.end(item.value, f"popped by {self.name}")
        self.held += items if seconds else []
        return _values(items)

    # Takes

    def _take(self, op: dict[str, Any], done: Iterable[Any] = ()) -> Any:
        """Pop or lease, from one queue or several; a lease may acknowledge others."""
        leases, now = "lease" in op["do"], simulated.running.now_us
        names = tuple(op["names"]) if "names" in op else (op["queue"],)
        source = self.process.catalog.several(names) if "names" in op else self._queue(op)
        is_one = op["do"] in _OF_ONE
        count = 1 if is_one else op["count"]
        options = self._once(op) | ({} if is_one else {"end": op["end"]})
        if "wait" in op:
            options["wait"] = op["wait"]
            self.waits = names, leases, now, self.process.options
        if leases:
            options |= {"seconds": op["seconds"]} | ({"ack": done} if done else {})
            options |= {"worker": op["worker"]} if "worker" in op else {}
        take, least = (
            source.lease_many if leases else source.pop_many,
            self._least(names) - len([*done]),
        )
        if is_one:
            found = self.call(getattr(source, op["do"]), **options)
            items = [] if found is None else [found]
        else:
            items = self.call(take, count, **options)
        verb = "lease" if leases else "pop"
        reported = sum(one.items for one in self.process.reported if one.verb == verb)
        if self.world.is_alone and "once" not in op and reported != len(items):
            simulated.running.fail(f"{op} returned {len(items)}, and reports {reported}")
        if not min(count, least) <= len(items) <= count:
            simulated.running.fail(f"{op} returned {len(items)} items, of {least}")
        if not items:
            self.world.check_empty(names, now)
        self._note_taken(items, op, now)
        if leases:
            self.held += items
        else:
            for item in items:
                self.ledger.end(item.value, f"popped by {self.name}")
        return _values(items)

    def _least(self, names: tuple[str, ...]) -> int:
        """Return how many items a take finds at least, if it is alone."""
        if not (self.world.is_alone and self.world.model):
            return 0
        queues = [self.world.model.queues.get(one) for one in self.world.expanded(names)]
        least = [queue.least() for queue in queues if queue is not None]
        return least[0] if len(queues) == 1 else min(max([0, *least]), 1)

    _pop = _lease = _family_pop = _family_lease = _take
    _pop_min = _pop_max = _lease_min = _lease_max = _take

    def _note_taken(self, items: Iterable[Any], op: dict[str, Any], began_us: int) -> None:
        for item in items:
            self.ledger.see(item.value, op["do"])
        self._answers(items, began_us)

    def _lease_ack(self, op: dict[str, Any]) -> Any:
        done = [one for one in self.held if one.queue == op["queue"]][:2]
        self._intend(op, _values(done))
        found = self._take(op, done)
        self._acked(done)
        return found

    # Workers

    def _worker(self, op: dict[str, Any]) -> Any:
        """Be a worker until nothing is left; every fourth value fails."""
        own, began = self.process.program, simulated.running.now_us
        names = op.get("names") or (op["queue"],)
        source = self.process.catalog.several(names) if "names" in op else self._queue(op)
        self._intend({**op, "do": "lease", "worker": self.name, "strike": None})
        self._intend({**op, "do": "extend"})

        def handle(item: Any) -> None:
            self._work_on(item, op, began)

        def on_end(item: Any, error: BaseException | None) -> None:
            if error is None:
                self.ledger.end(item.value, f"worked on by {self.name}")

        worker = own["service.tools.worker"].Worker(
            source,
            handle,
            threads=op["threads"],
            prefetch=op.get("prefetch", 1),
            seconds=op["seconds"],
            retry_delay_seconds=op["delay"],
            worker=self.name,
            on_end=on_end,
            presences=self.process.catalog.presences,
        )

        def run() -> None:
            try:
                worker.run()
            except KeyboardInterrupt:
                self.process.die()  # as the command does

        self.call(run)
        return f"{worker.handled} handled, {worker.failed} failed, {worker.lost} lost"

    _family_worker = _worker

    def _work_on(self, item: Any, op: dict[str, Any], began: int) -> None:
        self._note_taken([item], op, began)
        self.world.progress()
        error = ValueError(item.value)
        reason = self.process.program["exceptions"].text_of_error(error)
        self._intend({"do": "ack"}, [item.value])
        self._intend({"do": "requeue"}, [item.value])
        fails = op["fails"] if "fails" in op else not item.value % 4
        if fails:
            self._intend({"do": "nack", "reason": reason, "delay": op.get("delay")}, [item.value])
        if op.get("strike"):  # an interrupt ends the block
            why = {"reason": "KeyboardInterrupt", "delay": op.get("delay")}
            self._intend({"do": "nack", **why}, [item.value])
        simulated.running.sleep(op["rest"])
        if fails:
            raise error

    def _leased(self, op: dict[str, Any]) -> Any:
        """Lease an item for the length of a block, which fails perhaps."""
        began, worked = simulated.running.now_us, []
        self._intend({**op, "do": "lease", "strike": None})

        def block() -> None:
            with (
                contextlib.suppress(ValueError),
                self._queue(op).leased(seconds=op["seconds"]) as item,
            ):
                if item is not None:
                    worked.append(item)
                    self._work_on(item, op, began)

        self.call(block)
        if op["fails"] and self.world.cluster.faults.commit:
            self._intents.clear()  # the block's error hides that of a nack that may come later
        for item in worked if not op["fails"] else ():
            self.ledger.end(item.value, f"worked on by {self.name}")
        return _values(worked)

    def _wait_for_items(self, op: dict[str, Any]) -> Any:
        self.waits = (op["queue"],), False, simulated.running.now_us, self.process.options
        now, found = simulated.running.now_us, self.call(self._queue(op).wait_for_items, op["wait"])
        if not found:
            self.world.check_empty((op["queue"],), now)
        return found

    # What is leased

    def _chosen(self, op: dict[str, Any]) -> tuple[Any, Any, list[Any]] | None:
        """Return a queue, and one lease of it, or all leases of one; and their items."""
        is_through = "through" in op
        if op["do"].endswith("_many"):
            items = [one for one in self.held if one.queue == op["queue"]]
            queue = self._queue(op)
            return self.process.catalog.several([queue.name]) if is_through else queue, items, items
        if not self.held:
            return None
        item = self.held[op["which"] % len(self.held)]
        catalog = self.process.catalog
        queue = catalog.several([item.queue]) if is_through else catalog.queue(item.queue)
        return queue, item, [item]

    def _end(self, op: dict[str, Any]) -> Any:
        """Acknowledge, give up, requeue or extend one lease, or all of a queue."""
        kind, began = op["do"].partition("_")[0], simulated.running.now_us
        chosen = self._chosen(op)
        if chosen is None:
            return "nothing held"
        queue, leases, items = chosen
        if kind != "extend":
            self.held = [one for one in self.held if one not in items]
        self._intend(op, _values(items))
        options = self._once(op) | {
            key: op[key] for key in ("seconds", "delay", "retry", "reason") if key in op
        }
        try:
            found = self.call(getattr(queue, op["do"]), leases, **options)
        except self.process.program["exceptions"].LeaseLost:
            self._lose(items, began)
            raise
        lost = [one for one in items if one.lease in getattr(found, "lost", ())]
        self._lose(lost, began)
        kept = [one for one in items if one not in lost]
        if kind == "ack":
            self._acked(kept)
        return f"{_values(items)}, lost {_values(lost)}"

    def _lose(self, items: Iterable[Any], began_us: int) -> None:
        if self.world.model is not None:
            self.world.model.lost(items, began_us)

    _ack = _nack = _requeue = _extend = _ack_many = _nack_many = _extend_many = _end

    def _acked(self, items: Iterable[Any]) -> None:
        for item in items:
            self.ledger.end(number_of(item), f"acknowledged by {self.name}")
        self.held = [one for one in self.held if one not in items]

    # The rest

    def _task(self, op: dict[str, Any]) -> Any:
        return getattr(self.world.tasks, op["do"])(self, op)

    _enqueue = _enqueue_many = _group = _work = _abort = _abort_group = _result = _task

    def _remove(self, op: dict[str, Any]) -> Any:
        """Remove or bury a ready item by its id."""
        queue, is_removed = self._queue(op), op["do"] == "remove"
        items = self.call(queue.peek_many, 8)
        if not items:
            return "nothing ready"
        item = items[op["which"] % len(items)]
        options = {"reason": op["reason"]} if "reason" in op else {}
        self.call(getattr(queue, op["do"]), item.id, **options)
        if is_removed:
            self._acked([item])
        return number_of(item)

    _bury = _remove

    def _counted(self, op: dict[str, Any], state: str | None, verb: Any, **options: Any) -> Any:
        """Return how many items a verb says that it has changed: those that it is to, if alone."""
        is_known = state and self.world.is_alone and self.world.model
        meant = self.world.model.queues[op["queue"]].meant(op, state) if is_known else None
        found = self.call(verb, **options)
        number = self.world.model.left[state] if is_known else found
        most = number if meant is None else min(meant, op.get("limit", meant))
        if not found == number == most:
            simulated.running.fail(f"{op} has changed {number} items, and says {found}, of {meant}")
        return found

    def _remove_many(self, op: dict[str, Any]) -> Any:
        queue = self._queue(op)
        items = [*self.call(queue.page, limit=2).items, *queue.page(state="dead", limit=1).items]
        return self.call(queue.remove_many, [one.id for one in items])

    def _move(self, op: dict[str, Any]) -> Any:
        catalog = self.process.catalog
        source, target = catalog.queue(op["queue"]), catalog.queue(op["to"])
        if source is target:
            return "itself"
        options = {"priority": 1} if target.kind == "priority" != source.kind else {}
        if "streamed" in op:
            mover = self.process.program["service.tools.streams"].Mover
            stream = mover(source, target, limit=op["count"], batch_items=2, **options)
            return sum(iter(lambda: self.call(stream.next), 0))
        least, found = self._least((source.name,)), 0
        found = self.call(source.move_many, target, op["count"], **options)
        if not min(least, op["count"]) <= found <= op["count"]:
            simulated.running.fail(f"{op} has moved {found} items, of {least}")
        return found

    def _look(self, op: dict[str, Any]) -> Any:
        """Look in one of the ways there are; what is shown is what the model says."""
        began, queue = simulated.running.now_us, self._queue(op)
        if self.world.is_alone and self.world.model:
            with self.world._looking():
                self.world.model.queues[queue.name].look(queue)
        shown = self.call(LOOKS[op.get("how", "peek")], queue)
        for item in shown if isinstance(shown, list) else ():
            if item is not None:
                self.ledger.see(number_of(item), "a look")
                if not op.get("how", "peek").startswith("peek"):
                    self._answers([item], began)
        return _values(filter(None, shown)) if isinstance(shown, list) else shown

    def _by_hand(self, op: dict[str, Any]) -> Any:
        """Redrive, give back, make ready or clear what is named, or what there is of some kind."""
        queue, state, moment, ids = self._queue(op), *_BY_HAND[op["do"]]
        source = self.process.catalog.several([queue.name]) if "through" in op else queue
        how = {key: op[key] for key in ("limit", "reason", "worker", "spend") if key in op}
        state = op.get("state", state)
        if state != "dead":
            how.pop("reason", None)
        if "before" in op and (state == "dead" or op["do"] != "clear_state"):
            us = simulated.running.now_us + self.process.program.skew_us - int(op["before"] * 1e6)
            how[moment] = _EPOCH + datetime.timedelta(microseconds=us)
        if "named" in op and ids and source is queue:
            how[ids] = [one.id for one in self.call(queue.page, state=state, limit=2).items]
        args = [state] if "state" in op else []
        return self._counted(op, state, functools.partial(getattr(source, op["do"]), *args), **how)

    _redrive = _give_back = _run_now = _clear_state = _by_hand

    def _stranger(self, op: dict[str, Any]) -> Any:
        """Push into a queue to which others push in another format: one of these is the queue's."""
        service, kind = self.process.program["service"], ("fifo", "priority")[op["which"] % 2]
        spec = service.QueueSpec(STRANGE[op["which"] % 3], kind=kind)
        catalog = service.Catalog(self.process.database, ("sim",), [spec])
        priority = {"priority": 1} if kind == "priority" else {}
        pushed = self.call(catalog.queue(spec.name).push, 0, **priority)
        if self.world.strange.setdefault(spec.name, kind) != kind:
            simulated.running.fail(f"{spec.name} was pushed to in two formats")
        return pushed.id

    def _pause_family(self, op: dict[str, Any]) -> Any:
        for family in self.process.catalog.families():
            self.call(getattr(family, op["do"].partition("_")[0]))

    _resume_family = _pause_family

    def _think(self, op: dict[str, Any]) -> Any:
        simulated.running.sleep(op["wait"])

    def _fork(self, op: dict[str, Any]) -> Any:
        self.world.disturb(0)
        self.process.fork(self)

    def _clock(self, op: dict[str, Any]) -> Any:
        self.process.program.skew_us = int(op["ahead"] * 1e6)

    def _settings(self, op: dict[str, Any]) -> Any:
        self.process.set_options(op["options"])


def _interrupted(*, outcome_known: bool) -> KeyboardInterrupt:
    """Return the interrupt that says what a cancelled task has said."""
    error: Any = KeyboardInterrupt()
    error.outcome_known = outcome_known
    return error


def _shown(found: Any) -> Any:
    """Return what tells an answer from another: of items, their ids, values and leases."""
    if isinstance(found, list | tuple):
        return [*map(_shown, found)]
    return (found.id, found.value, found.lease) if hasattr(found, "attempts") else found


def _values(items: Iterable[Any]) -> list[Any]:
    return [item.value for item in items]


def number_of(item: Any) -> Any:
    """Return the value of an item; the number of a task, and its id if it enqueues others."""
    if not isinstance(item.value, dict):
        return item.value
    how = item.value["args"][-1]
    return how["id"] if isinstance(how, dict) else item.value["id"]
