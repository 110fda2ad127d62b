"""What a process does whose FoundationDB client fails on purpose: push, and take again.

The client injects the faults itself, for all of its process: commits whose outcome is
unknown, conflicts that are none, reads that fail, pauses.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from fdb.subspace_impl import Subspace

from fdbqueue.engines import foundationdb
from fdbqueue.service import Item, Queue
from tests.concurrency.clients import together
from tests.concurrency.kinds import KINDS, Kind
from tests.engines.children import say

#: How a test starts one; then come the kind, the subspace's prefix in hex, and the
#: arguments of :func:`work` in JSON.
SCRIPT = "from tests.soak import injected; injected.main()"

_LEASE_SECONDS = 600


def main() -> None:
    """Do what the command line says, and print the texts of what was taken, a list."""
    kind_name, prefix, arguments = sys.argv[2:]
    inject(activated=100, fired=10)
    database = foundationdb.open(os.environ["FDB_CLUSTER_FILE"], connect_timeout_seconds=60)
    kind = next(kind for kind in KINDS if kind.name == kind_name)
    taken = work(kind, database, Subspace(rawPrefix=bytes.fromhex(prefix)), **json.loads(arguments))
    say(json.dumps(taken, separators=(",", ":")))


def inject(*, activated: int, fired: int) -> None:
    """Have the client inject faults, before it is opened.

    Args:
        activated: In how many of a hundred places of its code it may.
        fired: How often of a hundred times it does there.
    """
    foundationdb.load_binding()
    import fdb

    fdb.options.set_client_buggify_enable()
    fdb.options.set_client_buggify_section_activated_probability(activated)
    fdb.options.set_client_buggify_section_fired_probability(fired)


def work(
    kind: Kind,
    database: Any,
    subspace: Subspace,
    *,
    name: str,
    threads: int,
    operations: int,
    way: str,
    deadline_seconds: float,
) -> list[str]:
    """Push so many items in so many threads, each taking one after each push, as a rule."""
    queue = kind.open(database, subspace)

    def toil(thread: int) -> list[str]:
        taken = []
        for number in range(thread, operations, threads):
            priority = kind.priorities[number % len(kind.priorities)]
            queue.push(kind.value(f"{name}-{number}"), priority)
            if number % 8 >= 2:  # some are left, so that the queue is never empty for long
                taken += take(kind, queue, way, number)
        return taken

    parts = together(threads, toil, deadline_seconds=deadline_seconds)
    return [text for part in parts for text in part]


def take(kind: Kind, queue: Queue, way: str, number: int) -> list[str]:
    """Take an item for good, in one of the ways, from either end."""
    end = ("min", "max")[number % 2]
    if way == "popped":
        items: list[Item] = queue.pop_many(1, end=end)
    else:
        items = queue.lease_many(1, end=end, seconds=_LEASE_SECONDS)
        for item in items:
            if number % 16 == 3:
                queue.nack(item)
                return []
            queue.ack(item)
    return [kind.text(item.value) for item in items]
