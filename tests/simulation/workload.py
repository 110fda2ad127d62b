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
_SKEWS = (-2, -0.5, 0.5, 2, 600, 7200)
_RATES = ("10/s", "2/s", "30/m")


def draw_plan(seed: int) -> dict[str, Any]:
    """Return the plan of a seed."""
    dice = random.Random(f"plan {seed}")
    is_crowd = dice.random() < 0.2  # many threads of one process at the heads of a family
    has_family = is_crowd or dice.random() < 0.7
    members = 4 if is_crowd else dice.choice((1, 2, 4)) * has_family
    names = [f"m-{letter}" for letter in "abcd"[:members]]
    names += ["p", "q"][: 0 if is_crowd else dice.randint(0 if names else 1, 2)]
    is_plain = dice.random() < 0.3
    patterns = [name for name in names if not name.startswith("m-")] + [PATTERN] * has_family
    queues = {one: {"kind": "fifo"} if is_plain else _options(dice) for one in patterns}
    processes = [
        _process(dice, queues) for _ in range(1 if is_crowd else dice.choice((1, 1, 1, 2, 3)))
    ]
    faulty = not is_crowd and dice.random() < 0.6
    plan = {
        "switch": dice.choice((0.02, 0.1, 0.3, 0.6)),
        "faults": {
            "commit": dice.choice((0, 0, 0.05, 0.3)) if faulty else 0,
            "read": dice.choice((0, 0, 0.02)) if faulty else 0,
            "slow": dice.choice((0, 0.02, 0.2)),
            "longest": dice.choice((0.02, 0.5, 3.0)),
            "watch": dice.choice((0, 0, 0.3)) if faulty else 0,
        },
        "queues": queues,
        "processes": processes,
        "drain": {"verb": dice.choice(("pop", "lease")), "limits": dice.random() < 0.5},
        "clients": [],
    }
    most, strikes = dice.choice((6, 12, 25)), dice.choice((0, 0, 0.02, 0.1))
    if is_crowd or dice.random() < 0.4:
        names += names[:1] * len(names)  # most of what happens is at one queue
    draw = _Draw(dice, names, is_crowd=is_crowd)
    if plan["faults"]["slow"] and plan["faults"]["longest"] > 1:
        draw.leave_out("recount")  # which is exact if it reads within two seconds
    kinds = dice.sample(("interrupt", "die", "sleep"), dice.randint(1, 3))
    for number in range(6 if is_crowd else dice.choice((1, 2, 3, 4, 6))):
        ops = [draw.op() for _ in range(20 if is_crowd else dice.randint(2, most))]
        for op in ops:
            if dice.random() < strikes:
                op["strike"] = _strike(dice, dice.choice(kinds))
        plan["clients"].append({"process": number % len(processes), "ops": ops})
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
    "push": 6,
    "pop": 4,
    "lease": 4,
    "ack": 4,
    "think": 2,
    "family_pop": 3,
    "family_lease": 3,
    "nack": 2,
    "extend": 1,
    "requeue": 1,
    "push_many": 1,
    "push_batch": 1,
    "ack_many": 1,
    "nack_many": 1,
    "extend_many": 1,
    "lease_ack": 2,
    "pause": 1,
    "resume": 2,
    "pause_family": 1,
    "resume_family": 2,
    "clear": 1,
    "clear_state": 1,
    "remove": 1,
    "bury": 1,
    "redrive": 1,
    "recount": 1,
    "sweep": 1,
    "move": 2,
    "batch": 1,
    "ack_batch": 1,
    "return_batch": 1,
    "wait_for_items": 1,
    "look": 1,
    "settings": 1,
    "fork": 1,
    "clock": 1,
}


#: The verbs that meet at the heads of queues.
_TAKES = (
    "pop",
    "lease",
    "family_pop",
    "family_lease",
    "family_pop",
    "family_lease",
    "think",
    "ack",
)
#: What the arguments of operations are drawn from; a plan leaves some of these out, too.
_VALUES: dict[str, tuple[Any, ...]] = {
    "count": (1, 1, 1, 2, 5),
    "end": ("min", "min", "min", "max"),
    "wait": (0.1, 1, 7, 20),
    "seconds": (0.2, 1, 5, 30),
    "delay": (0.001, 0.1, 1, 5),
    "think": (0.001, 0.01, 0.3, 2, 7, 40),
    "priority": (0, 1, 2),
    "unique": ("x", "y"),
    "while": ("ready", "pending"),
    "state": ("ready", "leased", "delayed", "dead"),
    "ahead": _SKEWS,
    "max_leased": (None, 1, 3),
}


