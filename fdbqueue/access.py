"""Permissions: which user may do what to which queue. The REST API and the pages ask here.

By default a user may do nothing. ``user.has_perm(permission)`` allows it for all queues, and
``user.has_perm(permission, queue)`` for one queue: authentication backends with object permissions
answer that, and ``queue`` is a :class:`fdbqueue.models.QueueName`. A project with other rules names
its own function in the setting (``"API": {"AUTHORIZER": "myproject.queues.may"}``), which then
decides alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from django.core.exceptions import PermissionDenied

from fdbqueue import conf, models
from fdbqueue.exceptions import QueueNotFound
from fdbqueue.service import Catalog, SeveralQueues

VIEW = "fdbqueue.view_queue"
PUSH = "fdbqueue.push_queue"
POP = "fdbqueue.pop_queue"
LEASE = "fdbqueue.lease_queue"
#: Pause, resume, bury, redrive, remove and purge: what operators do, and workers need not.
MANAGE = "fdbqueue.manage_queue"
#: What nobody may do to a queue that another app has, such as those of tasks: who can push to it
#: can have any task run.
_ITEMS = frozenset({PUSH, POP, LEASE})


def may(user: Any, permission: str, name: str) -> bool:
    """Tell whether a user may do something to a queue.

    Args:
        user: The user of the request. Anonymous and deactivated users may do nothing.
        permission: One of the constants of this module.
        name: The queue's name; the queue need not exist.

    Raises:
        ConfigurationError: The setting is wrong.
    """
    if not _is_active(user) or (permission in _ITEMS and conf.catalog().owner(name)):
        return False
    authorizer = conf.api().authorizer
    if authorizer is not None:
        return bool(authorizer(user, permission, name))
    return _has(user, permission) or _has(user, permission, models.QueueName(name=name))


def may_in_general(user: Any, permission: str) -> bool:
    """Tell whether a user may do something to every queue; False where there is an exception.

    Raises:
        ConfigurationError: The setting is wrong.
    """
    if not _is_active(user) or conf.api().authorizer is not None:
        return False
    if permission in _ITEMS and conf.catalog().has_owned:
        return False
    return _has(user, permission)


def refusal(permission: str) -> str:
    """Return the text for a user who does not have a permission for one queue.

    It is the same for all queues, so it does not tell which of them exist.
    """
    text = f"You do not have the permission {permission} for this queue."
    if permission in _ITEMS and conf.catalog().has_owned:
        text += " No user has it for a queue of tasks."
    return text


def visible(
    catalog: Catalog,
    may_view: Callable[[str], bool],
    *,
    after: str = "",
    limit: int,
    is_late: Callable[[], bool] = lambda: False,
) -> tuple[list[str], str | None]:
    """Return the next names that a user may see, and the name to continue after if there are more.

    Names that the user may not see are skipped, however many there are. If that takes too long,
    fewer names than asked for are returned, even none, and the name to continue after may be one
    that was skipped: do not show it.

    Args:
        catalog: The queues.
        may_view: Tells whether the user may see a name.
        after: Only names that sort after this one.
        limit: Return at most this many names.
        is_late: Asked after each name; True ends the search.

    Raises:
        PermissionDenied: There are queues, and the user may see none.
    """
    names: list[str] = []
    name = None
    for name in catalog.each_name(after=after):
        if may_view(name):
            names.append(name)
        if len(names) > limit:
            return names[:limit], names[limit - 1]
        if is_late():
            return names, name
    if name is not None and not names and not after:
        raise PermissionDenied
    return names, None


def takeable(
    catalog: Catalog, user: Any, permission: str, names: list[str], *, fair: bool
) -> SeveralQueues:
    """Return several queues for a user to take from, by names and patterns.

    A pattern stands for those queues only that the user may take from.

    Raises:
        PermissionDenied: The user may not take from a queue that is named, or from no queue that
            fits a pattern, where no queue is named.
        QueueNotFound: There cannot be a queue with one of the names.
    """
    if may_in_general(user, permission):
        return catalog.several(names, fair=fair)
    if not all(may(user, permission, name) for name in names if "*" not in name):
        raise PermissionDenied
    try:
        several = catalog.several(names, fair=fair)
    except QueueNotFound as error:
        if "*" in error.context["name"]:  # what the setting has is not for this user to know
            raise PermissionDenied from error
        raise
    allowed = several.limited_to(functools.partial(may, user, permission))
    if not allowed.queues():
        raise PermissionDenied
    return allowed


def _is_active(user: Any) -> bool:
    return bool(user and user.is_authenticated and getattr(user, "is_active", True))


def _has(user: Any, *what: Any) -> bool:
    """Ask a user; a user class without ``has_perm`` has no permissions."""
    return hasattr(user, "has_perm") and bool(user.has_perm(*what))
