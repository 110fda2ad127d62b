"""Give each request an id, which its response, its problem and its log records show.

A client or a proxy may send the id as ``X-Request-ID``; otherwise the API makes one. Logging needs
:class:`RequestIdFilter` to add the id to the records of other loggers, so this module imports
nothing that needs Django to be set up.
"""

from __future__ import annotations

import contextlib
import logging
import re
import uuid
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

HEADER = "X-Request-ID"
MAX_CHARACTERS = 128

#: No spaces, quotes or control characters: an id is written into logs and headers as it is.
_WELL_FORMED = re.compile(rf"[A-Za-z0-9._~:+/=@-]{{1,{MAX_CHARACTERS}}}")
_ATTRIBUTE = "fdbqueue_request_id"
_current: ContextVar[str | None] = ContextVar("fdbqueue_request_id", default=None)


def current() -> str | None:
    """Return the id of the request that is being served, None outside of one."""
    return _current.get()


@contextlib.contextmanager
def bound(request: Any) -> Iterator[str]:
    """Give a request its id, which :func:`current` returns during a ``with`` block.

    Args:
        request: Django's request, which keeps the id for records that are logged later.
    """
    given = request.headers.get(HEADER, "")
    found = given if _WELL_FORMED.fullmatch(given) else uuid.uuid4().hex
    setattr(request, _ATTRIBUTE, found)
    token = _current.set(found)
    try:
        yield found
    finally:
        _current.reset(token)


class RequestIdFilter(logging.Filter):
    """Add ``request_id`` to each log record that belongs to a request of the API.

    Use it in Django's ``LOGGING``:

        "filters": {"request_id": {"()": "fdbqueue.api.request_ids.RequestIdFilter"}}

    Args:
        default: The ``request_id`` of other records, for formats that name it; None for none.
    """

    def __init__(self, default: str | None = None) -> None:
        super().__init__()
        self._default = default

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the id to a record, and keep the record."""
        # Django logs a 4xx or 5xx after the view has ended, with the request.
        own = getattr(getattr(record, "request", None), _ATTRIBUTE, None)
        found = own or current() or self._default
        if found is not None and not hasattr(record, "request_id"):
            record.request_id = found
        return True
