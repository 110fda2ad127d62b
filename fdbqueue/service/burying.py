"""Dead letters: items that were given up too often, or put away by hand."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any

from fdbqueue.service.consume.leases import reason_of
from fdbqueue.service.consuming import Consuming
from fdbqueue.service.storage.tables import State

_REDRIVEN_AT_ONCE = 200


class Burying(Consuming):
    """The parts of a queue that deal with its dead letters."""

    def bury(self, item_id: str, *, reason: str = "buried", tr: Any = None) -> None:
        """Move a ready item to the dead letters, even one that cannot be decoded.

        Raises:
            ItemNotFound: No ready item has this id.
            InvalidInput: It is no item's id in this queue.
        """
        place, reason = self._keys.place_named(item_id), reason_of(self.name, reason)
        self._transact(
            "bury", tr, lambda transaction: self._leases.bury(transaction, place, item_id, reason)
        )

    def redrive(self, item_ids: Iterable[str] | None = None, *, limit: int | None = None) -> int:
        """Put dead letters back to their places, as if they had never been tried.

        In transactions of up to 200 items, each all or nothing.

        Args:
            item_ids: Which; None for all that are dead when it starts.
            limit: The most to put back.

        Returns:
            How many were.
        """
        places = None
        if item_ids is not None:
            named = dict.fromkeys(self._keys.place_named(item_id) for item_id in item_ids)
            places = iter(named)
        moved, most = 0, math.inf if limit is None else limit
        for some in self._dead(places):
            rest = some
            while rest and moved < most:
                redrive = functools.partial(self._leases.redrive, places=rest, most=most - moved)
                count, looked = self._transact("redrive", None, redrive)
                moved, rest = moved + count, rest[looked:]
            if moved >= most:
                break
        return moved

    def _dead(self, places: Iterator[bytes] | None) -> Iterator[list[bytes]]:
        """Yield the places of dead letters, some at a time."""
        after: bytes | None = None
        while True:
            if places is not None:
                some = list(itertools.islice(places, _REDRIVEN_AT_ONCE))
            else:
                some = self._read(None, functools.partial(self._dead_behind, after=after))
            if not some:
                return
            after = some[-1]
            yield some

    def _dead_behind(self, tr: Any, after: bytes | None) -> list[bytes]:
        return self._stock.places(tr, State.DEAD, after, _REDRIVEN_AT_ONCE)
