"""Who may look at any queue at all: asked for the admin's index, so it reads no queue."""

from __future__ import annotations

import itertools
from typing import Any

from fdbqueue import access, conf

#: So many queues of the setting are asked about.
_ASKED_ABOUT = 100


def may_enter(user: Any) -> bool:
    """Tell whether a user may look into all queues, or into one that the setting names.

    One who may look only into queues that exist by a pattern has to know their addresses.

    Raises:
        ConfigurationError: The setting is wrong.
    """
    if access.may_in_general(user, access.VIEW):
        return True
    if not user or not user.is_authenticated:
        return False
    names = itertools.islice(conf.catalog().plain_names(), _ASKED_ABOUT)
    return any(access.may(user, access.VIEW, name) for name in names)
