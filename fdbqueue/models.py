"""A model without a table: it carries the permissions, and the entry in the admin."""

from __future__ import annotations

from typing import Any, NoReturn

from django.db import NotSupportedError, models
from django.utils.translation import gettext_lazy as _

_NO_ROWS = (
    "Queues are not rows of a database: name them in the setting FDBQUEUE, and push to them "
    "with fdbqueue.queue(name).push(value)"
)


class QueueSet(models.QuerySet["Queue"]):
    """Refuse to store queues, which ``save``, ``create``, ``bulk_create`` and loaddata come to."""

    def _insert(self, *_: Any, **__: Any) -> NoReturn:
        raise NotSupportedError(_NO_ROWS)


class QueueManager(models.Manager.from_queryset(QueueSet)):  # type: ignore[misc]  # made here
    """Return empty querysets without asking the database: there is no table to ask for."""

    def get_queryset(self) -> QueueSet:
        """Return an empty queryset."""
        return super().get_queryset().none()


class Queue(models.Model):
    """Never stored: the queues are in FoundationDB, this only names what users may do.

    ``Queue(name="mail")`` is what permissions for one queue are about.
    """

    name = models.CharField(_("name"), primary_key=True, max_length=100)

    objects = QueueManager()

    class Meta:
        """Permissions: one for each verb of the REST API, and one to look."""

        managed = False
        base_manager_name = "objects"  # what dumpdata --all and relations ask
        default_permissions = ("view",)
        permissions = (
            ("push_queue", _("Can push to queues")),
            ("pop_queue", _("Can pop from queues")),
            ("lease_queue", _("Can lease from queues")),
        )
        verbose_name = _("queue")
        verbose_name_plural = _("queues")

    def __str__(self) -> str:
        return self.name

    def delete(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse to delete a queue.

        Raises:
            NotSupportedError: Always.
        """
        raise NotSupportedError(_NO_ROWS)
