"""Tasks of a shop, and some work with them, so that their pages have something to show."""

from __future__ import annotations

import datetime
from typing import Any

from django.utils import timezone

from fdbqueue.tasks import abort, task

ORDER = {"number": 4711, "customer": "ada@example.org", "lines": [{"item": "lamp", "count": 2}]}


class AddressError(ValueError):
    """The address is not one."""


@task(backoff=None)
def send(recipient: str, subject: str = "", *, urgent: bool = False) -> dict[str, Any]:
    """Send a letter, unless the address is none."""
    if "@" not in recipient:
        raise AddressError(f"{recipient!r} is not an address")
    return {"recipient": recipient, "parts": [len(subject), urgent, None]}


@task
def bill(order: dict[str, Any]) -> float:
    """Return what an order costs."""
    return 19.5 * sum(line["count"] for line in order["lines"])


@task(max_attempts=3, backoff=lambda _error, _result: 0.0)
def ship(number: int) -> None:
    """Fail three times."""
    raise ConnectionError(f"no route to the carrier for parcel {number}: <b>timed out</b>")


@task(max_attempts=3, backoff=lambda _error, _result: 3_600.0)
def collect(number: int) -> None:
    """Fail, and wait for an hour."""
    raise TimeoutError(f"parcel {number} was not there")


@task
def report(rows: int) -> list[dict[str, int]]:
    """Return many rows."""
    return [{"row": row, "square": row * row} for row in range(rows)]


def work() -> None:
    """Enqueue tasks, run most of them, and leave some in every state."""
    from fdbqueue.tasks.compat import task_backends
    from fdbqueue.tasks.worker import TaskWorker

    backend: Any = task_backends["default"]
    for number in range(30):
        send.enqueue(f"reader-{number}@example.org", subject=f"Issue {number}", urgent=number < 2)
        bill.enqueue({**ORDER, "number": number})
    for recipient in ("ada", "grace", "<script>alert(1)</script>"):
        send.enqueue(recipient)
    for number in (1, 2):
        ship.enqueue(number)
    for number in range(20):
        ship.using(queue_name="errands").enqueue(number)
    collect.enqueue(7)
    report.enqueue(6)
    report.enqueue(12_000)
    worker = TaskWorker(backend, follow=False, worker="worker-1.example.org:4711")
    worker.run()
    queue = backend.queue("default")
    gone = {"id": "gone0", "task": "shop.removed.tidy", "args": [], "kwargs": {}}
    queue.push({**gone, "backend": "default"}, priority=-(2**48))
    for number in range(2):
        send.enqueue(f"now-{number}@example.org", subject="x" * 300)
    queue.lease_many(2, seconds=3_600, worker="worker-2.example.org:815")
    for number in range(4):
        send.using(priority=10 * number).enqueue(f"later-{number}@example.org")
    bill.using(run_after=timezone.now() + datetime.timedelta(hours=5)).enqueue(ORDER)
    queue.push({"not": "a task"})
    abort(bill.enqueue(ORDER).id)


def ids() -> dict[str, str]:
    """Return the ids of a task in each state, by its state."""
    from fdbqueue.tasks.compat import task_backends

    backend: Any = task_backends["default"]
    queue = backend.queue("default")
    found = {
        state: queue.page(state=state).items[-1 if state == "leased" else 0].value["id"]
        for state in ("ready", "leased", "delayed", "dead")
    }

    def ended(status: str) -> list[Any]:
        tr = queue.database.create_transaction()
        return list(backend.records.ended(tr, queue.name, status, limit=100))

    of_function = {entry.task.rpartition(".")[2]: entry.id for entry in ended("SUCCESSFUL")}
    return {**found, **of_function, "aborted": ended("FAILED")[-1].id}
