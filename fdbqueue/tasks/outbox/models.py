"""The tables of the outbox."""

from __future__ import annotations

from django.db import models


class OutboxTask(models.Model):
    """A task that waits to be moved to its queue.

    Attributes:
        result_id: The id of its result.
        backend: The alias of its backend.
        queue: The name of its queue, with the backend's prefix; of a task with limits its home.
        function: The dotted path of its function, for readers.
        call: What is pushed, as JSON: see :mod:`fdbqueue.tasks.outbox.outbox_rows`.
        enqueued_us: When it was enqueued, in microseconds since 1970.
        set_aside_us: When it was found that it cannot be moved, likewise; None if it waits.
        problem: Why it cannot.
    """

    result_id = models.CharField(max_length=64, unique=True)
    backend = models.CharField(max_length=200)
    queue = models.CharField(max_length=200)
    function = models.TextField()
    call = models.TextField()
    enqueued_us = models.BigIntegerField()
    set_aside_us = models.BigIntegerField(null=True)
    problem = models.TextField(blank=True)

    class Meta:
        """Its index is for the mover, which reads what waits for one backend."""

        db_table = "fdbqueue_tasks_outbox"
        default_permissions = ()
        indexes = (
            models.Index(fields=["backend", "set_aside_us", "id"], name="fdbqueue_outbox_waiting"),
        )

    def __str__(self) -> str:
        return self.result_id


class OutboxName(models.Model):
    """The name of this outbox, unlike any other's: one row."""

    name = models.CharField(max_length=64)

    class Meta:
        """Nobody needs permissions for it."""

        db_table = "fdbqueue_tasks_outbox_name"
        default_permissions = ()

    def __str__(self) -> str:
        return self.name
