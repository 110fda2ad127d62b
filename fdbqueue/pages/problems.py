"""What a page says when it cannot show what was asked for, with its HTTP status.

A viewer is told what happened, and what to do. The cause of a database that does not respond may
have paths and addresses of the server in it: it goes to the log, and to superusers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied, TooManyFieldsSent
from django.forms import Form
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from fdbqueue import access, conf
from fdbqueue.columns import STATES
from fdbqueue.columns.text import visible
from fdbqueue.exceptions import (
    ConfigurationError,
    EngineError,
    FormatMismatch,
    ItemNotReady,
    LayoutMismatch,
    OutcomeUnknown,
    QueueNotFound,
    QueueOwned,
    text_of_error,
)
from fdbqueue.service import error_code

_MAX_CAUSE = 500
_GONE = _("This item is not in the queue. It may have been popped or acknowledged.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What went wrong.

    Attributes:
        status: The status of HTTP.
        title: The title of the page.
        message: What happened, and what to do.
        errors: The parameters that are wrong, or the permission that is missing.
        cause: Why, for superusers.
        can_retry: Whether the same address may answer later.
    """

    status: int
    title: str | Promise
    message: str | Promise
    errors: tuple[str | Promise, ...] = ()
    cause: str = ""
    can_retry: bool = False

    @property
    def is_unavailable(self) -> bool:
        """Whether the queues cannot be read now."""
        return self.status == 503

    def context(self) -> dict[str, Any]:
        """Return what the template shows."""
        return {
            "message": self.message,
            "errors": self.errors,
            "cause": self.cause,
            "retry": self.can_retry,
            "is_forbidden": self.status == 403,
        }


def problem_of(error: Exception, user: Any) -> Problem | None:
    """Return what a page says of an error, None if it is one of the program."""
    for kind, said in _SAID.items():
        if isinstance(error, kind):
            return said(error)
    if isinstance(error, ConfigurationError):
        text = _("The setting of the queues has errors. Run “manage.py check” for details.")
        return _unavailable(error, user, text)
    if isinstance(error, EngineError | OutcomeUnknown) or error_code(error) is not None:
        return _unavailable(error, user, _("The queue database is not responding."))
    return None


def bad_address(errors: tuple[str | Promise, ...]) -> Problem:
    """Return what a page says of parameters that are wrong."""
    text = _("This address is not valid.")
    return Problem(status=400, title=_("Address not valid"), message=text, errors=errors)


def bad_form(form: Form) -> Problem:
    """Return what a page that shows no form says of parameters that are wrong."""
    return bad_address(tuple(str(error) for errors in form.errors.values() for error in errors))


def item_not_found(message: str | Promise = _GONE) -> Problem:
    """Return what a page says of an item that is not there."""
    return Problem(status=404, title=_("Item not found"), message=message)


def item_not_ready(error: ItemNotReady) -> Problem:
    """Return what a page says of an item that was to be ready."""
    text = _("This item is not ready any more: its state is “%(state)s”. Nothing was changed.")
    state = str(dict(STATES)[error.context["state"]])
    state += f", {error.context['worker']}" if error.context["worker"] else ""
    return Problem(status=409, title=_("Item not ready"), message=text % {"state": state})


def method_refused(allowed: Iterable[str]) -> Problem:
    """Return what a page says of a method that it does not have."""
    text = _("This page accepts %(methods)s; nothing was changed.")
    return Problem(
        status=405,
        title=_("Method not allowed"),
        message=text % {"methods": ", ".join(allowed)},
    )


def _mismatch(error: FormatMismatch) -> Problem:
    text = _(
        "The items of “%(queue)s” were written under %(written)s, but the setting here says "
        "%(here)s, so they cannot be shown. Correct the setting, or see what "
        "“manage.py queue_doctor %(queue)s” says."
    )
    return Problem(
        status=409,
        title=_("Written under other settings"),
        message=text % {name: visible(str(value)) for name, value in error.context.items()},
    )


def _owned(error: QueueOwned) -> Problem:
    text = _(
        "The items of “%(queue)s” are tasks: abort the task instead. Only dead letters can be "
        "removed here. Nothing was changed."
    )
    return Problem(
        status=409,
        title=_("A task, not an item"),
        message=text % {"queue": visible(str(error.context["queue"]))},
    )


def _of_another_version(error: LayoutMismatch) -> Problem:
    text = _(
        "Another version of fdbqueue has written “%(queue)s”, so its items cannot be shown. Drain "
        "it with the version that wrote it."
    )
    return Problem(
        status=409,
        title=_("Written by another version"),
        message=text % {"queue": visible(str(error.context["queue"]))},
    )


def _forbidden() -> Problem:
    return Problem(
        status=403,
        title=_("Permission missing"),
        message=_("Your user may not see this page. Ask an administrator for the permission."),
        errors=(_missing(),),
    )


def _missing() -> str | Promise:
    """Return what the user lacks, the same for queues that do not exist."""
    try:
        has_rules = conf.api().authorizer is not None
    except ConfigurationError:
        has_rules = False
    if has_rules:
        text = _("The AUTHORIZER of this project refuses the permission %(permission)s.")
    else:
        text = _("Missing permission: %(permission)s (Can view queues).")
    return text % {"permission": access.VIEW}


def _unavailable(error: Exception, user: Any, message: str | Promise) -> Problem:
    cause = ""
    if getattr(user, "is_superuser", False) and user.is_active:
        cause = visible(text_of_error(error)[:_MAX_CAUSE])
    return Problem(
        status=503, title=_("Queues unavailable"), message=message, cause=cause, can_retry=True
    )


#: What pages say of errors that need no user to be known.
_SAID: dict[type[Exception], Callable[[Any], Problem]] = {
    QueueNotFound: lambda _error: Problem(
        status=404, title=_("Queue not found"), message=_("There is no queue with this name.")
    ),
    LayoutMismatch: _of_another_version,
    FormatMismatch: _mismatch,
    QueueOwned: _owned,
    PermissionDenied: lambda _error: _forbidden(),
    TooManyFieldsSent: lambda _error: bad_address((_("There are too many parameters."),)),
}
