"""Rules of a host project about who may do what to which queue."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import BaseBackend
from rest_framework.exceptions import PermissionDenied

import fdbqueue
from fdbqueue.models import QueueName

#: What the functions below were asked, by the tests that look.
asked: list[tuple[Any, str, str | None]] = []

not_callable = "a text"
VERBS = ("view", "push", "pop", "lease", "manage")


class OwnQueues(BaseBackend):
    """Object permissions: a user may do everything to the queues named after it."""

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        """Answer for one queue."""
        if not isinstance(obj, QueueName):
            return False
        assert perm in {f"fdbqueue.{verb}_queue" for verb in VERBS}
        return obj.name.startswith(f"user-{user_obj.get_username()}")


class Readers(BaseBackend):
    """Object permissions: everybody may look into the queue for mail, and no more."""

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        """Answer for one queue."""
        return isinstance(obj, QueueName) and obj.name == "mail" and perm == "fdbqueue.view_queue"


def may_look_at_mail(user: Any, permission: str, name: str | None) -> bool:
    """Let everybody look into the queue for mail, and pop from any queue of a user."""
    asked.append((user, permission, name))
    if permission == "fdbqueue.pop_queue":
        return name is not None and name.startswith("user-")
    return permission == "fdbqueue.view_queue" and name == "mail"


def may_mail_alone(user: Any, permission: str, name: str | None) -> bool:
    """Let everybody do everything to the queue for mail, and nothing to others."""
    asked.append((user, permission, name))
    return name == "mail"


def may_all_alone(user: Any, permission: str, name: str | None) -> bool:
    """Let everybody do everything to all queues, and nothing to a queue by its name."""
    asked.append((user, permission, name))
    return name is None


def may_everything(user: Any, permission: str, name: str | None) -> bool:
    """Let everybody do everything, whatever there is."""
    asked.append((user, permission, name))
    return True


def may_nothing(user: Any, permission: str, name: str | None) -> Any:
    """Say no with what is merely falsy."""
    return None


def raises(user: Any, permission: str, name: str | None) -> bool:
    """Refuse in the way of DRF."""
    raise PermissionDenied


def looks_for_mial(user: Any, permission: str, name: str | None) -> bool:
    """Look for a queue whose name is misspelt."""
    return bool(fdbqueue.queue("mial"))
