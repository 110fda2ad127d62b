"""Cursors: signed positions in a list, refused by every other list.

The cursor of the list of queues is also encrypted, because it may hold a name that the user may
not see.

A cursor stays valid while others push and pop, and as long as the project keeps its
``SECRET_KEY`` (or has it among its ``SECRET_KEY_FALLBACKS``).

A cursor fits into an address. The position of an item that fdbqueue or a recipe pushed has about
40 bytes. Of a longer one, written by another program, only the beginning is kept; the next page
then starts after all positions with that beginning.

A name is sealed with only the standard library and ``SECRET_KEY``: a synthetic initialisation
vector (RFC 5297), with HMAC-SHA-256 as the pseudorandom function. The tag is the HMAC of the text;
the text is combined by XOR with a key stream made from the tag. Unsealing computes the tag again,
so a changed or invented text is refused. The same text always gives the same sealed text, and texts
of up to 100 bytes give the same length.
"""

from __future__ import annotations

import base64
from itertools import count

from django.conf import settings
from django.core.signing import BadSignature, Signer
from django.utils.crypto import constant_time_compare, salted_hmac
from rest_framework.exceptions import ValidationError

from fdbqueue.service import Queue
from fdbqueue.service.storage.item_keys import FOREIGN

MAX_CURSOR_CHARACTERS = 3_000

_TAG_BYTES = 16
_PADDED_BYTES = 100
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
    return None if name is None else seal(name, _SALT)


def queue_position(cursor: str | None) -> str:
    """Return the name that a cursor comes after, empty if there is no cursor.

    Raises:
        ValidationError: It is not a cursor of the list of queues.
    """
    if cursor is None:
        return ""
    try:
        return unseal(cursor, _SALT)
    except BadSignature as error:
        raise _refused() from error


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
        raise _refused() from error


def _refused() -> ValidationError:
    return ValidationError({"cursor": ["This is not a cursor of this list."]})


def seal(text: str, salt: str) -> str:
    """Return a sealed text, fit for a URL.

    Args:
        text: The text; it must not end in a NUL character.
        salt: The purpose; only the same salt unseals it.
    """
    data = text.encode()
    data += bytes(-len(data) % _PADDED_BYTES)
    tag = _tag(data, salt, settings.SECRET_KEY)
    sealed = tag + _added(data, tag, salt, settings.SECRET_KEY)
    return base64.urlsafe_b64encode(sealed).decode().rstrip("=")


def unseal(sealed: str, salt: str) -> str:
    """Return the text that was sealed under this secret key, or one of the fallbacks.

    Raises:
        BadSignature: It was not sealed with this key and salt.
    """
    try:
        raw = base64.b64decode(sealed + "=" * (-len(sealed) % 4), altchars=b"-_", validate=True)
    except ValueError as error:
        raise BadSignature from error
    tag, hidden = raw[:_TAG_BYTES], raw[_TAG_BYTES:]
    for secret in [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]:
        data = _added(hidden, tag, salt, secret)
        if data and constant_time_compare(_tag(data, salt, secret), tag):
            return data.rstrip(b"\0").decode()
    raise BadSignature


def _tag(data: bytes, salt: str, secret: str | bytes) -> bytes:
    return _hmac(f"{salt} tag", data, secret)[:_TAG_BYTES]


def _added(data: bytes, tag: bytes, salt: str, secret: str | bytes) -> bytes:
    """Return the data combined with the key stream of a tag by XOR, which is its own inverse."""
    blocks = (_hmac(f"{salt} stream {number}", tag, secret) for number in count())
    stream = (byte for block in blocks for byte in block)
    return bytes(one ^ other for one, other in zip(data, stream, strict=False))


def _hmac(purpose: str, data: bytes, secret: str | bytes) -> bytes:
    return salted_hmac(purpose, data, secret=secret, algorithm="sha256").digest()
