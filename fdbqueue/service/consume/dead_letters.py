"""Bury items, which makes them dead letters, and redrive dead letters to the queue."""

from __future__ import annotations

import datetime
import functools
import math
from collections.abc import Callable, Iterable, Sequence

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import CorruptItem, ItemNotFound, ItemNotReady
from fdbqueue.logs import get_logger
from fdbqueue.service.clock import moment, now_us
from fdbqueue.service.consume.leases import reason_of
from fdbqueue.service.consume.returns import moment_before, portions
from fdbqueue.service.sizes import STEP_BYTES
from fdbqueue.service.storage.counts import CountChange
from fdbqueue.service.storage.failures import group_of_stored, group_of_text
from fdbqueue.service.storage.item_keys import Row
from fdbqueue.service.storage.store import STATES, ItemStore
from fdbqueue.service.storage.tables import Hidden, State
from fdbqueue.service.writes import Runner

logger = get_logger(__name__)


class ChosenDead:
    """Tell which dead letters are meant: of a reason, dead before a moment; None for any.

    Args:
        queue: The queue's name, for errors.
        reason: The reason, or a text of its group.
        died_before: The moment; that of a death is by the clock of the client that noted it.

    Raises:
        InvalidInput: The reason is no text, or the moment does not know its time zone.
    """

    def __init__(
        self, queue: str, reason: str | None, died_before: datetime.datetime | None
    ) -> None:
        self._group = None if reason is None else group_of_text(reason_of(queue, reason))
        self._before = moment_before(queue, "died_before", died_before)

    def is_all(self) -> bool:
        """Tell whether all dead letters are meant."""
        return self._group is None and self._before is None

    def has(self, dead: Hidden) -> bool:
        """Tell whether a dead letter is one of them."""
        return (self._before is None or dead.until < self._before) and (
            self._group is None or group_of_stored(dead.reason) == self._group
        )


class DeadLetters:
    """Bury and redrive the items of one queue.

    Args:
        runner: Runs its operations.
        store: Its items.
    """

    def __init__(self, runner: Runner, store: ItemStore) -> None:
        self._runner = runner
        self._store = store

    def bury(self, item_id: str, reason: str, tr: Transaction | None) -> None:
        """Move a ready item to the dead letters."""
        queue = self._store.queue
        place, reason = self._store.keys.place_named(item_id), reason_of(queue, reason)
        bury = functools.partial(self._bury, place=place, item_id=item_id, reason=reason)
        self._runner.write("bury", tr, bury)

    def bury_corrupt(self, error: CorruptItem) -> bool:
        """Move the item that an error names to the dead letters; tell whether it was there."""
        try:
            self.bury(error.context["id"], f"undecodable: {error.context['reason']}", None)
        except ItemNotFound:
            return False
        facts = {"queue": self._store.home, "item": error.context["id"]}
        logger.warning("an item that cannot be decoded was buried", extra=facts)
        return True

    def redrive(
        self,
        item_ids: Iterable[str] | None,
        limit: int | None,
        chosen: ChosenDead,
        on_redriven: Callable[[int], None],
        on_undecodable: Callable[[Sequence[str]], None],
    ) -> int:
        """Redrive dead letters at their places, in transactions of at most 200; count them."""
        moved, most = 0, math.inf if limit is None else limit
        for some in portions(self._runner, self._store, State.DEAD, item_ids):
            rest = some
            while rest and moved < most:
                redrive = functools.partial(
                    self._redrive,
                    places=rest,
                    most=most - moved,
                    chosen=chosen,
                    is_forced=item_ids is not None,
                )
                count, looked, undecodable = self._runner.write("redrive", None, redrive)
                on_redriven(count)
                if undecodable:
                    on_undecodable(undecodable)
                moved, rest = moved + count, rest[looked:]
            if moved >= most:
                break
        return moved

    # In a transaction

    def _bury(self, tr: Transaction, place: bytes, item_id: str, reason: str) -> None:
        """Move a ready item, even a corrupt one, to the dead letters.

        Raises:
            ItemNotFound: No item is there.
            ItemNotReady: It is in another state.
        """
        stored = self._store.format.begin_read(tr)
        key = self._store.keys.key(place)
        value = tr[key]
        stored()
        if not value.present():
            raise self._not_ready(tr, place, item_id)
        count_change = self._store.count_change(tr)
        (loaded,) = self._store.load(tr, [Row(place, bytes(value))], retried=True)
        tr.clear(key)
        self._store.bury(count_change, loaded, now_us(), reason)
        count_change.taken += 1
        count_change.write()

    def _not_ready(self, tr: Transaction, place: bytes, item_id: str) -> ItemNotFound:
        """Return the error for an item that is not ready, or not there."""
        queue = self._store.queue
        for name, state in STATES.items():
            (found,) = self._store.facts(tr, state, [place])
            if found is not None:
                until = None if state is State.DEAD else moment(found.until)
                worker = found.worker.decode(errors="replace") or None
                facts = {"queue": queue, "id": item_id, "state": name}
                return ItemNotReady(**facts, until=until, worker=worker)
        return ItemNotFound(queue=queue, id=item_id)

    def _redrive(
        self,
        tr: Transaction,
        places: Sequence[bytes],
        most: float,
        chosen: ChosenDead,
        *,
        is_forced: bool,
    ) -> tuple[int, int, list[str]]:
        """Redrive dead letters, those that are chosen, at their places, without attempts.

        Places without such a dead letter, and letters whose unique key another item has, are
        skipped. So are letters that cannot be decoded, which would block the queue, unless
        ``is_forced``. Stops after about 1,000,000 bytes.

        Returns:
            How many were requeued, how many of the places were looked at, and the ids of letters
            that cannot be decoded.
        """
        self._store.format.check(tr)
        count_change = self._store.count_change(tr)
        count = looked = 0
        undecodable = []
        for place, is_chosen in zip(places, self._chosen(tr, places, chosen), strict=True):
            if count >= most or tr.get_approximate_size().wait() >= STEP_BYTES:
                break
            looked += 1
            hidden = self._store.find(tr, State.DEAD, place) if is_chosen else None
            if hidden is None:
                continue
            (loaded,) = self._store.load(tr, [hidden.row], retried=False)
            if isinstance(loaded.item, CorruptItem):
                undecodable.append(self._store.keys.id_of(place))
                if not is_forced:
                    continue
            if self._store.take_key_again(tr, place):
                self._requeue(count_change, hidden)
                count += 1
        count_change.write()
        return count, looked, undecodable

    def _chosen(
        self, tr: Transaction, places: Sequence[bytes], chosen: ChosenDead
    ) -> Iterable[bool]:
        """Tell of each place whether it has a dead letter that is chosen."""
        if chosen.is_all():
            return [True] * len(places)
        found = self._store.facts(tr, State.DEAD, places)
        return [facts is not None and chosen.has(facts) for facts in found]

    def _requeue(self, count_change: CountChange, dead: Hidden) -> None:
        """Requeue a dead letter at its place, as if it had never been tried."""
        tr = count_change.tr
        self._store.reveal(count_change, dead)
        row = self._store.requeued_row(tr, dead, 0)
        self._store.requeue_hidden(count_change, dead, row)
        self._store.failures.remove(tr, dead.row.place)
