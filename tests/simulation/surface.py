"""What of the public surface the clients of a run use: each verb and each option by its name.

A name is ``Queue.push``, or ``Queue.push(delay)`` for an option that is given and is not what it
would be otherwise. Only calls that clients make count, not those that the package makes of itself.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from tests.simulation.programs import Program

#: The classes whose public methods are verbs, by their modules.
_CLASSES = {
    "service.queues": ("Queue",),
    "service.several": ("SeveralQueues",),
    "service.tools.family": ("Family",),
    "service.catalog": ("Catalog",),
    "service.tools.worker": ("Worker",),
    "service.tools.streams": ("Batcher", "Mover"),
    "service.tools.keyed_push": ("KeyedPush",),
    "service.tools.alternating": ("AlternatingLeases",),
    "tasks.options": ("FdbQueueTask",),
    "tasks.backend": ("FdbQueueBackend",),
    "tasks.results": ("FdbQueueTaskResult",),
    "tasks.group_results": ("GroupResult",),
    "tasks.task_worker": ("TaskWorker",),
}
#: The modules of ``fdbqueue.tasks`` whose public functions projects call.
_FUNCTIONS = {
    "tasks.aborts": ("abort", "is_aborted"),
    "tasks.running": ("at_end", "enqueue_at_end", "enqueue_in"),
    "tasks.group_results": ("group_result",),
    "tasks.groups": ("abort_group", "call", "chain", "group"),
}
_CLIENTS = "tests.simulation."
#: What clients do not use, as patterns, by why.
LEFT_OUT = {
    "clients await takes, pushes and ends of leases: the rest in tests/contract/awaiting": (
        *("SeveralQueues.a[plnae]*", "FdbQueueTask.a*", "*.arefresh", "*.await_result*"),
    ),
    "parts of the package ask, not callers; what callers do reaches it": (
        *("Queue", "Queue(*", "SeveralQueues", "Family", "Family(*", "FdbQueueTask(queue_name)"),
        *("FdbQueueTask(backend)", "FdbQueueTask.key_of", "FdbQueueTask.get_backend"),
        *("FdbQueueBackend.[np]*", "FdbQueueBackend.owns", "FdbQueueBackend.claim"),
        *("FdbQueueBackend.enqueue_many*", "FdbQueueBackend.existing*"),
        *("FdbQueueBackend.limited_names", "FdbQueueBackend.found*"),
        *("FdbQueueTaskResult", "GroupResult", "GroupResult(*", "TaskWorker(catalog)"),
        *("SeveralQueues.look_in", "SeveralQueues.limited_to*", "SeveralQueues.queue_of"),
        *("Family.begin_paused", "Family.look_again*", "Family.names*", "Family.with_something*"),
        *("Catalog.[cikmnoprsu]*_*", "Catalog.index", "Catalog.matching", "Catalog.over"),
        *("Catalog.owner", "Catalog.spec", "Catalog.reach", "Catalog.home", "Catalog.each_name*"),
        "AlternatingLeases*",
    ),
    "it decides nothing about items: what a command prints, or how it is interrupted": (
        *("Worker(let_in)", "Worker(on_*)", "Worker(home_of)", "TaskWorker(let_in)"),
        *("TaskWorker(on_*)", "*(on_redriven)", "*(on_undecodable)", "*(on_removed)"),
        *("Queue.give_back(on_*)", "Queue.run_now(on_*)"),
        *("FdbQueueTask.check", "FdbQueueBackend.check", "FdbQueueBackend.validate_task"),
        "FdbQueueBackend.has_time_limits",
    ),
    "processes are ended: tests/tasks/test_time_limits.py": (
        *("TaskWorker(watch)", "TaskWorker(left)"),
    ),
    "its rows are in another database: tests/tasks/test_outbox_faults.py": (
        "FdbQueueBackend.outbox",
    ),
    "it is to come": (
        *("*(tr)", "*(not_before)", "*(beside)", "*(waits_while)", "*(reason)", "*(worker)"),
        *("*.give_back(on_*", "Queue.prepare*"),
        *("Queue.p[oe]*_m[ia][nx]*", "Queue.lease_m[ia][nx]*", "Queue.leased*"),
        *("Queue.*_many(once)", "*(to_lease)", "Queue.move_many(*"),
        *(
            "SeveralQueues.run_now(due_before)",
            "*.held_until*",
            "*.paused",
            "Queue.get*",
            "Queue.has_item*",
            "Queue.iterate*",
        ),
        *("Queue.by_priority*", "Queue.bury_corrupt", "Queue.redrive(*", "Queue.dead_by_reason*"),
        *("Queue.adopt_settings", "SeveralQueues.pop", "*.lease", "SeveralQueues.requeue"),
        *("SeveralQueues.pop(*", "SeveralQueues.lease(*", "SeveralQueues.ack*", "*.nack*"),
        *("SeveralQueues.extend*", "SeveralQueues.bury_corrupt", "SeveralQueues.wait_for_items*"),
        *("SeveralQueues.queues*", "SeveralQueues.size*", "SeveralQueues.count*", "*.run_now(on_*"),
        *("Catalog.several(*", "Catalog.sweep", "Catalog.family", "Catalog.names*"),
        *("Catalog.queues*", "Worker*", "Batcher*", "Mover*", "KeyedPush*"),
        *("FdbQueueTask.[uec]*", "FdbQueueTask([!nte]*", "*.get_result*", "*.refresh"),
        *("FdbQueueBackend.queue", "GroupResult.*", "TaskWorker(names)", "TaskWorker(excluded)"),
        *("TaskWorker(limit)", "TaskWorker.stop", "abort(*", "is_aborted", "group_result*"),
        *("abort_group(*", "option attention_seconds", "option choices", "option max_value_bytes"),
    ),
}


def unused(own: Program, seen: set[str]) -> tuple[list[str], list[str]]:
    """Return the names that are neither used nor left out, and the patterns that say nothing.

    A pattern says nothing if it is of no name, or if clients use what it is of, unless it is of
    many names: that it is to come may be said of the options of all verbs.
    """
    patterns = [one for some in LEFT_OUT.values() for one in some]
    rest = [name for name in surface(own) if name not in seen]
    missing = [name for name in rest if not any(fnmatchcase(name, one) for one in patterns)]
    return missing, [one for one in patterns if not any(fnmatchcase(name, one) for name in rest)]


def surface(own: Program) -> dict[str, None]:
    """Return the names of all public verbs and of all their options, in order."""
    found: dict[str, None] = {}
    for _, name, function in _verbs(own):
        found[name] = None
        found |= dict.fromkeys(f"{name}({option})" for option in _options(function))
    fields = own["service.options"].QueueOptions.__dataclass_fields__
    return found | dict.fromkeys(f"option {name}" for name in fields)


def _verbs(own: Program) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield the owner, the name and the function of each verb."""
    for module, classes in _CLASSES.items():
        for one in classes:
            owner = getattr(own[module], one)
            for name, function in vars(owner).items():
                is_verb = not name.startswith("_") or name == "__init__"
                # ``pop`` and ``peek`` are other names of ``pop_min`` and ``peek_min``
                is_alias = name in ("pop", "lease", "peek") and function.__name__ == f"{name}_min"
                if is_verb and inspect.isfunction(function) and not is_alias:
                    yield owner, one if name == "__init__" else f"{one}.{name}", function
    for module, names in _FUNCTIONS.items():
        for name in names:
            yield own[module], name, getattr(own[module], name)


