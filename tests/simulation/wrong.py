"""Calls that must be refused, each with one argument that it may not be, and some at the limits.

Each is made in a transaction that is not committed, so it has no effect in either case. What must
be refused raises an error of its class, which says the argument or why.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Callable
from typing import Any

from tests.simulation.schedule import Found

_LONGEST, _LONG = 315_360_000, "x" * 1_000
_UTC, _NAIVE = datetime.timezone.utc, datetime.datetime(2000, 1, 1)  # noqa: DTZ001  # it is wrong
_DAY = datetime.timedelta(1)
_SECONDS = (-1, _LONGEST + 1, True, "1", math.nan), (0, _LONGEST, _DAY)
_LIMITS = (0, -1, 10_001, True, "1"), (1, 10_000)
_CIRCLE: list[Any] = []
_CIRCLE.append(_CIRCLE)
#: By argument: what it may not be, and what it may be at its limits.
_ARGUMENTS: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    "count": _LIMITS,
    "limit": _LIMITS,
    "end": (("up", "", None), ("min", "max")),
    "seconds": _SECONDS,
    "delay": _SECONDS,
    "not_before": (("1", _NAIVE), (_NAIVE.replace(tzinfo=_UTC),)),
    "wait": ((-1, "1", math.nan, True, 0.5), (None,)),
    "once": (("", 5, _LONG + "x"), (_LONG,)),
    "worker": (("", 5, "x" * 201, "a\n"), ("x" * 200, None)),
    "unique": (("", 5, _LONG + "x", "é" * 501), (_LONG, "é" * 500)),
    "unique_while": (("", "x", None), ("ready", "pending")),
    "state": (("x", "", None), ("ready", "leased", "delayed", "dead")),
    "order": (("x", "time"), ("place",)),
    "after": (("x", 5, "!"), (None,)),
    "minutes": ((0, 1_441, "1", True), (1, 1_440)),
    "ack": ((["x"], ["a.b"], ["a.b"] * 1_001), ([],)),
    "lease": (("x", 5, "a.b", "a.b.c"), ()),
    "item_id": (("x", 5, "!"), ()),
    "value": (
        (math.nan, {1: 2}, {"a": {5}}, "\ud800", _CIRCLE, "x" * 1_000_001),
        ({"a": [1.5, None]},),
    ),
    "priority": ((math.nan, "1", 2**63, -(2**63) - 1, True), (-(2**62), 2**62)),
}
_TAKE = {"count": 1}
#: The verbs, with what they are given beside what is drawn of these names.
_VERBS: dict[str, tuple[dict[str, Any], str]] = {
    "push": ({"value": 1, "unique": "z"}, "value priority delay not_before once"),
    "push_many": ({"items": [1]}, "delay not_before"),
    "pop_many": (_TAKE, "count end once wait"),
    "pop_max": ({}, "wait"),
    "lease_many": (_TAKE, "count end seconds worker once wait ack ack"),
    "peek_many": (_TAKE, "count end"),
    **dict.fromkeys(("ack", "extend", "requeue", "nack"), ({}, "lease")),
    **dict.fromkeys(("get", "has_item", "remove", "bury"), ({}, "item_id")),
    "page": ({}, "state order after limit end"),
    "history": ({"minutes": 1}, "minutes"),
    "by_priority": ({}, "limit"),
}
_GARBAGE = b"\xff\x00"
_ERRORS = ("InvalidInput", "InvalidValue", "InvalidPriority", "ValueTooLarge")
#: What errors call an argument.
_SAID = {"item_id": "id", "after": "id", "limit": "count"}


def check(queue: Any, dice: Any) -> None:
    """Make a call with an argument drawn at random."""
    verb = dice.choice([*_VERBS, "push", "push"])
    given, names = _VERBS[verb]
    argument = dice.choice([*names.split(), *(["unique", "unique_while"] * (verb == "push"))])
    is_other = argument == "value" and not queue.parts.store.codec.keeps_metadata
    if (verb == "by_priority" and queue.kind == "fifo") or is_other:
        return
    bad, good = _ARGUMENTS[argument]
    is_bad, value = dice.choice([(True, one) for one in bad] + [(False, one) for one in good])
    given = {"priority": 1, **given} if verb == "push" and queue.kind == "priority" else given
    given = {"items": [(1, 1)]} if verb == "push_many" and queue.kind == "priority" else given
    if argument == "priority" and queue.kind == "fifo":
        is_bad = True  # it has none
    if verb == "push_many" and argument == "delay" and queue.options.in_commit_order:
        return
    error = _refused(queue, getattr(queue, verb), {**given, argument: value})
    is_refused = type(error).__name__ in _ERRORS
    if not is_refused and (is_bad or error is not None):
        raise Found(f"{verb} with {argument} {value!r:.40} ended with {error!r}")
    said = error.context if is_refused else {}
    key = _SAID.get(argument, argument)
    if is_bad != is_refused or said.get("queue", queue.name) != queue.name:
        raise Found(f"{verb} with {argument} {value!r:.40} ended with {error!r}")
    is_said = said.get(key) is value or not isinstance(value, int | float) or "reason" in said
    if is_refused and not (is_said or argument in ("once", "worker", "unique")):
        raise Found(f"{verb} with {argument} {value!r:.40} says {said}")


def _refused(
    queue: Any, call: Callable[..., Any], options: dict[str, Any], within: Any = None
) -> Any:
    """Return the error of a call in a transaction that is not committed, its own or a given one."""
    tr = within or queue.database.create_transaction()
    try:
        call(**options, tr=tr)
    except Exception as error:  # noqa: BLE001  # it is looked at
        return error
    finally:
        if within is None:
            tr.cancel()
    return None


#: So many items of any size a peek returns at once.
_SEEN_AT_ONCE = 4


def check_corrupt(queue: Any, dice: Any, ready: list[bytes]) -> None:
    """Look at an item whose value another program has written, and take it out by its id."""
    key, keys = dice.choice(ready), queue.parts.store.keys
    item_id, tr = keys.id_of(keys.place_of(key)), queue.database.create_transaction()
    tr[key] = _GARBAGE
    try:
        shown = [one for one in queue.page(limit=100, tr=tr).items if one.id == item_id]
        for item in (queue.get(item_id, tr=tr), *shown):
            if getattr(item.value, "raw", b"")[: len(_GARBAGE)] != _GARBAGE:
                raise Found(f"{item} is shown, which is corrupt")
        error = _refused(queue, queue.peek_many, {"count": 10_000}, tr)
        is_all = len(ready) <= _SEEN_AT_ONCE or error is not None
        if is_all and (type(error).__name__ != "CorruptItem" or error.context["id"] != item_id):
            raise Found(f"{item_id} is corrupt, and a peek ended with {error!r}")
        queue.bury(item_id, reason="corrupt", tr=tr)
        item = queue.get(item_id, tr=tr)
        if (item.state, item.reason) != ("dead", "corrupt"):
            raise Found(f"{item} was buried")
        queue.remove(item_id, tr=tr)
        if queue.has_item(item_id, tr=tr):
            raise Found(f"{item} was removed")
    finally:
        tr.cancel()


#: What a task's options may not be, and what they may be.
_OF_TASKS: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    "priority": ((101, -101, "1"), (100, -100)),
    "expires": ((-1, "1", _NAIVE), (_NAIVE.replace(tzinfo=_UTC), _DAY, 1)),
    "unique_key": ((_LONG,), (_LONG[:900], None)),
    "unique_while": (("", "x", None), ("ready", "pending")),
    "concurrency_key": (("", "x" * 201, "{9}", 5), ("x" * 200, "{0[id]}", None)),
    "max_running": ((0, "1", True), (1, None)),
    "rate": (("1", "0/s", 5), ("1/s", "1000/d")),
    "max_attempts": ((0, "1", True), (1, None)),
    "timeout": ((0.5, 0, "1", True), (1, 600, None)),
    "run_after": ((), (_NAIVE.replace(tzinfo=_UTC),)),
    "args": (({5}, {"a": math.nan}, "\ud800"), ({}, [None, {"a": [1.5]}], "x" * 99)),
}


def _unique(call: Any) -> Any:
    return dataclasses.replace(call, task=dataclasses.replace(call.task, unique_key="x"))


_TASK_ERRORS = ("InvalidTaskError", "InvalidInput", "InvalidValue", "TypeError", "ValueError")
#: The errors of calls that are given a copy, its module of groups and the call of a task.
_REFUSED: tuple[tuple[str, Callable[[Any, Any, Any], Any]], ...] = (
    ("InvalidTaskError", lambda _, groups, __: groups.group([])),
    ("InvalidTaskError", lambda _, groups, call: groups.group([call, 5])),
    ("InvalidTaskError", lambda _, groups, __: groups.call(5)),
    ("InvalidTaskError", lambda _, groups, __: groups.chain()),
    ("InvalidTaskError", lambda _, groups, call: groups.group([call] * 7).enqueue()),
    ("InvalidTaskError", lambda _, groups, call: groups.group([call]).then(call).then(call)),
    ("InvalidTaskError", lambda _, groups, call: groups.group([_unique(call)]).enqueue()),
    ("TaskResultDoesNotExist", lambda own, *_: own["tasks.group_results"].group_result("x")),
    ("TaskResultDoesNotExist", lambda own, *_: own["tasks.aborts"].abort("x")),
    ("TaskResultDoesNotExist", lambda _, groups, __: groups.abort_group("x")),
)


def check_task(own: Any, dice: Any, made: Callable[..., Any]) -> None:
    """Enqueue a task, made by a function of its options, with an option drawn at random."""
    name = dice.choice([*_OF_TASKS])
    bad, good = _OF_TASKS[name]
    is_bad, value = dice.choice([(True, one) for one in bad] + [(False, one) for one in good])
    limits = {"max_running": 1} if name == "concurrency_key" else {}
    how = {"id": 0, "seconds": 0, "fails": 0}
    args = (value, how) if name == "args" else (how,)

    def enqueue(tr: Any) -> None:
        task = made(own, **limits) if name == "args" else made(own, **limits, **{name: value})
        own["tasks.running"].enqueue_in(tr, task, *args)

    backend = own["tasks.compat"].task_backends["default"]
    error = _refused(backend.catalog, enqueue, {})
    if (type(error).__name__ in _TASK_ERRORS) != is_bad or not (is_bad or error is None):
        raise Found(f"a task with {name} {value!r:.40} ended with {error!r}")
    for kind, call in _REFUSED:
        error = None
        try:
            call(own, own["tasks.groups"], own["tasks.groups"].call(made(own), how))
        except Exception as raised:  # noqa: BLE001  # it is looked at
            error = raised
        if type(error).__name__ != kind:
            raise Found(f"a call that ends with {kind} ended with {error!r}")
