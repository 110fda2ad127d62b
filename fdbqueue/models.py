"""A model without a table: it carries the permissions, and the entry in the admin."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class Queue(models.Model):
    """Never stored: the queues are in FoundationDB, this only names what users may do.

    ``Queue(name="mail")`` is what permissions for one queue are about.
    """

    name = models.CharField(_("name"), primary_key=True, max_length=100)

    class Meta:
        """Permissions: one for each verb of the REST API, and one to look."""

        managed = False
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
