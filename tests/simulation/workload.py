"""What simulated clients do: a plan is drawn from a seed, and is data that can be cut and printed.

Swarm testing: each plan leaves out most verbs, options and faults, so that those that are left meet
often. A plan has queues with their options, processes (a shift of the clock, and options that
differ), and clients: the operations of a thread of a process. An operation may be struck: after
some turns or seconds of it its thread is interrupted or sleeps for long, or its process dies.
"""

from __future__ import annotations

import random
from typing import Any

from tests.simulation.clients import LOOKS
from tests.simulation.cluster import Faults
from tests.simulation.tasks import KEYS, QUEUE, SCHEDULES

PATTERN = "m-*"
_SKEWS = (-2, -0.5, 0.5, 2, 600, 7200)
_PACES = ("10/s", "2/s", "30/m")


def draw_plan(seed: int) -> dict[str, Any]:
    """Return the plan of a seed."""
    dice = random.Random(f"plan {seed}")
    crowd = dice.choice([*_CROWDS]) if dice.random() < 0.4 else ""
    is_alone = not crowd and dice.random() < 0.4
    row = _CROWDS.get(crowd, {})
    has_tasks = crowd in ("task limits", "coroutines") or (not crowd and dice.random() < 0.4)
    members = row.get("members", 0) if crowd else dice.choice((1, 2, 4))
    has_family = members > 0 and not (has_tasks or (not crowd and dice.random() < 0.3))
    names = [f"m-{letter}" for letter in "abcd"[:members]] * has_family
    names += ["p", "q"][: 1 - has_family if crowd else dice.randint(0 if names else 1, 2)]
    names = [QUEUE] if has_tasks else names
    is_plain, types = dice.random() < 0.3, dice.choice(("int", "int", "float"))
    patterns = [name for name in names if name[:2] != "m-" and name != QUEUE]
    patterns += [PATTERN] * has_family
    queues = {
        one: ({"kind": "fifo"} if is_plain else _options(dice, types)) | row.get("options", {})
        for one in patterns
    }
    number = row.get("processes") or (1 if is_alone else dice.choice((1, 1, 1, 2, 3)))
    processes = [{} if is_alone else _process(dice, queues) for _ in range(number)]
    faulty = not (is_alone or "processes" in row) and dice.random() < 0.6
    plan = {
        "switch": dice.choice((0.02, 0.1, 0.3, 0.6)),
        "faults": {
            "commit": dice.choice((0, 0, 0.05, 0.3)) if faulty else 0,
            "read": dice.choice((0, 0, 0.02)) if faulty else 0,
            "slow": 0 if is_alone else dice.choice((0, 0.02, 0.2)),
            "longest": dice.choice((0.02, 0.5, 3.0)),
            "watch": dice.choice((0, 0, 0.3)) if faulty else 0,
        },
        "queues": queues,
        "processes": processes,
        "reserves": dice.random() < 0.3,
        "drain": {"verb": dice.choice(("pop", "lease")), "limits": dice.random() < 0.5},
        "clients": [],
    }
    plan |= row.get("plan", {})
    if has_tasks:
        plan["tasks"] = _of_tasks(dice, processes)
    most, strikes = dice.choice((6, 12, 25)), dice.choice((0, 0, 0.02, 0.1, 0.3))
    strikes *= not is_alone
    if crowd or dice.random() < 0.4:
        names += names[:1] * len(names)  # most of what happens is at one queue
    draw = _Draw(dice, names, crowd)
    if plan["faults"]["slow"] and plan["faults"]["longest"] > 1:
        draw.leave_out("recount")  # which is exact if it reads within two seconds
    if "rate" in plan.get("tasks", {}).get("limits", ()):
        draw.leave_out("clock")
    kinds = dice.sample(("interrupt", "die", "sleep"), dice.randint(1, 3))
    if crowd == "line":
        strikes, kinds = 0.2, ["interrupt"]
    clients = row.get("clients", 6) if crowd else 1 if is_alone else dice.choice((2, 3, 4, 6))
    for number in range(clients):
        size = row.get("ops", 15) if crowd else 30 if is_alone else dice.randint(2, most)
        ops = [draw.op() for _ in range(size)]
        for op in ops:
            if is_alone:
                op.pop("cancel", None)
            if dice.random() < strikes:
                op["strike"] = _strike(dice, dice.choice(kinds), crowd)
        plan["clients"].append({"process": number % len(processes), "ops": ops})
    plan |= {"small": True} if dice.random() < 0.3 else {}
    has_lines = not is_alone and dice.random() < 0.15
    plan |= {"lines": dice.choice((0.005, 0.03, 0.2))} if has_lines else {}
    return plan


