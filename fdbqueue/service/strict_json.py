"""A JSON decoder that takes JSON alone: what ``json`` reads beyond it is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NoReturn


def decoder(
    object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> json.JSONDecoder:
    """Return a decoder that refuses NaN, infinities, and numbers that no float can hold.

    Integers are exact, of any size up to Python's limit of digits. The decoder raises
    ``ValueError``; and ``RecursionError`` where the text is nested too deeply.

    Args:
        object_pairs_hook: Makes an object of its members, as for ``json``.
    """
    return json.JSONDecoder(
        parse_constant=_refuse, parse_float=_finite, object_pairs_hook=object_pairs_hook
    )


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:50]} is beyond the range of a float")
    return value
