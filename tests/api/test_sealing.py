"""Sealed texts: read and made here, and nowhere else."""

from __future__ import annotations

import base64

import pytest
from django.core.signing import BadSignature

from fdbqueue.api.pagination import seal, unseal
from tests.cases import cases

TEXTS = ["a", "user-7", "x" * 99, "x" * 100, "x" * 101, "x" * 1_000]


@cases("text", TEXTS)
def test_what_is_sealed_is_unsealed(text):
    """For the same purpose, and for no other."""
    sealed = seal(text, "one")
    assert unseal(sealed, "one") == text
    with pytest.raises(BadSignature):
        unseal(sealed, "another")


def test_every_bit_counts():
    """None can be changed, left out or put in."""
    sealed = seal("user-7", "one")
    raw = base64.urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4))
    changed = [
        raw[:place] + bytes([raw[place] ^ 1 << bit]) + raw[place + 1 :]
        for place in range(len(raw))
        for bit in range(8)
    ]
    shorter = [raw[:length] for length in range(len(raw))]
    for other in (*changed, *shorter, raw + b"\0", raw * 2):
        with pytest.raises(BadSignature):
            unseal(base64.urlsafe_b64encode(other).decode().rstrip("="), "one")


@cases("text", ["", "x", "=", "mail:x", "\u00e9", "a b", "*" * 155, "\ud800"])
def test_what_was_never_sealed(text):
    """Whatever it is, it is refused."""
    with pytest.raises(BadSignature):
        unseal(text, "one")


def test_texts_do_not_show(settings):
    """Neither do their lengths; another key seals another way, and only a fallback unseals."""
    sealed = {seal(text, "one") for text in ("user-1", "user-2", "x" * 100)}
    assert len(sealed) == 3
    assert len({len(one) for one in sealed}) == 1
    first, *_ = sealed
    text = unseal(first, "one")
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another"
    assert unseal(first, "one") == text
    assert seal(text, "one") != first
    settings.SECRET_KEY_FALLBACKS = []
    with pytest.raises(BadSignature):
        unseal(first, "one")
