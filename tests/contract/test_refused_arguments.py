"""What an argument may not be, whichever verb takes it: a clear error, and nothing changed."""

from __future__ import annotations

import asyncio
import datetime
import math
from datetime import UTC
from typing import Any

import pytest

from fdbqueue.exceptions import ConfigurationError, InvalidInput
from fdbqueue.service import FifoQueue, IdempotencyKey, PriorityQueue, Push
from fdbqueue.service.codecs import JsonCodec
from tests.cases import cases

DELTA = datetime.timedelta
LATER = datetime.datetime(2030, 1, 1, tzinfo=UTC)
NAIVE = LATER.replace(tzinfo=None)
#: The last moment there is, which in UTC is none.
LAST = datetime.datetime.max.replace(tzinfo=datetime.timezone(DELTA(hours=-12)))
NOT_NUMBERS = [True, False, "5", [1], math.nan, -math.inf, -1, 10**400]
SECONDS = [*NOT_NUMBERS, math.inf, -1e-9, 315_360_001, DELTA.min, DELTA.max, DELTA(microseconds=-1)]
COUNTS = [0, -1, 10_001, 2**3000, True, 1.5, "3", None, [1]]
TOKENS = ["", ".", "x", "a.b", "FQE.", "é.é", "~.AAAA", "\ud800.A", "FQE.A", "a" * 40_000, None, 5]
IDS = ["", "x", "!", "AAAA", "é", "~_w", "~!", "a" * 40_000, "~" + "F" * 14_000]
KEYS = ["", "x" * 1_001, b"key", 7, ["key"]]
KEPT = [True, IdempotencyKey(""), IdempotencyKey(7), IdempotencyKey("key", kept_seconds=0)]
WORKERS = ["", "x" * 201, 3, b"w", "a\nb", "\x00", "\ud800", ["w"]]


class Stage:
    """A queue with items in every state.

    Attributes:
        leased: Two leased items.
        dead: The id of a dead letter.
    """

    def __init__(self, database, subspace):
        self.queue = FifoQueue(database, subspace["queue"], name="letters")
        self.target = FifoQueue(database, subspace["target"])
        self.queue.push_many("abcd")
        self.dead = self.queue.peek().id
        self.queue.bury(self.dead)
        self.leased = self.queue.lease_many(2)


