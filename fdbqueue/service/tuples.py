"""Unpack FDB tuples that anybody may have written."""

from __future__ import annotations

import struct
from typing import Any

import fdb.tuple

#: What the tuple layer raises, depending on which byte it stumbles over.
_ERRORS = (ValueError, IndexError, TypeError, OverflowError, RecursionError, struct.error)


def unpack(data: bytes) -> tuple[Any, ...]:
    """Return the elements of a packed tuple.

    Raises:
        ValueError: The bytes are no FDB tuple.
    """
    try:
        elements: tuple[Any, ...] = fdb.tuple.unpack(data)
    except _ERRORS as error:
        raise ValueError("the bytes are no FDB tuple") from error
    return elements
