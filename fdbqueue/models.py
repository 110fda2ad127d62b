"""A model without a table: it has the permissions, and the entry in the admin.

It is called ``Queue`` because Django makes names from a model's name: the admin's addresses
(``/admin/fdbqueue/queue/``), the content type, and the label that object permissions are stored
under. The app's code calls it ``models.Queue``; ``Queue`` alone is :class:`fdbqueue.service.Queue`.
"""

from __future__ import annotations

from typing import Any, NoReturn

from django.db import NotSupportedError, models
from django.utils.translation import gettext_lazy as _

_NO_ROWS = (
    "Queues are not rows of a database: name them in the setting FDBQUEUE, and push to them "
    "with fdbqueue.queue(name).push(value)"
)


class QueueSet(models.QuerySet["Queue"]):
    """Refuse to store queues: ``save``, ``create``, ``bulk_create`` and loaddata come here."""

    def _insert(self, *_: Any, **__: Any) -> NoReturn:
        raise NotSupportedError(_NO_ROWS)


class QueueManager(models.Manager.from_queryset(QueueSet)):  # type: ignore[misc]  # made here
    """Return empty querysets without a query: there is no table."""

    def get_queryset(self) -> QueueSet:
        """Return an empty queryset."""
        return super().get_queryset().none()


class Queue(models.Model):
    """The name of a queue, for permissions; never stored, the queues are in FoundationDB.

    ``Queue(name="mail")`` is the object of permissions for one queue.
    """

    name = models.CharField(_("name"), primary_key=True, max_length=100)

    objects = QueueManager()

    class Meta:
        """The permissions: to view, push, pop and lease."""

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