def _options(dice: random.Random, priorities: str) -> dict[str, Any]:
    options: dict[str, Any] = {"kind": dice.choice(("fifo", "fifo", "priority"))}
    if options["kind"] == "priority":
        options["priority_type"] = priorities
    if dice.random() < 0.3:
        options["max_leased"] = dice.randint(1, 2)
    if dice.random() < 0.2:
        options["rate"], options["burst"] = dice.choice(_PACES), dice.randint(1, 2)
    if {"max_leased", "rate"} & options.keys() and dice.random() < 0.4:
        options["stored"] = True  # in a row, as those of tasks
    if dice.random() < 0.5:
        options["max_attempts"] = dice.randint(1, 3)
    if dice.random() < 0.15:
        options["shards"] = 2
    if dice.random() < 0.15:
        options["order"] = "commit"
    options |= dice.choice(({}, {}, {}, {}, {"codec": "tuple"}, {"padded": True}))
    if dice.random() < 0.3:
        options["handoff_timeout_seconds"] = 1
    return options


def _of_tasks(dice: random.Random, processes: list[dict[str, Any]]) -> dict[str, Any]:
    limits = dice.choice(({"max_running": 1}, {"max_running": 2}, {"rate": "2/s", "burst": 2}))
    if "rate" in limits:  # tokens of a clock that is hours ahead keep others waiting as long
        for process in processes:
            process.pop("skew", None)
    options = {
        "lease_seconds": dice.choice((2, 10)),
        "max_attempts": dice.randint(1, 3),
        "limits": limits,
    }
    if dice.random() < 0.3:
        options["schedules"] = SCHEDULES
    if dice.random() < 0.2:
        options["retention"] = {"successful": 20, "failed": 20}
    return options


def _process(dice: random.Random, queues: dict[str, Any]) -> dict[str, Any]:
    process: dict[str, Any] = {}
    if dice.random() < 0.15:
        process["skew"] = dice.choice(_SKEWS)
    if queues and dice.random() < 0.2:
        name = dice.choice(sorted(queues))
        process["options"] = {name: {"max_leased": dice.choice((None, 1, 3)), "rate": None}}
    return process


