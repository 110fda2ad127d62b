"""Poppers that ask others for help, and then die."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from fdbqueue.service import Queue, now_us, run
from fdbqueue.service.storage.handoffs import HelpRequest, read_request, write_request
from fdbqueue.service.storage.item_keys import End
from fdbqueue.service.storage.tables import HANDOFF_NAME_BYTES, Kind, TableKeys

#: A time that does not end during a test.
LONG_SECONDS = 3_600.0
#: Where the row of a help request says when it expires, in eight bytes.
_UNTIL_AT = 16


def ask(
    queue: Queue, end: End, wanted: int, seconds: float = LONG_SECONDS, **leasing: Any
) -> HelpRequest:
    """Write the help request of a popper, and return it."""
    name = os.urandom(HANDOFF_NAME_BYTES)
    request = HelpRequest(name, end, wanted, now_us() + int(seconds * 1_000_000), **leasing)
    tables = TableKeys(queue.subspace.key())
    run(queue.database, lambda tr: write_request(tr, tables, request), wrote=lambda _: True)
    return request


def requests_of(queue: Queue) -> list[HelpRequest]:
    """Return the help requests that are stored, served or not."""
    tables = TableKeys(queue.subspace.key())
    rows = run(
        queue.database,
        lambda tr: list(tr.get_range(tables.request(b""), tables.dues[0])),
        wrote=lambda _: False,
    )
    found = [read_request(tables, bytes(row.key), bytes(row.value)) for row in rows]
    return [one for one in found if one is not None]


@pytest.fixture
def ask_and_die() -> Callable[..., None]:
    """Ask others for items as a popper does who then dies: ``ask_and_die(queue, lowest=1)``."""

    def ask_twice(
        queue: Queue, *, lowest: int = 0, highest: int = 0, seconds: float = LONG_SECONDS
    ) -> None:
        if lowest:
            ask(queue, "min", lowest, seconds)
        if highest:
            ask(queue, "max", highest, seconds)

    return ask_twice


@pytest.fixture
def let_expire() -> Callable[[Queue], None]:
    """Let the time be over of all help requests of a queue, and of what was handed over."""

    def expire(queue: Queue) -> None:
        tables = TableKeys(queue.subspace.key())
        begin = tables.request(b"")

        def shorten(tr: Any) -> None:
            for row in tr.get_range(begin, begin + b"\xff" * 9):
                value = bytes(row.value)
                tr[row.key] = value[:_UNTIL_AT] + bytes(8) + value[_UNTIL_AT + 8 :]
            for row in tr.get_range(*tables.dues):
                due = tables.parse_due(bytes(row.key))
                if due is not None and due.kind is Kind.HANDOFF:
                    del tr[row.key]
                    tr[tables.due(0, *due[1:])] = b""

        run(queue.database, shorten, wrote=lambda _: True)

    return expire
