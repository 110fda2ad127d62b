"""Queues of each kind, so that one test can be made of all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import fdb.tuple

from fdbqueue.service import Catalog, FifoQueue, PriorityQueue, Queue, QueueSpec


@dataclass(frozen=True)
class Kind:
    """A kind of queue.

    Attributes:
        name: What tests call it.
        priorities: Some that it takes; a FIFO queue takes none.
        options: Its options, besides the database and the subspace.
        is_member: Whether it is a member of a family.
    """

    name: str
    priorities: Sequence[Any] = (None,)
    options: dict[str, Any] = field(default_factory=dict)
    is_member: bool = False

    def __str__(self) -> str:
        return self.name

    @property
    def is_fifo(self) -> bool:
        """Whether it is a FIFO queue."""
        return self.priorities == (None,)

    @property
    def is_strict(self) -> bool:
        """Whether pops take the very end."""
        return "shards" not in self.options

    def open(self, database: Any, subspace: Any, **options: Any) -> Queue:
        """Return a queue of this kind."""
        queue = FifoQueue if self.is_fifo else PriorityQueue
        return queue(database, subspace, name=self.name, **{**self.options, **options})

    def family(self, database: Any, subspace: Any, **options: Any) -> Catalog:
        """Return a catalog with the family ``user-*``, whose members are of this kind."""
        kind = "fifo" if self.is_fifo else "priority"
        spec = QueueSpec("user-*", kind, **{**self.options, **options})
        return Catalog(database, fdb.tuple.unpack(subspace.key()), [spec])

    def value(self, text: str) -> Any:
        """Return a value that it takes, different for each text."""
        return text.encode() if self.options.get("codec") == "bytes" else [text]

    def text(self, value: Any) -> str:
        """Return the text of a value."""
        return value.decode() if isinstance(value, bytes) else value[0]

    def texts(self, items: Iterable[Any]) -> str:
        """Return the texts of items, as one string."""
        return "".join(self.text(item.value) for item in items)

    def pairs(self, values: Sequence[Any], priorities: Sequence[Any]) -> list[Any]:
        """Return what ``push_many`` takes for these."""
        return list(values) if self.is_fifo else list(zip(values, priorities, strict=True))


_INTS = (-(2**40), 0, 1, 7)
_FLOATS = (-1.5, 0.0, 0.25, 1e300)
_COMMIT = {"order": "commit"}
_SHARDS = {"shards": 4}

KINDS = [
    Kind("fifo"),
    Kind("fifo-bytes", options={"codec": "bytes"}),
    Kind("fifo-commit", options=_COMMIT),
    Kind("fifo-shards", options=_SHARDS),
    Kind("fifo-commit-shards", options={**_COMMIT, **_SHARDS}),
    Kind("ints", _INTS),
    Kind("ints-commit-bytes", _INTS, {**_COMMIT, "codec": "bytes"}),
    Kind("floats", _FLOATS, {"priority_type": "float"}),
    Kind("floats-bytes", _FLOATS, {"priority_type": "float", "codec": "bytes"}),
    Kind("ints-shards", _INTS, _SHARDS),
]
STRICT = [kind for kind in KINDS if kind.is_strict]
MEMBERS = [
    Kind("fifo-member", is_member=True),
    Kind("ints-commit-member", _INTS, _COMMIT, is_member=True),
]
