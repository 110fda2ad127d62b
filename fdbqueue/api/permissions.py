"""The permission class of the API; :mod:`fdbqueue.access` decides."""

from __future__ import annotations

from typing import Any

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from fdbqueue.access import may, may_in_general, refusal


class QueuePermission(BasePermission):
    """Allow an action to users who have its permission.

    The view's ``required_permissions`` map each action to a permission; an action without one is
    refused. OPTIONS needs the permission of the address. The list is always allowed: it shows only
    the queues that the user may see. So are the view's ``named_in_body``: these actions check the
    permission of each queue that their body names. Whether a queue exists is not checked here.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        """Tell whether the user may use the action."""
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
            is_checked_later = view.purpose == "list" or view.purpose in view.named_in_body
            return is_checked_later or may_in_general(user, permission)
        is_allowed = may(user, permission, name)
        if not is_allowed:
            self.message = refusal(permission)  # what DRF puts into the response
        return is_allowed