class _Draw:
    """Draws the operations of a plan."""

    def __init__(self, dice: random.Random, names: list[str], *, is_crowd: bool) -> None:
        self._dice, self._names = dice, names
        self._members = [name for name in dict.fromkeys(names) if name.startswith("m-")]
        self._plain = [name for name in dict.fromkeys(names) if name not in self._members]
        self._values = {
            name: dice.sample(values, dice.randint(1, len(values)))
            for name, values in _VALUES.items()
        }
        self._rates = {
            name: dice.choice((0, 0.3, 0.6)) for name in ("delay", "wait", "once", "unique")
        }
        if is_crowd:
            take = dice.choice(("pop", "pop", "lease"))
            self._verbs = ["push"] * 5 + [take] * 4 + [f"family_{take}"] * 9 + ["think"] * 2
            self._values |= {"think": [0.001, 0.01], "end": ["min"], "count": [1]}
            self._rates |= {"wait": 0, "once": 0, "unique": 0}
        elif dice.random() < 0.5:  # few verbs, which meet all the more
            pool = [*_TAKES] if dice.random() < 0.5 else [*_ALL_VERBS]
            self._verbs = dice.sample(pool, dice.randint(1, 4)) + ["push"] * dice.randint(1, 3)
            self._verbs.append(
                dice.choice(("pop", "lease", "family_pop", "family_lease", "family_pop"))
            )
        else:
            share = dice.choice((0.2, 0.4, 0.8))
            self._verbs = ["push"] * 5
            for place, (verb, weight) in enumerate(_ALL_VERBS.items()):
                self._verbs += (
                    [verb] * weight if dice.random() < (0.8 if place < 7 else share) else []
                )

    def leave_out(self, verb: str) -> None:
        """Draw no such operations."""
        self._verbs = [one for one in self._verbs if one != verb]

    def op(self) -> dict[str, Any]:
        """Return an operation."""
        dice, verb = self._dice, self._dice.choice(self._verbs)
        op: dict[str, Any] = {"do": verb, "queue": dice.choice(self._names)}
        if verb.startswith("family"):
            op["names"] = self._several()
            del op["queue"]
        if verb in ("pop", "lease", "family_pop", "family_lease", "lease_ack"):
            self._give(op, "count", "end")
            self._perhaps(op, "wait")
        if verb in ("lease", "family_lease", "lease_ack", "batch", "extend", "extend_many"):
            self._give(op, "seconds")
        if verb in ("push", "push_many", "push_batch"):
            self._give(op, "priority")
            self._perhaps(op, "delay")
            op["count"] = 1 if verb == "push" else dice.randint(1, 4)
        if verb == "push" and dice.random() < self._rates["unique"] / 2:
            self._give(op, "unique", "while")
        if verb in ("nack", "nack_many"):
            self._perhaps(op, "delay")
        if verb in ("push", "pop", "lease", "ack", "family_pop", "family_lease", "nack"):
            if dice.random() < self._rates["once"] / 3:
                op["once"] = True
        if verb == "nack" and dice.random() < 0.2:
            op["retry"] = False
        if verb in (
            "ack",
            "nack",
            "extend",
            "requeue",
            "remove",
            "bury",
            "ack_batch",
            "return_batch",
        ):
            op["which"] = dice.randrange(8)
        if verb in ("move", "batch"):
            op["count"] = dice.randint(1, 4)
        if verb == "move":
            op["to"] = dice.choice(self._names)
        if verb in ("think", "wait_for_items"):
            op["wait"] = dice.choice(self._values["think"])
        if verb in ("clear_state", "clock"):
            self._give(op, "state" if verb == "clear_state" else "ahead")
        if verb == "settings":
            op["options"] = {"max_leased": dice.choice(self._values["max_leased"]), "rate": None}
        return op

    def _give(self, op: dict[str, Any], *names: str) -> None:
        for name in names:
            op[name] = self._dice.choice(self._values[name])

    def _perhaps(self, op: dict[str, Any], name: str) -> None:
        if self._dice.random() < self._rates[name]:
            self._give(op, name)

    def _several(self) -> list[str]:
        if not self._members:
            return self._plain
        if self._dice.random() < 0.1:
            return self._members
        return [PATTERN, *(self._plain if self._dice.random() < 0.3 else ())]


def _strike(dice: random.Random, kind: str) -> dict[str, Any]:
    strike: dict[str, Any] = {"what": kind}
    if dice.random() < 0.3:
        strike["seconds"] = round(dice.random() * 3, 3)
    else:
        strike["turns"] = int(dice.expovariate(1 / 40))
    if kind == "sleep":
        strike["sleeps"] = dice.choice((0.5, 6, 40, 100))
    return strike


def lines(plan: dict[str, Any]) -> list[str]:
    """Return a plan as lines to read."""
    facts = {key: value for key, value in plan["faults"].items() if value}
    found = [f"switch {plan['switch']}, faults {facts}, drain {plan['drain']}"]
    found += [f"queue {name}: {options}" for name, options in plan["queues"].items()]
    found += [f"process {at}: {one}" for at, one in enumerate(plan["processes"]) if one]
    for at, client in enumerate(plan["clients"]):
        for op in client["ops"]:
            text = ", ".join(f"{key} {value}" for key, value in op.items() if key != "do")
            found.append(f"client {at} of process {client['process']}: {op['do']} {text}")
    return found
