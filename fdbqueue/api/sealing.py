"""Encrypt and authenticate a short text with the project's secret key.

It needs only the standard library and ``SECRET_KEY``: a synthetic initialisation vector (RFC
5297), with HMAC-SHA-256 as the pseudorandom function. The tag is the HMAC of the text; the text is
combined by XOR with a key stream made from the tag. Unsealing computes the tag again, so a changed
or invented text is refused. The same text always gives the same sealed text, and texts of up to
100 bytes give the same length.
"""

from __future__ import annotations

import base64
from itertools import count

from django.conf import settings
from django.core.signing import BadSignature
from django.utils.crypto import constant_time_compare, salted_hmac

_TAG_BYTES = 16
_PADDED_BYTES = 100


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
