"""Tasks for the tests of the outbox."""

from __future__ import annotations

from django.db import transaction

from fdbqueue.tasks import task
from tests.tasks import jobs


@task
def count_down(number: int) -> None:
    """Enqueue itself for the number below, in a transaction of the ORM."""
    jobs.done.append(number)
    if number:
        with transaction.atomic():
            count_down.enqueue(number - 1)
