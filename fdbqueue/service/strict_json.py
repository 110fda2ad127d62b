"""Decode strict JSON: refuse the extensions that ``json`` accepts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NoReturn


def decoder(
    object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> json.JSONDecoder:
    """Return a decoder that refuses NaN, infinities, and numbers beyond the range of a float.

    Integers are exact, up to Python's limit of digits. The decoder raises ``ValueError``, and
    ``RecursionError`` when the text is nested too deeply.

    Args:
        object_pairs_hook: Makes an object from its members, as for ``json``.
    """
    return json.JSONDecoder(
        parse_constant=_refuse, parse_float=_finite, object_pairs_hook=object_pairs_hook
    )


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:50]} is beyond the range of a float")
    return value