#: The verbs: how often each is drawn if it is there, and its arguments. Those with a question mark
#: are left out at times; what follows an equals sign is what an argument is drawn from.
_VERBS = {
    "push": "6 count=one priority delay? unique? once? exactly? prepared? awaits? cancel?",
    "pop": "4 count end wait? once? awaits? cancel?",
    "lease": "4 count end seconds wait? once? worker? awaits? cancel?",
    "ack": "4 which once? through? awaits? cancel?",
    "think": "2 wait=think",
    "family_pop": "3 count end wait? once? awaits? cancel?",
    "family_lease": "3 count end seconds wait? once? worker? awaits? cancel?",
    "nack": "2 which delay? retry? once? reason? through? awaits? cancel?",
    "extend": "1 which seconds through? once? awaits? cancel?",
    "requeue": "1 which awaits? cancel?",
    "push_shared": "1 which priority kept?",
    "pop_shared": "1 which",
    "push_many": "1 count=many priority delay? awaits? cancel?",
    "push_batch": "1 count=many priority delay? once? awaits? cancel?",
    "ack_many": "1 once? awaits? cancel?",
    "pop_min": "1 wait? awaits? cancel?",
    "pop_max": "1 wait?",
    "lease_min": "1 seconds wait? worker?",
    "lease_max": "1 seconds wait? worker? awaits? cancel?",
    "nack_many": "1 delay? reason? once? awaits? cancel?",
    "extend_many": "1 seconds through? awaits? cancel?",
    "lease_ack": "2 count end seconds wait? worker? awaits? cancel?",
    "pause": "1",
    "resume": "2",
    "pause_family": "1",
    "resume_family": "2",
    "clear": "1",
    "clear_state": "1 state limit? reason? before?",
    "remove": "1 which",
    "bury": "1 which reason?",
    "redrive": "2 limit? reason? named? before?",
    "give_back": "2 worker? spend? limit? named? before? through?",
    "run_now": "1 limit? named? through? before=soon?",
    "recount": "1",
    "sweep": "1",
    "move": "2 to count=many streamed?",
    "together": "2 to ends? take? count seconds delay? priority",
    "worker": "1 threads prefetch? wait=hour rest=think seconds delay",
    "family_worker": "1 threads prefetch? wait=hour rest=think seconds delay",
    "leased": "1 seconds rest=think fails=flag",
    "remove_many": "1",
    "wait_for_items": "1 wait=think",
    "look": "2 how",
    "settings": "1 options",
    "fork": "1",
    "clock": "1 ahead",
    "stranger": "1 which",
}
#: The verbs of clients that have tasks, and how often each is drawn if it is there.
_ON_TASKS = {
    "enqueue": "6 seconds=runs fails more? priority key? notes? unique? later? within? newer? "
    "coroutine?",
    "enqueue_many": "1 seconds=runs fails priority key? count=many coroutine?",
    "group": "3 count=many seconds=runs fails then? always=flag chain? key?",
    "result": "2 which wait of_group?",
    "work": "8 threads prefetch? wait=hour",
    "abort": "1 which force?",
    "abort_group": "1 which",
    **{verb: _VERBS[verb] for verb in ("think", "look", "remove", "redrive", "recount", "fork")},
    **{verb: _VERBS[verb] for verb in ("pause", "resume", "clear", "sweep", "clock")},
}
#: The verbs that meet at the heads of queues.
_TAKES = ("pop", "lease", *("family_pop", "family_lease") * 2, "think", "ack")
#: What arguments are drawn from; a plan leaves some of these values out.
_VALUES: dict[str, tuple[Any, ...]] = {
    "one": (1,),
    "many": (1, 2, 3, 4),
    "which": tuple(range(8)),
    "count": (1, 1, 1, 2, 5),
    "end": ("min", "min", "min", "max"),
    "wait": (0.1, 1, 7, 20),
    "think": (0.001, 0.01, 0.3, 2, 7, 40),
    "seconds": (0.2, 1, 5, 30),
    "delay": (0.001, 0.1, 1, 5),
    "priority": (0, 1, 2),
    "unique": ("x", "y"),
    "while": ("ready", "pending"),
    "state": ("ready", "leased", "delayed", "dead"),
    "ahead": _SKEWS,
    "options": tuple({"max_leased": most, "rate": None} for most in (None, 1, 3)),
    "once": (True,),
    "retry": (False,),
    "spend": (False,),
    "worker": ("ada", "bob"),
    "reason": ("given up", "no", "why\nand more"),
    "limit": (1, 2),
    "through": (True,),
    "how": tuple(LOOKS),
    "runs": (0, 0, 0.05, 1, 4, 15),
    "fails": (0, 0, 0, 1, 5),
    "more": (True,),
    "then": (True,),
    "chain": (True,),
    "flag": (False, True),
    "threads": (1, 2),
    "prefetch": (1, 4),
    "hour": (3_600,),
    "ends": ("ack", "nack", "extend", "requeue"),
    "take": ("pop_many", "lease_many"),
    "key": KEYS,
    "notes": (True,),
    "later": (0.5, 3, 20),
    **dict.fromkeys(("within", "streamed", "exactly", "prepared", "named"), (True,)),
    **dict.fromkeys(("coroutine", "force"), (True,)),
    "newer": (1, 2, 3),
    "before": (0.001, 0.3, 2, 7),
    "soon": (-0.1, -1, -5),
    "of_group": (True,),
    "awaits": (True,),
    "kept": (0.3, 7),
    "cancel": (0, 0.0002, 0.001, 0.3, 5),
}
#: How often arguments are there that may be left out.
_RATES = {"delay": 0.6, "wait": 0.6, "unique": 0.2, "once": 0.3, "retry": 0.2}
_RATES |= {"worker": 0.5, "spend": 0.5, "reason": 0.5, "limit": 0.5, "through": 0.5}
_RATES |= {"streamed": 0.5, "exactly": 0.3, "prepared": 0.2, "ends": 0.7, "take": 0.7}
_RATES |= {"key": 0.4, "notes": 0.4, "later": 0.2, "within": 0.2, "of_group": 0.5}
_RATES |= {"newer": 0.3, "named": 0.3, "before": 0.3, "awaits": 0.5, "cancel": 0.5, "kept": 0.5}
_RATES |= {"coroutine": 0.4, "force": 0.5}
_RATES |= {"more": 0.3, "then": 0.6, "chain": 0.4, "prefetch": 0.6}


