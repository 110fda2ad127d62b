"""A project with all that may be stored, on an engine that the environment names.

``python -m tests.commands.copy_project`` fills it: ``DJANGO_SETTINGS_MODULE`` is
``tests.commands.copy_settings``.
"""

from __future__ import annotations

import datetime
import os
import sys
from typing import Any

import django
from fdb.subspace_impl import Subspace

CLUSTER_FILE = os.environ.get("FDB_CLUSTER_FILE")
#: A queue of this test that is not under the prefix.
OWN = "fdbqueue-test-own"


def setting_at(place: str, prefix: str) -> dict[str, Any]:
    """Return the setting of a file, or of the cluster of a cluster file."""
    is_cluster = place == CLUSTER_FILE
    return {
        "ENGINE": f"fdbqueue.engines.{'foundationdb' if is_cluster else 'embedded'}",
        "OPTIONS": {"cluster_file" if is_cluster else "path": place},
        "PREFIX": ("fdbqueue-test", prefix),
        "QUEUES": {
            "mail": {"kind": "fifo", "max_attempts": 2, "max_value_bytes": 1_000_000},
            "quakes": {"kind": "priority", "priority_type": "float"},
            "blobs": {"kind": "fifo", "codec": "bytes"},
            "tuples": {"kind": "fifo", "codec": "tuple"},
            "own": {"kind": "fifo", "subspace": (OWN, prefix)},
            "orders": {"kind": "fifo", "order": "commit"},
            "ranked-orders": {"kind": "priority", "order": "commit"},
            "sharded": {"kind": "fifo", "shards": 4, "order": "commit"},
            "limited": {"kind": "fifo", "max_leased": 2, "rate": "2/h"},
            "user-*": {"kind": "fifo", "max_leased": 1},
        },
    }


TASKS = {
    "default": {
        "BACKEND": "fdbqueue.tasks.FdbQueueBackend",
        "QUEUES": ["default"],
        "OPTIONS": {
            "schedules": {"hourly": {"task": "tests.tasks.jobs.note", "every": 3_600, "args": [1]}}
        },
    }
}


def spaces(prefix: str) -> list[Subspace]:
    """Return the subspaces of a setting."""
    return [Subspace(("fdbqueue-test", prefix)), Subspace((OWN, prefix))]


def fill(
    items: int = 40, members: int = 25, parts: int = 6, trees: int = 3, tasks: int = 20
) -> None:
    """Store all that there may be: queues in every state, a family, and tasks half done."""
    import fdbqueue
    from fdbqueue.service import Push
    from fdbqueue.tasks import call, chain, group
    from fdbqueue.tasks.compat import task_backends
    from fdbqueue.tasks.task_worker import TaskWorker
    from tests.tasks import group_jobs, jobs

    queue = fdbqueue.queue
    day = datetime.timedelta(days=1)

    mail = queue("mail")
    mail.push_many({"number": number, "text": "é" * (number % 200)} for number in range(items))
    mail.push("x" * 250_000)
    mail.push_many(("later", "still later"), delay=day)
    for number in range(5):
        mail.push({"only": number}, unique=f"key-{number}")
        mail.push("answered", once=f"answer-{number}")
    for number in range(max(4, items // 20)):
        item = mail.lease(seconds=3_600, worker="one that dies")
        if number % 2:
            mail.nack(item, reason=f"Reason {number % 3}\nin detail", retry=False)
    item = mail.lease(seconds=3_600)
    mail.nack(item, reason="tried", delay=day)
    for start in range(0, items, 500):
        numbers = range(start, min(items, start + 500))
        queue("quakes").push_batch([Push(number, priority=number / 7) for number in numbers])
    for _ in range(3):
        queue("quakes").pop_max()
    queue("blobs").push_many(bytes([number % 256]) * number for number in range(60))
    queue("tuples").push_many((number, "a") for number in range(20))
    queue("own").push_many(range(20))
    for number in range(20):
        queue("orders").push(number)
        queue("ranked-orders").push(number, priority=number % 3)
        queue("sharded").push(number)
    queue("limited").push_many(range(10))
    queue("limited").lease(seconds=3_600)
    for number in range(members):
        queue(f"user-{number}").push_many(range(3))
    queue("user-0").lease(seconds=3_600)
    fdbqueue.family("user-*").pause(reason="night")
    queue("tuples").pause(reason="seen")

    backend = task_backends["default"]
    for number in range(tasks):
        jobs.note.enqueue(number)
    jobs.fail.using(run_after=datetime.datetime.now(datetime.timezone.utc) + day).enqueue("late")
    jobs.fail.enqueue("on purpose")
    for _ in range(trees):
        adding = group(call(group_jobs.add, number) for number in range(parts))
        adding.then(call(group_jobs.count)).enqueue()
        chain(call(group_jobs.add, 1), call(group_jobs.add, 2)).enqueue()
    limit = tasks + parts * trees // 2  # in the middle of the groups
    TaskWorker(backend, ["default"], threads=2, follow=False, limit=limit).run()


if __name__ == "__main__":
    django.setup()
    fill(*map(int, sys.argv[1:]))
