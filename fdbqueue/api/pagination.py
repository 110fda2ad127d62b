"""Cursors: signed positions in a list, refused by every other list.

A cursor stays valid while others push and pop, and as long as the project keeps its
``SECRET_KEY`` (or has it among its ``SECRET_KEY_FALLBACKS``).

A cursor fits into an address. The position of an item that fdbqueue or a recipe pushed has about
40 bytes. Of a longer one, written by another program, only the beginning is kept; the next page
then starts after all positions with that beginning.
"""

from __future__ import annotations

import base64

from django.core.signing import BadSignature, Signer
from rest_framework.exceptions import ValidationError

from fdbqueue.service import Queue
from fdbqueue.service.storage.item_keys import FOREIGN

MAX_CURSOR_CHARACTERS = 3_000

_SALT = "fdbqueue.api.cursor"
#: Of base64: whole groups of four.
_MAX_POSITION_CHARACTERS = 2_800


def item_cursor(queue: Queue, end: str, state: str, order: str, position: str | None) -> str | None:
    """Return the cursor of a position in a list of items, None if there is no next page."""
    if position is None:
        return None
    return _signer(*_list(queue, end, state, order)).sign(_fitting(position, end, order))


def item_position(queue: Queue, end: str, state: str, order: str, cursor: str | None) -> str | None:
    """Return the position that a cursor holds.

    Raises:
        ValidationError: It is not a cursor of this queue's items in this state and order, from
            this end.
    """
    return None if cursor is None else _unsigned(_signer(*_list(queue, end, state, order)), cursor)


def queue_cursor(name: str | None) -> str | None:
    """Return the cursor after the queue with a name, None if there is no next page."""
    return None if name is None else _signer().sign(name)


def queue_position(cursor: str | None) -> str:
    """Return the name that a cursor comes after, empty if there is no cursor.

    Raises:
        ValidationError: It is not a cursor of the list of queues.
    """
    return "" if cursor is None else _unsigned(_signer(), cursor)


def _list(queue: Queue, end: str, state: str, order: str) -> tuple[str, ...]:
    # The subspace too: a queue that was moved has other positions.
    by_time = () if order == "place" else (order,)  # cursors of before have no order
    return queue.name, queue.subspace.key().hex(), end, state, *by_time


def _fitting(position: str, end: str, order: str) -> str:
    if len(position) <= _MAX_POSITION_CHARACTERS:
        return position
    if order == "time":
        moment, _dash, item_id = position.partition("-")
        return f"{moment}-{_fitting(item_id, end, 'place')}"
    shown = position.removeprefix(FOREIGN)[:_MAX_POSITION_CHARACTERS]
    place = base64.urlsafe_b64decode(shown)
    if end == "min":  # after all positions that begin with this one
        kept = place.rstrip(b"\xff")
        place = kept[:-1] + bytes([kept[-1] + 1])
    return FOREIGN + base64.urlsafe_b64encode(place).decode().rstrip("=")


def _signer(*of: str) -> Signer:
    return Signer(salt=" ".join([_SALT, *of]))


def _unsigned(signer: Signer, cursor: str) -> str:
    try:
        return signer.unsign(cursor)
    except BadSignature as error:
        raise ValidationError({"cursor": ["This is not a cursor of this list."]}) from error