#: What is wrong for an argument, and each call that takes it: of a stage and what is wrong.
REFUSED: dict[str, tuple[list[Any], list[Any]]] = {
    "count": (
        COUNTS,
        [
            lambda stage, wrong: stage.queue.pop_many(wrong),
            lambda stage, wrong: stage.queue.pop_many(wrong, once="key"),
            lambda stage, wrong: stage.queue.peek_many(wrong),
            lambda stage, wrong: stage.queue.page(limit=wrong),
            lambda stage, wrong: stage.queue.lease_many(wrong),
            lambda stage, wrong: stage.queue.lease_many(wrong, once="key"),
            lambda stage, wrong: stage.queue.move_many(stage.target, wrong),
            lambda stage, wrong: stage.queue.dead_by_reason(limit=wrong),
            lambda stage, wrong: PriorityQueue(
                stage.queue.database, stage.target.subspace
            ).by_priority(limit=wrong),
        ],
    ),
    "end": (
        ["middle", "", None, 0],
        [
            lambda stage, wrong: stage.queue.pop_many(1, end=wrong),
            lambda stage, wrong: stage.queue.lease_many(1, end=wrong, once="key"),
            lambda stage, wrong: stage.queue.page(end=wrong),
        ],
    ),
    "id": (
        IDS,
        [
            lambda stage, wrong: stage.queue.get(wrong),
            lambda stage, wrong: stage.queue.page(after=wrong),
            lambda stage, wrong: stage.queue.bury(wrong),
            lambda stage, wrong: stage.queue.redrive([stage.dead, wrong]),
            lambda stage, wrong: stage.queue.give_back([stage.leased[0].id, wrong]),
            lambda stage, wrong: stage.queue.run_now([wrong]),
            lambda stage, wrong: stage.queue.remove(wrong),
        ],
    ),
    "key of a call": (
        [*KEYS, *KEPT],
        [
            lambda stage, wrong: stage.queue.push("x", once=wrong),
            lambda stage, wrong: stage.queue.push_batch([Push("x")], once=wrong),
            lambda stage, wrong: stage.queue.pop_many(1, once=wrong),
            lambda stage, wrong: stage.queue.lease_many(1, once=wrong),
            lambda stage, wrong: stage.queue.ack(stage.leased[0], once=wrong),
            lambda stage, wrong: stage.queue.nack(stage.leased[0], once=wrong),
            lambda stage, wrong: stage.queue.extend(stage.leased[0], once=wrong),
            lambda stage, wrong: stage.queue.ack_many(stage.leased, once=wrong),
            lambda stage, wrong: stage.queue.nack_many(stage.leased, once=wrong),
            lambda stage, wrong: stage.queue.extend_many(stage.leased, once=wrong),
        ],
    ),
    "minutes": (
        [0, -1, 1_441, True, 1.5, "60", None],
        [lambda stage, wrong: stage.queue.history(wrong)],
    ),
    "not_before": (
        [NAIVE, NAIVE.date(), 1e9, "2030-01-01", LAST],
        [
            lambda stage, wrong: stage.queue.push("x", not_before=wrong),
            lambda stage, wrong: stage.queue.push_many(["x"], not_before=wrong),
        ],
    ),
    "not_before and delay": (
        [1, 0],
        [lambda stage, wrong: stage.queue.push("x", delay=wrong, not_before=LATER)],
    ),
    "reason": (
        [3, b"a", ["a"]],
        [
            lambda stage, wrong: stage.queue.pause(reason=wrong),
            lambda stage, wrong: stage.queue.redrive(reason=wrong),
            lambda stage, wrong: stage.queue.clear_state("dead", reason=wrong),
        ],
    ),
    "seconds": (
        [*SECONDS, datetime.time(1)],
        [
            lambda stage, wrong: stage.queue.push("x", delay=wrong),
            lambda stage, wrong: stage.queue.push_many(["x"], delay=wrong),
            lambda stage, wrong: stage.queue.push_batch([Push("x", delay=wrong)], once="key"),
            lambda stage, wrong: stage.queue.nack(stage.leased[0], delay=wrong),
            lambda stage, wrong: stage.queue.nack_many(stage.leased, delay=wrong),
            lambda stage, wrong: stage.queue.lease(seconds=wrong),
            lambda stage, wrong: stage.queue.lease_many(2, seconds=wrong, once="key"),
            lambda stage, wrong: stage.queue.extend(stage.leased[0], wrong),
            lambda stage, wrong: stage.queue.extend_many(stage.leased, wrong),
        ],
    ),
    "state": (
        ["lost", "", None],
        [
            lambda stage, wrong: stage.queue.page(state=wrong),
            lambda stage, wrong: stage.queue.clear_state(wrong),
        ],
    ),
    "token": (
        TOKENS,
        [
            lambda stage, wrong: stage.queue.ack(wrong),
            lambda stage, wrong: stage.queue.nack(wrong),
            lambda stage, wrong: stage.queue.extend(wrong),
            lambda stage, wrong: stage.queue.ack_many([*stage.leased, wrong]),
            lambda stage, wrong: stage.queue.nack_many([wrong, *stage.leased], once="key"),
            lambda stage, wrong: stage.queue.extend_many([stage.leased[0], wrong]),
            lambda stage, wrong: stage.queue.lease_many(1, ack=[wrong]),
        ],
    ),
    "tokens": (
        [1_001],
        [
            lambda stage, wrong: stage.queue.lease_many(1, ack=stage.leased[:1] * wrong),
            lambda stage, wrong: stage.queue.ack_many(f"FQE.{n}" for n in range(10 * wrong)),
        ],
    ),
    "unique": (
        [*KEYS, "é" * 501],
        [
            lambda stage, wrong: stage.queue.push("x", unique=wrong),
            lambda stage, wrong: stage.queue.push_batch([Push("x"), Push("x", unique=wrong)]),
        ],
    ),
    "unique_while": (
        ["leased", "", None, 3, ["ready"]],
        [lambda stage, wrong: stage.queue.push("x", unique="k", unique_while=wrong)],
    ),
    "wait": (
        NOT_NUMBERS[:-1],
        [
            lambda stage, wrong: stage.queue.pop(wait=wrong),
            lambda stage, wrong: stage.queue.pop_max(wait=wrong),
            lambda stage, wrong: stage.queue.pop_many(2, wait=wrong),
            lambda stage, wrong: stage.queue.lease(wait=wrong),
            lambda stage, wrong: stage.queue.leased(wait=wrong).__enter__(),
        ],
    ),
    "worker": (
        WORKERS,
        [
            lambda stage, wrong: stage.queue.lease(worker=wrong),
            lambda stage, wrong: stage.queue.lease_max(worker=wrong),
            lambda stage, wrong: asyncio.run(stage.queue.alease(worker=wrong)),
        ],
    ),
}


