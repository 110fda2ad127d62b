"""Moments and durations of tasks, as text."""

from __future__ import annotations

import datetime

from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from fdbqueue.pages.text import Moment, age

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_SECOND, _MINUTE, _HOUR, _DAY = 1, 60, 3_600, 86_400


def shown_moment(microseconds: int | None) -> Moment | None:
    """Return a moment and how long ago it was, None for None."""
    if microseconds is None:
        return None
    at = _EPOCH + datetime.timedelta(microseconds=microseconds)
    return Moment(at, age(at))


def lasting(seconds: float) -> str:
    """Return how long something lasts: in milliseconds below a second, else in two units at most.

    A negative duration, which clocks that differ make, is none.
    """
    seconds = max(0.0, seconds)
    if seconds < _SECOND:
        return _("%(count)s ms") % {"count": _number(seconds * 1_000, 0 if seconds >= 0.01 else 1)}
    if seconds < _MINUTE:
        return _("%(count)s s") % {"count": _number(seconds, 0 if seconds >= 10 else 1)}
    minutes, hours, days = seconds // _MINUTE, seconds // _HOUR, int(seconds // _DAY)
    if seconds < _HOUR:
        return _two(
            _("%(count)s min") % {"count": int(minutes)}, seconds % _MINUTE, _("%(count)s s")
        )
    if seconds < _DAY:
        rest = seconds % _HOUR // _MINUTE
        return _two(_("%(count)s h") % {"count": int(hours)}, rest, _("%(count)s min"))
    text = ngettext("%(count)s day", "%(count)s days", days) % {"count": days}
    return _two(text, seconds % _DAY // _HOUR, _("%(count)s h"))


def _two(first: str, rest: float, unit: str) -> str:
    """Return a number of one unit, and what is left in the next where something is."""
    return f"{first} {unit % {'count': int(rest)}}" if int(rest) else first


def _number(value: float, decimals: int) -> str:
    rounded = round(value, decimals)
    is_whole = rounded == int(rounded)
    return str(number_format(rounded, decimal_pos=0 if is_whole else decimals, use_l10n=True))
