"""A model without a table: it carries the permissions, and the entry in the admin."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class Queue(models.Model):  # noqa: DJ008  # has no rows to describe
    """Never stored: the queues are in FoundationDB, this only names what users may do."""

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