def _options(function: Callable[..., Any]) -> Iterator[str]:
    """Yield the names of the arguments that a call need not give."""
    for name, one in inspect.signature(function).parameters.items():
        if one.kind is one.VAR_KEYWORD and "Unpack[" in str(one.annotation):
            keywords = str(one.annotation).partition("[")[2].rstrip("]")
            given = inspect.unwrap(function).__globals__[keywords]
            yield from given.__annotations__
        elif one.default is not one.empty:
            yield name


@contextlib.contextmanager
def recorded(programs: list[Program]) -> Iterator[set[str]]:
    """Note what clients call in copies of the package; yields the names."""
    seen: set[str] = set()
    before: list[tuple[Any, ...]] = []
    for own in programs:
        for owner, name, function in [*_verbs(own)]:
            attribute = function.__name__ if name == owner.__name__ else name.rpartition(".")[2]
            before.append((own, owner, attribute, function))
            own.put(owner, attribute, _noting(seen, name, function))
    try:
        yield seen
    finally:
        for own, owner, attribute, function in before:
            own.put(owner, attribute, function)


def _noting(seen: set[str], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    parameters = inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if sys._getframe(1).f_globals["__name__"].startswith(_CLIENTS):
            given = {**dict(zip(parameters, args, strict=False)), **options}
            seen.add(name)
            seen.update(
                f"{name}({key})"
                for key, value in given.items()
                if key not in parameters or value is not parameters[key].default
            )
        return function(*args, **options)

    return call
