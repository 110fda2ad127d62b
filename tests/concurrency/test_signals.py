"""Signal handlers that raise in a thread that pops: no other thread learns of it."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.concurrency.census import assert_counted
from tests.concurrency.kinds import KINDS
from tests.engines.children import wait_until

CHOSEN = [kind for kind in KINDS if kind.name in {"fifo", "fifo-shards", "ints"}]
ITEMS = 30_000
#: A process spends its seconds on one kind and one pace of signals each; ``make soak`` on all.


def check_storm(kind, database, subspace, start, *, seconds, longest_seconds, threads=3, seed=1):
    """Let a process pop in a storm of signals; nothing is lost but what it was told of."""
    child = start(
        kind,
        "storm",
        seconds=seconds,
        threads=threads,
        longest_seconds=longest_seconds,
        seed=seed,
        items=ITEMS,
    )
    said = json.loads(child.line())
    assert (said["errors"], said["hung"]) == ([], 0)
    assert said["interrupted"] > 10
    queue = kind.open(database, subspace)
    left = []

    def is_empty():
        left.extend(kind.text(item.value) for item in queue.pop_many(2_000))
        return not queue.size()

    wait_until(is_empty, seconds=120)  # 30,000 items of a busy cluster, and handoffs that expire
    assert not any(assert_counted(queue).values())
    found = Counter(said["taken"] + left)
    assert [text for text, count in found.items() if count > 1] == []
    assert ITEMS - len(found) <= said["unknown"]


@pytest.mark.parametrize(
    ("kind", "longest_seconds"), list(zip(CHOSEN, [0.02, 0.007, 0.002], strict=True)), ids=str
)
def test_a_storm_of_signals(database, subspace, start, kind, longest_seconds):
    """Others lose nothing and get no error; no pop hangs; the interrupted thread is told."""
    check_storm(kind, database, subspace, start, seconds=2.5, longest_seconds=longest_seconds)
