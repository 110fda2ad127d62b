"""People of the server whose pages have actions: a superuser, one of one queue, one who only looks.

The password of each is the name.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import BaseBackend

from fdbqueue.models import QueueName

SUPERUSER, KEEPER, READER = "chief", "keeper", "reader"
#: The queue that the keeper may manage, and no other.
KEPT = "mail"


class OneQueue(BaseBackend):
    """Lets the keeper manage one queue."""

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        """Tell whether a user is the keeper of a queue."""
        is_kept = isinstance(obj, QueueName) and obj.name == KEPT
        return is_kept and user_obj.username == KEEPER and perm.startswith("fdbqueue.")


def create() -> None:
    """Create all of them."""
    from django.contrib.auth.models import Permission, User

    User.objects.create_superuser(SUPERUSER, password=SUPERUSER)
    for name in (KEEPER, READER):
        user = User.objects.create_user(name, password=name, is_staff=True)
        user.user_permissions.add(Permission.objects.get(codename="view_queue"))
