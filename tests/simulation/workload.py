"""What simulated clients do: a plan is drawn from a seed, and is data that can be cut and printed.

Swarm testing: each plan leaves out most verbs, options and faults, so that those that are left meet
often. A plan has queues with their options, processes (a shift of the clock, and options that
differ), and clients: the operations of a thread of a process. An operation may be struck: after
some turns or seconds of it its thread is interrupted or sleeps for long, or its process dies.
"""

from __future__ import annotations

import random
from typing import Any

PATTERN = "m-*"
_SECONDS = (0.2, 1, 5, 30)
_SKEWS = (-2, -0.5, 0.5, 2, 600, 7200)
_RATES = ("10/s", "2/s", "30/m")


def draw_plan(seed: int) -> dict[str, Any]:
    """Return the plan of a seed."""
    dice = random.Random(f"plan {seed}")
    has_family = dice.random() < 0.6
    names = [f"m-{letter}" for letter in "abcd"[: dice.choice((1, 2, 4))]] if has_family else []
    names += ["p", "q"][: dice.randint(0 if names else 1, 2)]
    is_plain = dice.random() < 0.3
    patterns = [name for name in names if not name.startswith("m-")] + [PATTERN] * has_family
    queues = {one: {"kind": "fifo"} if is_plain else _options(dice) for one in patterns}
    processes = [_process(dice, queues) for _ in range(dice.choice((1, 1, 1, 2, 3)))]
    faulty = dice.random() < 0.6
    plan = {
        "switch": dice.choice((0.02, 0.1, 0.3, 0.6)),
        "faults": {
            "commit": dice.choice((0, 0, 0.05, 0.3)) if faulty else 0,
            "read": dice.choice((0, 0, 0.02)) if faulty else 0,
            "slow": dice.choice((0, 0.02, 0.2)),
            "longest": dice.choice((0.02, 0.5, 8.0)),
            "watch": dice.choice((0, 0, 0.3)) if faulty else 0,
        },
        "queues": queues,
        "processes": processes,
        "drain": {"verb": dice.choice(("pop", "lease")), "limits": dice.random() < 0.5},
        "clients": [],
    }
    verbs = _verbs(dice)
    if plan["faults"]["slow"] and plan["faults"]["longest"] > 1:
        verbs = [verb for verb in verbs if verb != "recount"]  # exact if it reads in two seconds
    most, strikes = dice.choice((6, 12, 25)), dice.choice((0, 0, 0.02, 0.1))
    if dice.random() < 0.4:
        names += names[:1] * len(names)  # most of what happens is at one queue
    delayed = dice.choice((0, 0.3, 0.6))
    kinds = dice.sample(("interrupt", "die", "sleep"), dice.randint(1, 3))
    for number in range(dice.choice((1, 2, 3, 4, 6, 6))):
        process = number % len(processes)
        ops = [_op(dice, dice.choice(verbs), names, delayed) for _ in range(dice.randint(2, most))]
        for op in ops:
            if dice.random() < strikes:
                op["strike"] = _strike(dice, dice.choice(kinds))
        plan["clients"].append({"process": process, "ops": ops})
    return plan


def _options(dice: random.Random) -> dict[str, Any]:
    options: dict[str, Any] = {"kind": dice.choice(("fifo", "fifo", "priority"))}
    if dice.random() < 0.3:
        options["max_leased"] = dice.randint(1, 2)
    if dice.random() < 0.2:
        options["rate"], options["burst"] = dice.choice(_RATES), dice.randint(1, 2)
    if dice.random() < 0.5:
        options["max_attempts"] = dice.randint(1, 3)
    if dice.random() < 0.15:
        options["shards"] = 2
    if dice.random() < 0.15:
        options["order"] = "commit"
    if dice.random() < 0.3:
        options["handoff_timeout_seconds"] = 1
    return options


def _process(dice: random.Random, queues: dict[str, Any]) -> dict[str, Any]:
    process: dict[str, Any] = {}
    if dice.random() < 0.15:
        process["skew"] = dice.choice(_SKEWS)
    if dice.random() < 0.2:
        name = dice.choice(sorted(queues))
        process["options"] = {name: {"max_leased": dice.choice((None, 1, 3)), "rate": None}}
    return process


#: The verbs, each with how often it is drawn if it is there; the first are nearly always.
_ALL_VERBS = {
    "push": 6, "pop": 4, "lease": 4, "ack": 4, "think": 2, "family_pop": 3, "family_lease": 3,
    "nack": 2, "extend": 1, "requeue": 1, "push_many": 1, "push_batch": 1, "ack_many": 1,
    "nack_many": 1, "extend_many": 1, "lease_ack": 2, "pause": 1, "resume": 2, "pause_family": 1,
    "resume_family": 2, "clear": 1, "clear_state": 1, "remove": 1, "bury": 1, "redrive": 1,
    "recount": 1, "sweep": 1, "move": 2, "batch": 1, "ack_batch": 1, "return_batch": 1,
    "wait_for_items": 1, "look": 1, "settings": 1, "fork": 1, "clock": 1,
}


