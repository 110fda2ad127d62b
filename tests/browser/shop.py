"""Tasks of a shop, and some work with them, so that their pages have something to show."""

from __future__ import annotations

import asyncio
import datetime
import threading
import time
from typing import Any

from django.utils import timezone

from fdbqueue.service import run
from fdbqueue.tasks import abort, call, chain, group, task

ORDER = {"number": 4711, "customer": "ada@example.org", "lines": [{"item": "lamp", "count": 2}]}


class AddressError(ValueError):
    """The address is not one."""


def hang(_item: Any) -> None:
    """Handle an item, and never return: its process is killed."""
    threading.Event().wait()


def end(_item: Any) -> None:
    """Handle an item."""


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


@task(takes_context=True, queue_name="parcels")
def pack(context: Any, parcel: str) -> str:
    """Say which shelf it stands at, and how far it has come."""
    context.metadata["shelf"] = {"name": "<b>" + "a long name of a shelf " * 6, "rows": [1, None]}
    for step in range(4):
        context.progress(step, of=3)
    return parcel


@task(queue_name="parcels", timeout=0.2, backoff=None)
async def weigh(parcel: str) -> None:
    """Take longer than it may."""
    while True:
        await asyncio.sleep(0.01)


def wait_in_the_outbox() -> None:
    """Leave one task in the outbox for hours, and set one aside."""
    from fdbqueue.tasks.outbox.models import OutboxTask

    waiting, aside = (
        send.using(backend="rows", queue_name="rows").enqueue(f"row-{number}@example.org")
        for number in range(2)
    )
    since = int((time.time() - 20_000) * 1_000_000)
    rows = OutboxTask.objects
    rows.filter(result_id=waiting.id).update(enqueued_us=since)
    rows.filter(result_id=aside.id).update(set_aside_us=since, problem="no such queue")


def work() -> None:
    """Enqueue tasks, run most of them, and leave some in every state."""
    from fdbqueue.tasks.compat import task_backends
    from fdbqueue.tasks.task_worker import TaskWorker

    backend: Any = task_backends["default"]
    group([call(send, "dot@example.org"), call(pack, "of another queue")]).enqueue()
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
    parts = [call(pack, "a lamp"), chain(call(weigh, "a piano"), pack)]
    group([*parts, *(call(pack, f"box {number}") for number in range(25))]).then(pack).enqueue()
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
    pack.enqueue("a wardrobe")
    note(backend, backend.queue("parcels").lease(seconds=3_600, worker="worker-3.example.org"))


def wait_in_groups() -> None:
    """Enqueue groups whose tasks wait, to be aborted."""
    for number in range(16):
        group([call(bill, {**ORDER, "number": number}), call(bill, ORDER)]).then(bill).enqueue()


def note(backend: Any, item: Any) -> None:
    """Note of a running task what it would have noted itself."""
    task_id = item.value["id"]
    noted = {"metadata": {"shelf": "x" * 200}, "progress": [1_234.5, 5_000]}
    record = {**backend.found(task_id).record, "running": 0, **noted}
    run(backend.catalog.database, lambda tr: backend.records.write(tr, task_id, record))


def addresses() -> dict[str, str]:
    """Return the addresses of tasks in each state and of each function, below the list."""
    from fdbqueue.tasks.compat import task_backends

    backend: Any = task_backends["default"]
    found = {}
    for name in ("default", "parcels"):
        queue = backend.queue(name)
        for state in ("ready", "leased", "delayed", "dead"):
            for item in queue.page(state=state).items:
                if "id" in item.value:
                    function = item.value["task"].rpartition(".")[2]
                    found[f"{state}-{function}"] = f"{queue.name}/tasks/{item.value['id']}/"
        for status in ("SUCCESSFUL", "FAILED"):
            tr = queue.database.create_transaction()
            for entry in backend.records.ended(tr, queue.name, status, limit=100):
                function = entry.task.rpartition(".")[2]
                found[f"{status.lower()}-{function}"] = f"{queue.name}/tasks/{entry.id}/"
    return found
