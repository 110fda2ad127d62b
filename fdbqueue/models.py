"""A model without a table: it has the permissions, and the entry in the admin."""

from __future__ import annotations

from typing import Any, NoReturn

from django.db import NotSupportedError, models
from django.utils.translation import gettext_lazy as _

_NO_ROWS = (
    "Queues are not rows of a database: name them in the setting FDBQUEUE, and push to them "
    "with fdbqueue.queue(name).push(value)"
)


class QueueNameSet(models.QuerySet["QueueName"]):
    """Refuse to store queues: ``save``, ``create``, ``bulk_create`` and loaddata come here."""

    def _insert(self, *_: Any, **__: Any) -> NoReturn:
        raise NotSupportedError(_NO_ROWS)


class QueueNameManager(models.Manager.from_queryset(QueueNameSet)):  # type: ignore[misc]  # made here
    """Return empty querysets without a query: there is no table."""

    def get_queryset(self) -> QueueNameSet:
        """Return an empty queryset."""
        return super().get_queryset().none()


class QueueName(models.Model):
    """The name of a queue, for permissions; never stored, the queues are in FoundationDB.

    ``QueueName(name="mail")`` is the object of permissions for one queue. The admin's addresses
    (``/admin/fdbqueue/queuename/``) and the content type come from the name of this class.
    """

    name = models.CharField(_("name"), primary_key=True, max_length=100)

    objects = QueueNameManager()

    class Meta:
        """The permissions: to view, push, pop, lease and manage."""

        managed = False
        base_manager_name = "objects"  # what dumpdata --all and relations ask
        default_permissions = ()  # Django would call them view_queuename
        permissions = (
            ("view_queue", _("Can view queues")),
            ("push_queue", _("Can push to queues")),
            ("pop_queue", _("Can pop from queues")),
            ("lease_queue", _("Can lease from queues")),
            ("manage_queue", _("Can manage queues: bury, redrive, remove and purge items")),
        )
        verbose_name = _("queue")
        verbose_name_plural = _("queues, workers and dead letters")

    def __str__(self) -> str:
        return self.name

    def delete(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse to delete a queue.

        Raises:
            NotSupportedError: Always.
        """
        raise NotSupportedError(_NO_ROWS)
