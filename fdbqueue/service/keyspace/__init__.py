"""Keys: the only place where they are built or parsed."""

from __future__ import annotations

from fdbqueue.service.keyspace.items import (
    FOREIGN,
    MAX_KEY_BYTES,
    Bounds,
    FifoKeys,
    ItemKeys,
    Place,
    Position,
    PriorityKeys,
    bounds,
    random_suffix,
)
from fdbqueue.service.keyspace.meta import Due, MetaKeys, State

__all__ = [
    "FOREIGN",
    "MAX_KEY_BYTES",
    "Bounds",
    "Due",
    "FifoKeys",
    "ItemKeys",
    "MetaKeys",
    "Place",
    "Position",
    "PriorityKeys",
    "State",
    "bounds",
    "random_suffix",
]
