"""Permissions: which user may do what to which queue. The REST API and the pages ask here.

By default a user may do nothing. There are two questions, and :func:`may` answers both:

- *about one queue*, which an address of the REST API names: ``user.has_perm(permission)`` allows
  it, and so does ``user.has_perm(permission, queue)``; authentication backends with object
  permissions answer that, and ``queue`` is a :class:`fdbqueue.models.QueueName`. Some queues are
  parts of another queue, their *home*, as those of limited tasks are: who may view the home may
  view them, too;
- *about all queues*, for the pages, the lists, the metrics, and whatever is done to a pattern:
  only ``user.has_perm(permission)`` allows it.

A project with other rules names its own function in the setting (``"API": {"AUTHORIZER":
"myproject.queues.may"}``), which then decides alone. About all queues it is asked with the name
None.

Monitors read the metrics and the health of the queues. A monitor has the token of the setting, or
is a user who may view all queues. What it reads of a project with very many queues is bounded.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import NoReverseMatch
from django.utils.crypto import constant_time_compare

from fdbqueue import conf, models
from fdbqueue.exceptions import QueueNotFound
from fdbqueue.service import Catalog, SeveralQueues, run

VIEW = "fdbqueue.view_queue"
PUSH = "fdbqueue.push_queue"
POP = "fdbqueue.pop_queue"
LEASE = "fdbqueue.lease_queue"
#: Pause, resume, bury, redrive, remove and purge: what operators do, and workers need not.
MANAGE = "fdbqueue.manage_queue"
#: What nobody may do to a queue that another app has, such as those of tasks: who can push to it
#: can have any task run.
_ITEMS = frozenset({PUSH, POP, LEASE})
#: What decides in Django's own classes that no user has a permission for one object alone.
_DECIDING = ("has_perm", "get_all_permissions", "_get_permissions")

#: The setting with the token of monitors.
MONITORS_SETTING = "FDBQUEUE_METRICS_TOKEN"
MIN_TOKEN_CHARACTERS = 16

#: At most this many queues of patterns are read.
MAX_PATTERNED = 1_000


class Refused(PermissionDenied):
    """A user does not have a permission; the message names it."""


def identity(user: Any) -> str:
    """Return 32 hexadecimal digits that identify a user among all kinds of users.

    Users of different classes may have the same primary key, and those that are not stored in a
    database have none, but a name.
    """
    kind = getattr(getattr(user, "_meta", None), "concrete_model", user.__class__)
    key = getattr(user, "pk", None)
    which = f"name:{user}" if key is None else f"id:{key}"
    text = f"{kind.__module__}.{kind.__qualname__} {which}"
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def may(user: Any, permission: str, name: str | None = None) -> bool:
    """Tell whether a user may do something to a queue, or to all queues.

    What is done to a family is done to all its members, whichever there will be, so a pattern asks
    for all queues.

    Args:
        user: The user of the request. Anonymous and deactivated users may do nothing.
        permission: One of the constants of this module.
        name: The queue's name, and the queue need not exist; None or a pattern for all queues. To
            push or to take is never for the queues that another app has.

    Raises:
        ConfigurationError: The setting is wrong.
    """
    if not _is_active(user):
        return False
    if name is None or "*" in name:
        return _is_allowed(user, permission, None)
    if permission in _ITEMS and conf.catalog().owner(name):
        return False
    return _is_allowed(user, permission, name) or (
        permission == VIEW and _may_view_home(user, name)
    )


def _may_view_home(user: Any, name: str) -> bool:
    """Tell whether a queue is a part of another one that a user may view."""
    home = conf.catalog().home(name)
    return home != name and _is_allowed(user, VIEW, home)


def _is_allowed(user: Any, permission: str, name: str | None) -> bool:
    """Ask the project about one name, or with None about all queues."""
    authorizer = conf.api().authorizer
    if authorizer is not None:
        return bool(authorizer(user, permission, name))
    if _has(user, permission):
        return True
    return name is not None and _has(user, permission, models.QueueName(name=name))


def may_be_told(user: Any) -> bool:
    """Tell whether a user may see what is wrong with the setting, which says who may view queues.

    The general permission decides.
    """
    return _is_active(user) and _has(user, VIEW)


def may_some(user: Any, permission: str) -> bool:
    """Tell whether a user may do something to some queue, as far as no queue is asked about.

    False says that no backend answers for single queues, and that the user may not for all.

    Raises:
        ConfigurationError: The setting is wrong.
    """
    return _is_active(user) and (_may_have_single_queues(user) or _has(user, permission))


def refusal(user: Any, permission: str, queues: str, names: Iterable[str] = ()) -> str:
    """Return the text for a user who does not have a permission for some queues.

    It is the same for all queues, so it does not tell which of them exist; but a user who would
    have the permission, were a queue not one of tasks, is told that.

    Args:
        user: The user of the request.
        permission: What the user does not have.
        queues: What the text calls the queues.
        names: Their names and patterns.
    """
    text = f"You do not have the permission {permission} for {queues}."
    if permission in _ITEMS and any(_lacks_by_owner(user, permission, name) for name in names):
        text += " No user has it for a queue of tasks."
    return text


def _lacks_by_owner(user: Any, permission: str, name: str) -> bool:
    """Tell whether a user could act on a queue, or by a pattern, if no other app had it."""
    if "*" in name:
        return conf.catalog().has_owned and may(user, permission)
    if conf.catalog().owner(name) is None:
        return False
    return _is_active(user) and _is_allowed(user, permission, name)


def takeable(
    catalog: Catalog, user: Any, permission: str, names: list[str], *, fair: bool | None
) -> SeveralQueues:
    """Return several queues for a user to take from, by names and patterns.

    The permission is asked of each name, and for a pattern of all queues. A pattern stands for no
    queue that another app has.

    Args:
        catalog: The queues.
        user: The user of the request.
        permission: POP or LEASE.
        names: The names and patterns.
        fair: Whether to take from the queues in turn; None for True with a pattern.

    Raises:
        Refused: The user may not take from a queue that is named, or by a pattern; or a pattern
            fits no queues but those of another app.
        QueueNotFound: There cannot be a queue with one of the names, or one that fits a pattern.
        InvalidInput: They are not 1 to 1,000 names and patterns.
    """
    if not all(may(user, permission, name) for name in names):
        raise Refused(refusal(user, permission, "these queues", names))
    try:
        return catalog.several(names, fair=fair, with_owned=not catalog.has_owned)
    except QueueNotFound as error:
        if not (catalog.has_owned and "*" in error.context["name"]):
            raise
        raise Refused(refusal(user, permission, "these queues", names)) from None


def _may_have_single_queues(user: Any) -> bool:
    """Tell whether a backend or the user class answers for single queues; Django's own do not."""
    if conf.api().authorizer is not None or not apps.is_installed("django.contrib.auth"):
        return True
    from django.contrib import auth
    from django.contrib.auth.backends import ModelBackend
    from django.contrib.auth.models import PermissionsMixin

    if getattr(user.__class__, "has_perm", None) is not PermissionsMixin.has_perm:
        return True
    return any(
        getattr(backend.__class__, name, None) is not getattr(ModelBackend, name)
        for backend in auth.get_backends()
        for name in _DECIDING
    )


