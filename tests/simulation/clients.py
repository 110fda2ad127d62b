"""The clients of a run: each does its operations, and keeps an account of every value.

A value is pushed once, and counted from outside: what a call said of it, and what it left open.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.simulation import schedule as simulated

if TYPE_CHECKING:
    from tests.simulation.world import Process, World

#: A call takes so long at most, besides its wait and the latency of the engine.
_CALL_SECONDS = 60


@dataclass(eq=False)
class Taking:
    """Items that a call may have taken though it did not return them."""

    queues: tuple[str, ...]
    count: int
    began_us: int


@dataclass(eq=False)
class Clearing:
    """A removal of what is in some states of a queue, when it began and ended."""

    queue: str
    ended_us: int | None = None


@dataclass
class Ledger:
    """What became of each value.

    Attributes:
        pushed: The queue and the moment of each push that may have taken effect, by value.
        sure: Values whose push has returned.
        refused: Values that were certainly not pushed.
        gone: Values that are certainly gone, and how.
        perhaps_gone: How many calls may have removed a value.
        takings, clearings: What calls may have removed unseen.
    """

    pushed: dict[int, tuple[str, int]] = field(default_factory=dict)
    sure: dict[int, None] = field(default_factory=dict)
    refused: dict[int, None] = field(default_factory=dict)
    gone: dict[int, str] = field(default_factory=dict)
    perhaps_gone: Counter[int] = field(default_factory=Counter)
    takings: dict[Taking, None] = field(default_factory=dict)
    clearings: list[Clearing] = field(default_factory=list)

    def new(self, queue: str) -> int:
        """Return a value to push."""
        value = len(self.pushed) + 1
        self.pushed[value] = queue, simulated.running.now_us
        return value

    def end(self, value: int, how: str) -> None:
        """Note that a value is gone for good."""
        before = self.gone.get(value)
        if before is not None:
            simulated.running.fail(f"value {value} is gone twice: {before}, and {how}")
        self.gone[value] = how

    def see(self, value: Any, how: str) -> None:
        """Note that a call has returned a value."""
        if value not in self.pushed or value in self.refused:
            simulated.running.fail(f"{how} returned {value}, which was not pushed")


class Unclear(Exception):  # noqa: N818  # not an error of a call
    """A call ended, and it is not known whether it took effect."""


class Client:
    """One client: a thread of a process.

    Attributes:
        op: What it does now, None between two operations.
        waits: The names that it waits at, whether it waits to lease, since when,
            and with which options.
    """

    def __init__(self, world: World, number: int, process: Process, ops: list[dict[str, Any]]):
        self.world, self.process, self.ops = world, process, ops
        self.name = f"{process.name}/client{number}"
        self.number = number
        self.ledger = world.ledger
        self.held: list[Any] = []
        self.batches: list[Any] = []
        self.op: dict[str, Any] | None = None
        self.waits: tuple[tuple[str, ...], bool, int, dict[str, Any]] | None = None
        self.is_over = False
        self.thread: Any = None
        self._calls = 0

    def run(self) -> None:
        """Do all operations."""
        schedule = simulated.running
        for op in self.ops:
            self.op = op
            schedule.note(" ".join(str(one) for one in op.values()))
            self._arm(op)
            result = self._do(op)
            self.thread.alarm = self.thread.pending = None
            self.waits = self.op = None
            self.world.progress()
            schedule.note(f"-> {result}")
        self.is_over = True

    def _do(self, op: dict[str, Any]) -> str:
        schedule = simulated.running
        limit_us = int((op.get("wait", 0) + _CALL_SECONDS) * 1e6) + 10 * self.world.longest_us
        began = schedule.now_us
        try:
            result = getattr(self, f"_{op['do']}")(op)
        except Unclear as error:
            result = f"unclear: {error}"
        except KeyboardInterrupt:
            result = "interrupted"
        except self.process.errors as error:
            result = f"{type(error).__name__}"
        if schedule.now_us - began > limit_us + self.world.slept_us:
            schedule.fail(f"{op['do']} took {(schedule.now_us - began) / 1e6} seconds")
        return str(result)

    # Strikes

    def _arm(self, op: dict[str, Any]) -> None:
        strike = op.get("strike")
        if strike is None:
            return
        schedule, thread = simulated.running, self.thread

        def act() -> None:
            schedule.note(f"{self.name} is struck: {strike['what']}")
            self.world.disturb(strike.get("sleeps", 0))
            if strike["what"] == "interrupt":
                raise KeyboardInterrupt
            if strike["what"] == "sleep":
                schedule.sleep(strike["sleeps"])
            else:
                self.process.die()

        def act_later() -> None:
            if self.op is op and not thread.is_gone:
                thread.pending = act
                if strike["what"] != "sleep":
                    schedule.wake(thread)

        if "turns" in strike:
            thread.alarm = strike["turns"], act
        else:
            schedule.at(schedule.now_us + int(strike["seconds"] * 1e6), act_later)

    # Calls

    def _call(
        self,
        function: Callable[..., Any],
        *args: Any,
        allowed: tuple[str, ...] = (),
        undo: Callable[[], None] = lambda: None,
        **options: Any,
    ) -> Any:
        """Make a call; ``undo`` is called if it certainly had no effect.

        Raises:
            Unclear: It is not known whether it had any.
        """
        error: BaseException
        is_known = True
        for _ in range(3):
            try:
                return function(*args, **options)
            except KeyboardInterrupt as raised:
                error = raised
                is_known = is_known and getattr(raised, "outcome_known", False)
            except Exception as raised:  # noqa: BLE001  # each is looked at
                error = raised
                is_known = self._is_known(raised, allowed) and is_known
            if is_known or options.get("once") is None:
                break
            self.world.note(f"again: {error!r}")
        if is_known:
            undo()
            raise error
        raise Unclear(repr(error)[:60]) from error

    def _is_known(self, error: Exception, allowed: tuple[str, ...]) -> bool:
        """Tell whether an error says that nothing happened; an error that must not be is found."""
        kind = type(error).__name__
        if kind in ("OutcomeUnknown", "PushInterrupted"):
            return False
        if kind == "FDBError" and error.code in self.world.raised:  # type: ignore[attr-defined]
            return True
        if not isinstance(error, self.process.errors) or kind not in (
            *allowed,
            *self.world.allowed,
        ):
            simulated.running.fail(f"{self.op} raised {error!r}")
        return bool(getattr(error, "outcome_known", True))

    def _once(self, op: dict[str, Any]) -> dict[str, Any]:
        self._calls += 1
        return {"once": f"{self.number}-{self._calls}"} if op.get("once") else {}

    def _queue(self, op: dict[str, Any]) -> Any:
        return self.process.catalog.queue(op["queue"])

    # Pushes

    def _push(self, op: dict[str, Any]) -> Any:
        queue = self._queue(op)
        value = self.ledger.new(op["queue"])
        options: dict[str, Any] = {"delay": op.get("delay"), **self._once(op)}
        if "unique" in op:
            options |= {"unique": op["unique"], "unique_while": op["while"]}
        priority = [op["priority"]] if queue.kind == "priority" else []
        undo = self._refusing([value])
        item = self._call(queue.push, value, *priority, undo=undo, **options)
        if item.existing:
            self.ledger.see(item.value, "a push that found its key")
            undo()
            return f"found {item.value}"
        self.ledger.sure[value] = None
        return value

    def _push_many(self, op: dict[str, Any]) -> Any:
        queue = self._queue(op)
        values = [self.ledger.new(op["queue"]) for _ in range(op["count"])]
        items = [(one, op["priority"]) if queue.kind == "priority" else one for one in values]
        self._call(
            queue.push_many,
            items,
            delay=op.get("delay"),
            undo=self._refusing(values),
            allowed=("PushInterrupted",),
        )
        self.ledger.sure.update(dict.fromkeys(values))
        return values

    def _push_batch(self, op: dict[str, Any]) -> Any:
        queue = self._queue(op)
        values = [self.ledger.new(op["queue"]) for _ in range(op["count"])]
        priority = {"priority": op["priority"]} if queue.kind == "priority" else {}
        push = self.process.program["service.items"].Push
        pushes = [push(one, delay=op.get("delay"), **priority) for one in values]
        self._call(queue.push_batch, pushes, undo=self._refusing(values))
        self.ledger.sure.update(dict.fromkeys(values))
        return values

    def _refusing(self, values: list[int]) -> Callable[[], None]:
        return lambda: self.ledger.refused.update(dict.fromkeys(values))

    # Takes

    def _take(
        self,
        op: dict[str, Any],
        take: Callable[..., list[Any]],
        names: Iterable[str],
        *,
        leases: bool,
        **options: Any,
    ) -> list[Any]:
        taking = Taking(tuple(names), op["count"], simulated.running.now_us)
        self.ledger.takings[taking] = None
        options |= self._once(op)
        if "wait" in op:
            options["wait"] = op["wait"]
            self._wait(taking.queues, leases=leases)
        items = self._call(
            take,
            op["count"],
            end=op["end"],
            undo=lambda: self.ledger.takings.pop(taking),
            **options,
        )
        self.waits = None
        del self.ledger.takings[taking]
        if len(items) > op["count"]:
            simulated.running.fail(f"{op} returned {len(items)} items")
        for item in items:
            self.ledger.see(item.value, op["do"])
        return items

    def _wait(self, names: tuple[str, ...], *, leases: bool) -> None:
        self.waits = names, leases, simulated.running.now_us, self.process.options

    def _pop(self, op: dict[str, Any]) -> Any:
        return self._pop_from(op, self._queue(op).pop_many, [op["queue"]])

    def _family_pop(self, op: dict[str, Any]) -> Any:
        return self._pop_from(op, self.process.catalog.several(op["names"]).pop_many, op["names"])

    def _pop_from(self, op: dict[str, Any], pop: Any, names: Iterable[str]) -> Any:
        items = self._take(op, pop, names, leases=False)
        for item in items:
            self.ledger.end(item.value, f"popped by {self.name}")
        return [item.value for item in items]

    def _lease(self, op: dict[str, Any]) -> Any:
        return self._lease_from(op, self._queue(op).lease_many, [op["queue"]])

    def _family_lease(self, op: dict[str, Any]) -> Any:
        several = self.process.catalog.several(op["names"])
        return self._lease_from(op, several.lease_many, op["names"])

    def _lease_ack(self, op: dict[str, Any]) -> Any:
        done = [one for one in self.held if one.queue == op["queue"]][:2]
        self._perhaps(done, 1)
        lease = functools.partial(self._queue(op).lease_many, ack=done)
        try:
            found = self._lease_from(op, lease, [op["queue"]])
        except Unclear:
            raise
        except BaseException as error:
            if not getattr(error, "acknowledged", False):
                self._perhaps(done, -1)
            raise
        self._acked(done)
        return found

    def _lease_from(self, op: dict[str, Any], lease: Any, names: Iterable[str]) -> Any:
        items = self._take(
            op, lease, names, leases=True, seconds=op["seconds"], allowed=("LeaseLost",)
        )
        self.held += items
        return [item.value for item in items]

    def _wait_for_items(self, op: dict[str, Any]) -> Any:
        self._wait((op["queue"],), leases=False)
        return self._call(self._queue(op).wait_for_items, op["wait"])

    # What is leased

    def _one(self, op: dict[str, Any]) -> Any:
        return self.held[op["which"] % len(self.held)] if self.held else None

    def _end(self, op: dict[str, Any], verb: str, **options: Any) -> Any:
        item = self._one(op)
        if item is None:
            return "nothing held"
        queue = self.process.catalog.queue(item.queue)
        if verb != "extend":
            self.held.remove(item)
        self._call(getattr(queue, verb), item, allowed=("LeaseLost",), **self._once(op), **options)
        return item.value

    def _ack(self, op: dict[str, Any]) -> Any:
        item = self._one(op)
        if item is None:
            return "nothing held"
        self._perhaps([item], 1)
        try:
            self._end(op, "ack")
        except Unclear:
            raise
        except BaseException:
            self._perhaps([item], -1)
            raise
        self._acked([item])
        return item.value

    def _nack(self, op: dict[str, Any]) -> Any:
        return self._end(op, "nack", delay=op.get("delay"), retry=op.get("retry", True))

    def _requeue(self, op: dict[str, Any]) -> Any:
        return self._end({**op, "once": False}, "requeue")

    def _extend(self, op: dict[str, Any]) -> Any:
        return self._end(op, "extend", seconds=op["seconds"])

    def _some(self, op: dict[str, Any]) -> list[Any]:
        return [one for one in self.held if one.queue == op["queue"]]

    def _ack_many(self, op: dict[str, Any]) -> Any:
        items = self._some(op)
        self._perhaps(items, 1)
        undo = lambda: self._perhaps(items, -1)  # noqa: E731
        held = self._call(self._queue(op).ack_many, items, undo=undo)
        lost = [one for one in items if one.lease in held.lost]
        self._perhaps(lost, -1)
        self._acked([one for one in items if one not in lost])
        self.held = [one for one in self.held if one not in items]
        return held

    def _nack_many(self, op: dict[str, Any]) -> Any:
        items = self._some(op)
        self.held = [one for one in self.held if one not in items]
        return self._call(self._queue(op).nack_many, items, delay=op.get("delay"))

    def _extend_many(self, op: dict[str, Any]) -> Any:
        return self._call(self._queue(op).extend_many, self._some(op), op["seconds"])

    def _perhaps(self, items: Iterable[Any], change: int) -> None:
        for item in items:
            self.ledger.perhaps_gone[item.value] += change

    def _acked(self, items: Iterable[Any]) -> None:
        for item in items:
            self.ledger.perhaps_gone[item.value] -= 1
            self.ledger.end(item.value, f"acknowledged by {self.name}")
        self.held = [one for one in self.held if one not in items]

    # The rest

    def _think(self, op: dict[str, Any]) -> Any:
        simulated.running.sleep(op["wait"])

    def _look(self, op: dict[str, Any]) -> Any:
        queue = self._queue(op)
        first, size = self._call(queue.peek), self._call(queue.size)
        if first is not None:
            self.ledger.see(first.value, "peek")
        return f"{first and first.value} of {size}, {len(self._call(queue.page, limit=3).items)}"

    def _pause(self, op: dict[str, Any]) -> Any:
        self._call(self._queue(op).pause)

    def _resume(self, op: dict[str, Any]) -> Any:
        return self._call(self._queue(op).resume)

    def _pause_family(self, op: dict[str, Any]) -> Any:
        for family in self.process.catalog.families():
            self._call(family.pause)

    def _resume_family(self, op: dict[str, Any]) -> Any:
        for family in self.process.catalog.families():
            self._call(family.resume)

    def _clear(self, op: dict[str, Any]) -> Any:
        self._clearing(op, self._queue(op).clear)

    def _clear_state(self, op: dict[str, Any]) -> Any:
        return self._clearing(op, self._queue(op).clear_state, op["state"])

    def _clearing(self, op: dict[str, Any], clear: Any, *args: Any) -> Any:
        clearing = Clearing(op["queue"])
        self.ledger.clearings.append(clearing)
        try:
            return self._call(clear, *args)
        except Unclear:
            raise
        finally:
            clearing.ended_us = simulated.running.now_us + self.world.longest_us

    def _ready(self, op: dict[str, Any]) -> Any:
        items = self._call(self._queue(op).peek_many, 8)
        return items[op["which"] % len(items)] if items else None

    def _remove(self, op: dict[str, Any]) -> Any:
        item = self._ready(op)
        if item is None:
            return "nothing ready"
        self._perhaps([item], 1)
        undo = lambda: self._perhaps([item], -1)  # noqa: E731
        self._call(self._queue(op).remove, item.id, allowed=("ItemNotFound",), undo=undo)
        self._acked([item])
        return item.value

    def _bury(self, op: dict[str, Any]) -> Any:
        item = self._ready(op)
        if item is not None:
            self._call(self._queue(op).bury, item.id, allowed=("ItemNotFound",))
        return item and item.value

    def _redrive(self, op: dict[str, Any]) -> Any:
        return self._call(self._queue(op).redrive)

    def _recount(self, op: dict[str, Any]) -> Any:
        return self._call(self._queue(op).recount)

    def _sweep(self, op: dict[str, Any]) -> Any:
        return self._call(self._queue(op).sweep)

    def _move(self, op: dict[str, Any]) -> Any:
        catalog = self.process.catalog
        source, target = catalog.queue(op["queue"]), catalog.queue(op["to"])
        if source is target:
            return "itself"
        options = {"priority": 1} if target.kind == "priority" != source.kind else {}
        return self._call(source.move_many, target, op["count"], **options)

    def _batch(self, op: dict[str, Any]) -> Any:
        queue = self._queue(op)
        batch = self._call(queue.lease_batch, op["count"], seconds=op["seconds"])
        if batch:
            self.batches.append((queue, batch))
        return [item.value for item in batch]

    def _ack_batch(self, op: dict[str, Any]) -> Any:
        if not self.batches:
            return "no batch"
        queue, batch = self.batches.pop(op["which"] % len(self.batches))
        self._perhaps(batch, 1)
        undo = lambda: self._perhaps(batch, -1)  # noqa: E731
        self._call(queue.ack_batch, batch, allowed=("LeaseLost",), undo=undo)
        self._acked(list(batch))
        return len(batch)

    def _return_batch(self, op: dict[str, Any]) -> Any:
        if not self.batches:
            return "no batch"
        queue, batch = self.batches.pop(op["which"] % len(self.batches))
        self._call(queue.return_batch, batch, allowed=("LeaseLost",))
        return len(batch)

    def _fork(self, op: dict[str, Any]) -> Any:
        self.world.disturb(0)
        self.process.fork(self)

    def _clock(self, op: dict[str, Any]) -> Any:
        self.process.program.skew_us = int(op["ahead"] * 1e6)

    def _settings(self, op: dict[str, Any]) -> Any:
        self.process.set_options(op["options"])