#: Small worlds in which threads meet at one thing: how often each verb is drawn, of which others
#: there are four, what arguments are drawn from and how often; how many members a family has, what
#: options all queues have, and how many processes there are, in which then nothing fails.
_CROWDS: dict[str, dict[str, Any]] = {
    "family": {
        "verbs": "5 push 4 TAKE 9 family_TAKE 2 think",
        "values": {"think": [0.001, 0.01], "end": ["min"], "count": [1]},
        "rates": {"wait": 0, "unique": 0},
        "members": 4,
        "processes": 1,
    },
    "queue": {"verbs": "4 push_many 10 TAKE 2 look 1 ack_many", "rates": {"delay": 0}},
    "help": {
        "verbs": "5 push_many 5 pop 8 lease 2 lease_ack 1 ack 1 nack 1 extend_many",
        "rates": {"delay": 0, "wait": 0.3},
        "processes": 3,
        "options": {"max_leased": None, "rate": None, "burst": None, "shards": None},
        "plan": {"reserves": False, "switch": 0.3, "faults": Faults()._asdict()},
    },
    "keys": {
        "verbs": "5 push 4 TAKE",
        "some": "nack ack bury redrive remove think push_batch requeue",
        "rates": {"unique": 0.7},
    },
    "expiring keys": {
        "verbs": "6 push 3 lease 2 think 2 push_shared 1 nack 1 look",
        "values": {"seconds": [0.2, 1], "think": [0.3, 2], "delay": [0.1, 1], "unique": ["x"]},
        "rates": {"unique": 0.9, "delay": 0.5},
        "options": {"max_attempts": 2},
    },
    "leases": {
        "verbs": "3 push 3 lease 3 extend",
        "some": "lease extend extend_many lease_ack think requeue give_back look",
        "values": {"seconds": [0.2, 1, 5], "think": [0.3, 2]},
        "rates": {"unique": 0},
    },
    "delays": {
        "verbs": "5 push 2 push_many 4 TAKE 2 nack 2 think 1 look 1 run_now",
        "values": {"delay": [0.1, 1, 5], "think": [0.3, 2], "wait": [1, 7]},
        "rates": {"delay": 0.9, "wait": 0.8, "unique": 0},
    },
    "line": {
        "verbs": "4 push_many 10 TAKE 1 lease_ack 1 ack_many 1 nack",
        "rates": {"delay": 0},
        "processes": 1,
    },
    "limits": {
        "verbs": "3 push 5 family_lease 3 ack 3 think 1 ack_many",
        "values": {"seconds": [30], "think": [0.001, 0.01, 2], "end": ["min"]}
        | {"wait": [7, 20], "count": [1, 2, 5, 5]},
        "rates": {"wait": 0.6, "unique": 0, "delay": 0},
        "members": 1,
        "options": {"max_leased": 1, "stored": True},
    },
    "max end": {
        "verbs": "3 push 3 lease 2 lease_max 2 ack 2 think 1 nack",
        "values": {"end": ["max"], "seconds": [1, 5], "wait": [7]},
        "rates": {"wait": 0.6, "delay": 0.2},
        "options": {"max_leased": 2},
    },
    "shards": {
        "verbs": "4 push_many 3 push 6 TAKE 2 ack 1 nack 1 think",
        "values": {"seconds": [1, 5]},
        "options": {"shards": 2, "max_leased": 2},
    },
    "one member": {
        "verbs": "2 push 2 push_many 6 family_TAKE 2 ack 2 think 1 nack",
        "values": {"seconds": [1, 5], "wait": [1, 7]},
        "rates": {"wait": 0.7},
        "members": 4,
    },
    "coroutines": {
        "verbs": "6 enqueue 8 work 2 abort 1 think",
        "values": {"fails": [0, 0, 1], "runs": [0, 1, 7, 15], "think": [0.3, 2, 7]},
        "rates": {"coroutine": 0.8, "force": 0.7, "unique": 0, "key": 0, "notes": 0},
        "clients": 3,
        "ops": 9,
    },
    "task limits": {
        "verbs": "6 enqueue 2 enqueue_many 8 work 1 group 1 think 1 redrive 1 result",
        "values": {"fails": [0, 0, 1, 5], "runs": [0, 0.05, 1], "key": ["x"]},
        "rates": {"key": 0.9, "unique": 0},
        "clients": 3,
        "ops": 9,
    },
}


