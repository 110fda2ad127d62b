"""What is wanted of a queue, what a popper must know of it, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fdbqueue.service.answers import Call
from fdbqueue.service.claims import Request
from fdbqueue.service.counters import Tally
from fdbqueue.service.due import Settled
from fdbqueue.service.items import Item
from fdbqueue.service.keyspace import Due
from fdbqueue.service.reading import End, Loaded, Row

#: What becomes of items that were taken: popped, or leased. Given the transaction, its
#: account and the items, none of them corrupt.
Effect = Callable[[Any, Tally, Sequence[Loaded]], list[Item]]


class Want:
    """What somebody wants: some items from one end, and what becomes of them.

    ``leases`` says that they are to be leased. ``call`` is there where it has an
    idempotency key.
    """

    __slots__ = ("call", "count", "effect", "end", "leases")

    def __init__(
        self,
        end: End,
        count: int,
        effect: Effect,
        call: Call | None = None,
        *,
        leases: bool = False,
    ) -> None:
        self.end = end
        self.count = count
        self.effect = effect
        self.call = call
        self.leases = leases


#: A want, and the rows it is to get.
Portion = tuple[Want, list[Row]]
#: A want, and its items or its error. Whose want it is, the combining threads know.
Result = tuple[Any, list[Item] | Exception]


class Present(NamedTuple):
    """What a popper must know besides the items."""

    taken: int
    retried: bool
    requests: list[Request]
    dues: list[Due]
    more_due: bool


@dataclass
class Served:
    """What a round did.

    Attributes:
        results: Each want that was served, with its items or its error.
        wrote: Whether anything was written.
        taken: How many items had ever been taken when the round began.
        took: How many items were taken by it.
        late: How many wants came after it had begun.
        asked: How many items the requests of other processes wanted.
        answered: Whether this process's request was not there any more; then nobody who
            waits here was served.
        settled: What had fallen due and was done, None where nothing had.
    """

    results: list[Result] = field(default_factory=list)
    wrote: bool = False
    taken: int = 0
    took: int = 0
    late: int = 0
    asked: int = 0
    answered: bool = False
    settled: Settled | None = None
