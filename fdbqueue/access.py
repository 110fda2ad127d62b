"""Who may do what to which queue: asked by the REST API and the pages; nothing by default.

A user may do to a queue what ``user.has_perm(permission)`` allows for all queues, or
``user.has_perm(permission, queue)`` for this one, which authentication backends with object
permissions answer. A project with other rules names its own function in the setting
(``"API": {"AUTHORIZER": "myproject.queues.may"}``), which then decides alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.exceptions import PermissionDenied

from fdbqueue import conf
from fdbqueue.models import Queue
from fdbqueue.service.catalog import Catalog

VIEW = "fdbqueue.view_queue"
PUSH = "fdbqueue.push_queue"
POP = "fdbqueue.pop_queue"
LEASE = "fdbqueue.lease_queue"


def may(user: Any, permission: str, name: str) -> bool:
    """Tell whether a user may do something to a queue.

    Args:
        user: Whoever asks; no anonymous user ever may, and none that was deactivated.
        permission: One of those of this module.
        name: The queue's name; there need not be one.

    Raises:
        ConfigurationError: The setting is wrong.
    """
    if not _is_somebody(user):
        return False
    authorizer = conf.api().authorizer
    if authorizer is not None:
        return bool(authorizer(user, permission, name))
    return _has(user, permission) or _has(user, permission, Queue(name=name))


def may_in_general(user: Any, permission: str) -> bool:
    """Tell whether a user may do something whichever the queue.

    Raises:
        ConfigurationError: The setting is wrong.
    """
    if not _is_somebody(user) or conf.api().authorizer is not None:
        return False
    return _has(user, permission)


def visible(
    catalog: Catalog,
    may_view: Callable[[str], bool],
    *,
    after: str = "",
    limit: int,
    is_late: Callable[[], bool] = lambda: False,
) -> tuple[list[str], str | None]:
    """Return the next names that a user may know, and the name to go on behind, if there are more.

    The others are passed by, as many as there are. Where that takes too long there may be fewer
    names than asked for, even none, and the name to go on behind is one that was passed by: do
    not show it.

    Args:
        catalog: The queues.
        may_view: Tells of a name whether the user may know it.
        after: Only names that sort after this one.
        limit: The most names.
        is_late: Asked after each name; True ends the search.

    Raises:
        PermissionDenied: There are queues, and none is for this user.
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


def _is_somebody(user: Any) -> bool:
    return bool(user and user.is_authenticated and getattr(user, "is_active", True))


def _has(user: Any, *what: Any) -> bool:
    """Ask a user; one of a class without permissions has none."""
    return hasattr(user, "has_perm") and bool(user.has_perm(*what))