def _verbs(dice: random.Random) -> list[str]:
    if dice.random() < 0.5:  # few, which meet all the more
        few = dice.choices([*_ALL_VERBS], [*_ALL_VERBS.values()], k=dice.randint(1, 3))
        few.append(dice.choice(("pop", "lease", "family_pop", "family_lease")))
        return ["push"] * dice.randint(1, 3) + few
    share = dice.choice((0.2, 0.4, 0.8))
    verbs = ["push"] * 5
    for place, (verb, weight) in enumerate(_ALL_VERBS.items()):
        if dice.random() < (0.8 if place < 7 else share):
            verbs += [verb] * weight
    return verbs


def _strike(dice: random.Random, kind: str) -> dict[str, Any]:
    strike: dict[str, Any] = {"what": kind}
    if dice.random() < 0.3:
        strike["seconds"] = round(dice.random() * 3, 3)
    else:
        strike["turns"] = int(dice.expovariate(1 / 40))
    if kind == "sleep":
        strike["sleeps"] = dice.choice((0.5, 6, 40, 100))
    return strike


def _op(dice: random.Random, verb: str, names: list[str], delayed: float) -> dict[str, Any]:
    op: dict[str, Any] = {"do": verb, "queue": dice.choice(names)}
    names = sorted({*names})
    members = [name for name in names if name.startswith("m-")]
    if verb.startswith("family"):
        op["names"] = _names(dice, names, members)
        del op["queue"]
    if verb in ("pop", "lease", "family_pop", "family_lease", "lease_ack"):
        op["count"] = dice.choice((1, 1, 1, 2, 5))
        op["end"] = dice.choice(("min", "min", "min", "max"))
        if dice.random() < 0.5:
            op["wait"] = dice.choice((0.1, 1, 7, 20))
    if verb in ("lease", "family_lease", "lease_ack", "batch", "extend", "extend_many"):
        op["seconds"] = dice.choice(_SECONDS)
    if verb in ("push", "push_many", "push_batch"):
        op["count"] = 1 if verb == "push" else dice.randint(1, 4)
        if dice.random() < delayed:
            op["delay"] = dice.choice((0.001, 0.1, 1, 5))
        op["priority"] = dice.randint(0, 2)
        if verb == "push" and dice.random() < 0.15:
            op["unique"] = dice.choice("xy")
            op["while"] = dice.choice(("ready", "pending"))
    if verb in ("push", "pop", "lease", "ack", "family_pop", "family_lease", "nack"):
        if dice.random() < 0.1:
            op["once"] = True
    if verb in ("nack", "nack_many") and dice.random() < 0.5:
        op["delay"] = dice.choice((0.1, 2, 10))
    if verb == "nack" and dice.random() < 0.2:
        op["retry"] = False
    if verb in ("ack", "nack", "extend", "requeue", "remove", "bury", "ack_batch", "return_batch"):
        op["which"] = dice.randrange(8)
    if verb == "move":
        op["to"], op["count"] = dice.choice(names), dice.randint(1, 3)
    if verb == "batch":
        op["count"] = dice.randint(1, 4)
    if verb in ("think", "wait_for_items"):
        op["wait"] = dice.choice((0.001, 0.01, 0.3, 2, 7, 40))
    if verb == "clear_state":
        op["state"] = dice.choice(("ready", "leased", "delayed", "dead"))
    if verb == "clock":
        op["ahead"] = dice.choice(_SKEWS)
    if verb == "settings":
        op["options"] = {"max_leased": dice.choice((None, 1, 3)), "rate": None}
    return op


def _names(dice: random.Random, names: list[str], members: list[str]) -> list[str]:
    plain = [name for name in names if name not in members]
    chosen = [PATTERN] if members else []
    if plain and (not chosen or dice.random() < 0.4):
        chosen += plain
    if members and dice.random() < 0.1:
        chosen = members
    return chosen


def lines(plan: dict[str, Any]) -> list[str]:
    """Return a plan as lines to read."""
    facts = {key: value for key, value in plan["faults"].items() if value}
    found = [f"switch {plan['switch']}, faults {facts}, drain {plan['drain']}"]
    found += [f"queue {name}: {options}" for name, options in plan["queues"].items()]
    found += [f"process {at}: {one}" for at, one in enumerate(plan["processes"]) if one]
    for at, client in enumerate(plan["clients"]):
        for op in client["ops"]:
            facts = ", ".join(f"{key} {value}" for key, value in op.items() if key != "do")
            found.append(f"client {at} of process {client['process']}: {op['do']} {facts}")
    return found