def login_address(path: str) -> str | None:
    """Return where a visitor logs in to come back to a path, None if ``LOGIN_URL`` is none."""
    from django.contrib.auth.views import redirect_to_login

    if not settings.LOGIN_URL:
        return None
    try:
        return redirect_to_login(path).url
    except NoReverseMatch:  # a name of no address; the check fdbqueue.W002 says so
        return None


def _is_active(user: Any) -> bool:
    return bool(user and user.is_authenticated and getattr(user, "is_active", True))


def _has(user: Any, *what: Any) -> bool:
    """Ask a user; a user class without ``has_perm`` has no permissions."""
    return hasattr(user, "has_perm") and bool(user.has_perm(*what))


def monitor_refusal(request: HttpRequest) -> HttpResponse | None:
    """Return the refusal of a request: 403 for a user who is logged in, else 401.

    None for a request with the token, or by a user who may view all queues.
    """
    if _may_monitor(request):
        return None
    if getattr(getattr(request, "user", None), "is_authenticated", False):
        return HttpResponse(status=403)
    return HttpResponse(status=401, headers={"WWW-Authenticate": "Bearer"})


def is_good_token(token: Any) -> bool:
    """Tell whether a token may be used: a short one could be guessed."""
    return isinstance(token, str) and len(token) >= MIN_TOKEN_CHARACTERS


def monitored_names(catalog: Catalog) -> tuple[list[str], bool]:
    """Return the names of the queues that monitors read, and whether these are all.

    The plain names come first. If too many others fit patterns, those members of families are among
    them that have something, of each family in turn, and then the first names.
    """
    names = catalog.plain_names()
    plain = set(names)
    listed = catalog.names(limit=len(plain) + MAX_PATTERNED + 1)
    patterned = [name for name in listed if name not in plain]
    if len(patterned) <= MAX_PATTERNED:
        return [*names, *patterned], True
    families = catalog.families()

    def read(tr: Any) -> list[list[str]]:
        return [one.with_something(tr, MAX_PATTERNED) for one in families]

    found = itertools.zip_longest(*run(catalog.database, read, read_only=True))
    busy = [name for turn in found for name in turn if name is not None]
    chosen = itertools.islice(dict.fromkeys([*busy, *patterned]), MAX_PATTERNED)
    return [*names, *sorted(chosen)], False


def _may_monitor(request: HttpRequest) -> bool:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    token = getattr(settings, MONITORS_SETTING, None)
    if scheme.lower() == "bearer" and token is not None and is_good_token(token):
        return constant_time_compare(given.strip(), token)
    return may(getattr(request, "user", None), VIEW)