@pytest.mark.parametrize("argument", REFUSED)
def test_an_argument_that_is_wrong_changes_nothing(database, subspace, stored, argument):
    """Every verb that takes it says that it is wrong, before anything is read or written."""
    stage = Stage(database, subspace)
    before = stored()
    given, calls = REFUSED[argument]
    accepted = []
    for wrong in given:
        for number, call in enumerate(calls):
            try:
                call(stage, wrong)
            except InvalidInput:
                continue
            accepted.append((repr(wrong)[:100], number))
    assert accepted == []
    assert stored() == before


def test_what_is_wrong_is_named(database, subspace):
    """The error has the queue, the argument, and what is allowed, or the place in a batch."""
    stage = Stage(database, subspace)
    for name, call in (
        ("delay", lambda: stage.queue.push("x", delay=-1)),
        ("delay", lambda: stage.queue.nack_many(stage.leased, delay=-1)),
        ("seconds", lambda: stage.queue.lease(seconds=-1)),
        ("seconds", lambda: stage.queue.extend_many(stage.leased, -1)),
    ):
        with pytest.raises(InvalidInput) as caught:
            call()
        assert caught.value.context["queue"] == "letters"
        assert caught.value.context[name] == -1
        assert caught.value.context["allowed"] == "0 to 315360000 seconds"
    with pytest.raises(InvalidInput) as caught:
        stage.queue.push_batch([Push("x"), Push("x", unique="")])
    assert caught.value.context["index"] == 1
    with pytest.raises(InvalidInput) as caught:
        stage.queue.lease(worker="")
    assert "worker" in caught.value.context


@cases(
    "options",
    [
        {"codec": "pickle"},
        *({"codec": wrong} for wrong in (None, [], 1, {}, JsonCodec)),
        *({"handoff_timeout_seconds": wrong} for wrong in (0, 0.09, -1, True, "30", None, 86_401)),
        {"handoff_timeout_seconds": math.nan},
        *({"max_attempts": wrong} for wrong in (0, -1, True, 1.5, "3", 1_000_001)),
        *({"max_value_bytes": wrong} for wrong in (0, -1, True, 1e6, "1000000", None, 1_000_001)),
        *({"max_leased": wrong} for wrong in (0, -1, True, 1.0, "3", 1_000_001, 10**30)),
        *({"rate": wrong} for wrong in ("", "0/s", "-1/s", "1.5/s", "1/w", "10", "/s", "1/s\n")),
        *({"rate": wrong} for wrong in ("1000001/s", "1 / s", "१/s", b"1/s", 1, True, (1, "s"))),
        *({"rate": "1/s", "burst": wrong} for wrong in (0, -1, True, 1.0, "3", 1_000_001)),
        {"burst": 3},
        {"burst": 3, "rate": None},
        {"order": "random"},
        *({"shards": wrong} for wrong in (1, 101, True, "16")),
        {"choices": 2},
        *({"shards": 4, "choices": wrong} for wrong in (0, 5)),
        {"contention": "relaxed"},
        *({"priority_type": wrong} for wrong in ("decimal", None, [], {}, bool, str, 1)),
    ],
)
def test_an_option_that_is_wrong_opens_no_queue(database, subspace, options):
    """The error names the option; ``contention`` is the one that shards have replaced."""
    queue = PriorityQueue if "priority_type" in options else FifoQueue
    with pytest.raises(ConfigurationError, match="|".join(options)):
        queue(database, subspace, **options)
