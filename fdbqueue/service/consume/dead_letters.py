"""Bury items, which makes them dead letters, and redrive dead letters to the queue."""

from __future__ import annotations

import functools
import itertools
import logging
import math
from collections.abc import Iterable, Iterator

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import CorruptItem, ItemNotFound
from fdbqueue.service.consume.leases import Leases, reason_of
from fdbqueue.service.runner import Runner
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.service.storage.tables import State

logger = logging.getLogger(__name__)

_REDRIVEN_AT_ONCE = 200


class DeadLetters:
    """Bury and redrive the items of one queue.

    Args:
        runner: Runs its operations.
        store: Its items.
        leases: Its leases.
    """

    def __init__(self, runner: Runner, store: ItemStore, leases: Leases) -> None:
        self._runner = runner
        self._store = store
        self._leases = leases

    def bury(self, item_id: str, reason: str, tr: Transaction | None) -> None:
        """Move a ready item to the dead letters."""
        queue = self._store.queue
        place, reason = self._store.keys.place_named(item_id), reason_of(queue, reason)
        bury = functools.partial(self._leases.bury, place=place, item_id=item_id, reason=reason)
        self._runner.write("bury", tr, bury)

    def bury_corrupt(self, error: CorruptItem) -> bool:
        """Move the item that an error names to the dead letters; tell whether it was there."""
        try:
            self.bury(error.context["id"], f"undecodable: {error.context['reason']}", None)
        except ItemNotFound:
            return False
        facts = {"queue": self._store.queue, "item": error.context["id"]}
        logger.warning("an item that cannot be decoded was buried", extra=facts)
        return True

    def redrive(self, item_ids: Iterable[str] | None, limit: int | None) -> int:
        """Requeue dead letters at their places, in transactions of at most 200; count them."""
        places = None
        if item_ids is not None:
            place_named = self._store.keys.place_named
            places = iter(dict.fromkeys(place_named(item_id) for item_id in item_ids))
        moved, most = 0, math.inf if limit is None else limit
        for some in self._dead(places):
            rest = some
            while rest and moved < most:
                redrive = functools.partial(self._leases.redrive, places=rest, most=most - moved)
                count, looked = self._runner.write("redrive", None, redrive)
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
                some = self._runner.read(None, functools.partial(self._next_places, after=after))
            if not some:
                return
            after = some[-1]
            yield some

    def _next_places(self, tr: Transaction, after: bytes | None) -> list[bytes]:
        return self._store.places(tr, State.DEAD, after, _REDRIVEN_AT_ONCE)