class _Draw:
    """Draws the operations of a plan."""

    def __init__(self, dice: random.Random, names: list[str], crowd: str) -> None:
        self._dice, self._names = dice, names
        self._members = [name for name in dict.fromkeys(names) if name.startswith("m-")]
        self._plain = [name for name in dict.fromkeys(names) if name not in self._members]
        self._values = {
            name: dice.sample(some, dice.randint(1, len(some))) for name, some in _VALUES.items()
        }
        self._values |= {"to": names, "which": [*range(8)]}
        self._rates = {name: dice.choice((0, rate / 2, rate)) for name, rate in _RATES.items()}
        if crowd:
            self._draw_crowd(crowd)
        elif names[0] == QUEUE:
            self._verbs = ["work"] * 6
            if dice.random() < 0.5:  # ends of parts, and what else becomes of them
                others = ("remove", "clear", "abort", "abort_group", "fork", "think")
                self._verbs += ["group"] * 6 + ["redrive"] * 2 + dice.sample(others, 2)
                self._rates |= {"then": 0.5}
                self._values |= {"fails": [0, 5], "runs": [0, 0.05, 1]}
            else:
                for verb, text in _ON_TASKS.items():
                    self._verbs += [verb] * int(text.split()[0]) * (dice.random() < 0.6)
        elif dice.random() < 0.5:  # few verbs, which meet all the more
            pool = [*_TAKES] if dice.random() < 0.5 else [*_VERBS]
            self._verbs = dice.sample(pool, dice.randint(1, 4)) + ["push"] * dice.randint(1, 3)
            self._verbs.append(dice.choice(("pop", "lease", "family_pop", "family_lease")))
        else:
            share = dice.choice((0.2, 0.4, 0.8))
            self._verbs = ["push"] * 5
            for place, (verb, text) in enumerate(_VERBS.items()):
                is_there = dice.random() < (0.8 if place < 7 else share)
                self._verbs += [verb] * int(text.split()[0]) * is_there

    def _draw_crowd(self, crowd: str) -> None:
        dice, row = self._dice, _CROWDS[crowd]
        take = dice.choice(("pop", "pop", "lease"))
        words = [one.replace("TAKE", take) for one in row["verbs"].split()]
        pairs = zip(words[::2], words[1::2], strict=True)
        self._verbs = [verb for number, verb in pairs for _ in range(int(number))]
        if "some" in row:
            self._verbs += dice.sample(row["some"].split(), 4)
        self._values |= row.get("values", {})
        self._rates |= {"once": 0, **row.get("rates", {})}

    def leave_out(self, verb: str) -> None:
        """Draw no such operations."""
        self._verbs = [one for one in self._verbs if one != verb]

    def op(self) -> dict[str, Any]:
        """Return an operation."""
        verb = self._dice.choice(self._verbs)
        op: dict[str, Any] = {"do": verb}
        if verb.startswith("family"):
            op["names"] = self._several()
        else:
            op["queue"] = self._dice.choice(self._names)
        for text in {**_VERBS, **_ON_TASKS}[verb].split()[1:]:
            name, _, pool = text.rstrip("?").partition("=")
            if not text.endswith("?") or self._dice.random() < self._rates[name]:
                op[name] = self._dice.choice(self._values[pool or name])
        if "awaits" not in op:
            op.pop("cancel", None)
        if "unique" in op:
            op["while"] = self._dice.choice(self._values["while"])
        return op

    def _several(self) -> list[str]:
        if not self._members:
            return self._plain
        if self._dice.random() < 0.1:
            return self._members
        return [PATTERN, *(self._plain if self._dice.random() < 0.3 else ())]


def _strike(dice: random.Random, kind: str, crowd: str) -> dict[str, Any]:
    strike: dict[str, Any] = {"what": kind}
    if crowd == "line":  # while others do its work
        strike["seconds"] = dice.random() * 0.004
    elif dice.random() < 0.5:
        strike["seconds"] = dice.random() * dice.choice((0.002, 0.02, 3))
    else:
        strike["turns"] = int(dice.expovariate(1 / 40))
    if kind == "sleep":
        strike["sleeps"] = dice.choice((0.5, 6, 40, 100))
    return strike


def lines(plan: dict[str, Any]) -> list[str]:
    """Return a plan as lines to read."""
    facts = {key: value for key, value in plan["faults"].items() if value}
    found = [f"switch {plan['switch']}, faults {facts}, drain {plan['drain']}"]
    found += ["the engine has reservations"] if plan.get("reserves") else []
    found += ["little is many"] if plan.get("small") else []
    found += [f"threads change at lines: {plan['lines']}"] if "lines" in plan else []
    found += [f"queue {name}: {options}" for name, options in plan["queues"].items()]
    found += [f"process {at}: {one}" for at, one in enumerate(plan["processes"]) if one]
    for at, client in enumerate(plan["clients"]):
        for op in client["ops"]:
            text = ", ".join(f"{key} {value}" for key, value in op.items() if key != "do")
            found.append(f"client {at} of process {client.get('process', 0)}: {op['do']} {text}")
    return found
