"""Tell whether the client of a request is still there, where the server can know it."""

from __future__ import annotations

import select
from typing import Any

from rest_framework.request import Request

#: Where servers put a request's socket.
_SOCKETS = ("gunicorn.socket", "werkzeug.socket")
#: Linux says when the other end has closed; elsewhere an error or a full close must do.
_GONE = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR


def is_open(request: Request) -> bool:
    """Tell whether the client may still be waiting; True where nothing is known.

    Known under gunicorn and Werkzeug, on Linux.
    """
    connection = _socket(request)
    if connection is None or not hasattr(select, "poll"):
        return True
    poll = select.poll()
    try:
        poll.register(connection, _GONE)
    except (OSError, ValueError):  # it was closed here
        return False
    return not any(events & _GONE for _, events in poll.poll(0))


def _socket(request: Request) -> Any:
    found = (request.META.get(name) for name in _SOCKETS)
    return next((one for one in found if one is not None), None)
