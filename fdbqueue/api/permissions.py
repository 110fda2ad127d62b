"""Who may use an action: :mod:`fdbqueue.access` decides, and nothing is open without it."""

from __future__ import annotations

from typing import Any

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from fdbqueue.access import may, may_in_general


class QueuePermission(BasePermission):
    """Let an authenticated user do what the view's ``required_permissions`` ask for.

    They map the name of an action to a permission; an action without one is refused. OPTIONS
    needs what the address is there for. The list is allowed here: it shows what its user may
    see. Whether there is a queue of a name matters only to those who may use it.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        """Tell whether the user may do this; reads the user's permissions."""
        user = request.user
        if not user or not user.is_authenticated:
            return False
        if view.action is None:  # no such method here: the answer will be 405
            return True
        permission = view.required_permissions.get(view.purpose)
        if permission is None:
            return False
        name = view.kwargs.get(view.lookup_field)
        if name is None:
            return view.purpose == "list" or may_in_general(user, permission)
        return may(user, permission, name)
