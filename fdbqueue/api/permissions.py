"""Who may do what: a model permission for each verb, and nothing without one."""

from __future__ import annotations

from typing import Any

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

VIEW = "fdbqueue.view_queue"
PUSH = "fdbqueue.push_queue"
POP = "fdbqueue.pop_queue"


class QueuePermission(BasePermission):
    """Let an authenticated user do what the view's ``required_permissions`` ask for.

    They map the name of an action to a permission; an action without one is refused.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        """Tell whether the user may do this; reads the user's permissions."""
        user = request.user
        if not user or not user.is_authenticated:
            return False
        if view.action is None:  # no such method here: the answer will be 405
            return True
        permission = view.required_permissions.get(view.action)
        return permission is not None and user.has_perm(permission)
