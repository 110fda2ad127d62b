"""Durations in the unit in which people read them."""

from __future__ import annotations

import datetime

from django.utils.formats import number_format
from django.utils.translation import gettext as _

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
#: Two days are written as 48 h, so that a unit begins where its number says something.
_HOURS_UP_TO = 2 * _DAY


def duration(seconds: float) -> str:
    """Return how long something takes, in one unit; less than nothing is nothing."""
    seconds = max(0.0, seconds)
    if seconds < _MINUTE:
        return _("%(count)s s") % {"count": int(seconds)}
    if seconds < _HOUR:
        return _("%(count)s min") % {"count": int(seconds // _MINUTE)}
    if seconds < _HOURS_UP_TO:
        return _("%(count)s h") % {"count": int(seconds // _HOUR)}
    return _("%(count)s d") % {"count": number_format(int(seconds // _DAY), force_grouping=True)}


def short_age(moment: datetime.datetime) -> str:
    """Return how long ago a moment was, in one unit."""
    now = datetime.datetime.now(datetime.timezone.utc)
    return duration((now - moment).total_seconds())
