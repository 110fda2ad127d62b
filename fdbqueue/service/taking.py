"""Take items off the ready ones: for one caller, or for many in one transaction.

A round is one transaction in which somebody takes items for all who wait in this process,
and for those of other processes who have asked for help. It reads the head of the queue and
its present (who else pops, who waits, what is due) at once, so an uncontended pop costs one
read more than the recipe's. The wants at the min end come first, then those at the max end.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fdbqueue.exceptions import CorruptItem
from fdbqueue.service import due
from fdbqueue.service.claims import (
    Claim,
    Request,
    answer_claim,
    ask_claim,
    read_request,
    remove_claim,
    remove_request,
    write_claim,
)
from fdbqueue.service.clock import now_us
from fdbqueue.service.counters import Tally, tally_of
from fdbqueue.service.items import Item
from fdbqueue.service.keyspace import Due
from fdbqueue.service.reading import End, Row
from fdbqueue.service.stock import Stock
from fdbqueue.service.supply import Basket, RelaxedSupply, Supply
from fdbqueue.service.wants import Portion, Present, Served, Want

_ENDS: tuple[End, End] = ("min", "max")
#: One round takes no more items than this, but for the first who waits.
_ROUND_ITEMS = 1_000
#: Claims are written, so what is taken for others is bounded by less than 5,000,000 bytes.
_MAX_CLAIMED_BYTES = 1_000_000
_PRESENT_ROWS = 2 + 200 + due.MAX_PROMOTED


class Taker:
    """Take items of one queue.

    Args:
        stock: Its items.
        relaxed: Whether any of the first items will do.
        max_attempts: How many failed leases make an item dead; None for no limit.
    """

    def __init__(self, stock: Stock, *, relaxed: bool, max_attempts: int | None) -> None:
        self.stock = stock
        self.max_attempts = max_attempts
        self.relaxed = relaxed

    def take(self, tr: Any, want: Want) -> list[Item]:
        """Take items in the caller's transaction, which serves nobody else.

        Raises:
            CorruptItem: One of them cannot be decoded; all stay where they are.
        """
        while True:
            served = _Round(self, tr).serve([want], lambda: ([want], 1), helps=False)
            for _, result in served.results:
                if isinstance(result, CorruptItem):
                    raise result
                return result

    def serve(
        self,
        tr: Any,
        early: Sequence[Want],
        gather: Callable[[], tuple[Sequence[Want], int]],
        *,
        own: Request | None = None,
        extra: int = 0,
    ) -> Served:
        """Take items for all who wait.

        Args:
            tr: The transaction.
            early: Those who wait already.
            gather: Returns those who wait once the head has been read, and how many of
                them, the first, were early. The later ones are served by the commit, which
                proves what was read; they cannot be told that the queue is empty by a
                transaction without one.
            own: The request under which the early wait, to be fulfilled here.
            extra: For how many more to read at once.
        """
        return _Round(self, tr).serve(early, gather, own=own, extra=extra)

    def collect(self, tr: Any, batch: Sequence[Want], request: Request, claim: Claim) -> Served:
        """Give those who wait what was taken for them, and remove the claim."""
        tally = self.stock.tally()
        remove_claim(tr, self.stock.meta, request.deadline, request.name)
        portions: list[Portion] = []
        for end, rows in zip(_ENDS, claim.rows, strict=True):
            start = 0
            for want in [want for want in batch if want.end == end]:
                portion = rows[start : start + want.count]
                start += want.count
                if portion or claim.empty:
                    portions.append((want, portion))
        served = Served(self.deliver(tr, tally, portions, retried=claim.retried), wrote=True)
        tally.write(tr)
        return served

    def give_back(self, tr: Any, request: Request) -> None:
        """Remove a request, and put back what was taken for it."""
        meta, keys = self.stock.meta, self.stock.keys
        remove_request(tr, meta, request)
        claim = answer_claim(ask_claim(tr, meta, request.name))
        remove_claim(tr, meta, request.deadline, request.name)
        for row in [] if claim is None else [*claim.rows[0], *claim.rows[1]]:
            tr[keys.key(row.place)] = row.value

    def deliver(
        self, tr: Any, tally: Tally, portions: Sequence[Portion], *, retried: bool
    ) -> list[tuple[Any, list[Item] | CorruptItem]]:
        """Do to rows what was wanted of them; no want gets past one that is corrupt.

        It is put back, with all that was taken with it and behind it at that end. Who got
        nothing has the error too, for the queue is not empty.
        """
        corrupt: dict[End, CorruptItem] = {}
        results: list[tuple[Any, list[Item] | CorruptItem]] = []
        for want, rows in portions:
            result = self._outcome(tr, tally, want, rows, corrupt.get(want.end), retried)
            if isinstance(result, CorruptItem):
                corrupt[want.end] = result
            results.append((want, result))
        for error in list(corrupt.values())[:1]:
            return [(want, result or copy.copy(error)) for want, result in results]
        return results

    def _outcome(
        self,
        tr: Any,
        tally: Tally,
        want: Want,
        rows: Sequence[Row],
        corrupt: CorruptItem | None,
        retried: bool,
    ) -> list[Item] | CorruptItem:
        if not rows:
            return []
        if corrupt is None:
            loaded = self.stock.reader.load(tr, rows, retried=retried)
            errors = [one.item for one in loaded if isinstance(one.item, CorruptItem)]
            if not errors:
                return want.effect(tr, tally, loaded)
            corrupt = errors[0]
        for row in rows:
            tr[self.stock.keys.key(row.place)] = row.value
        return copy.copy(corrupt)

    def all_due(self, tr: Any, now: int) -> Iterator[Due]:
        """Yield all that is due, in its order."""
        begin, stop = self.stock.meta.due_bounds()[0], self.stock.meta.present(now)[1]
        for row in tr.snapshot.get_range(begin, stop):
            entry = self.stock.meta.parse_due(row.key)
            if entry is not None:
                yield entry

    def ask_present(self, tr: Any, now: int) -> Any:
        """Ask for the present, without waiting for it."""
        begin, stop = self.stock.meta.present(now)
        return tr.snapshot.get_range(begin, stop, limit=_PRESENT_ROWS)

    def parse_present(self, rows: Any) -> Present:
        """Return what the rows of the present say."""
        meta = self.stock.meta
        taken, retried, requests, dues = 0, False, [], []
        count = 0
        for row in rows:
            count += 1
            if row.key == meta.tally:
                taken = tally_of(row.value)[1]
            elif row.key == meta.retried:
                retried = True
            elif meta.is_request(row.key):
                request = read_request(meta, row.key, row.value)
                if request is not None:
                    requests.append(request)
            else:
                entry = meta.parse_due(row.key)
                if entry is not None:
                    dues.append(entry)
        chosen = due.chosen(dues, self.relaxed)
        more_due = len(dues) > len(chosen) or count == _PRESENT_ROWS
        return Present(taken, retried, requests, chosen, more_due)


class _Round:
    """One transaction of :class:`Taker`."""

    def __init__(self, taker: Taker, tr: Any) -> None:
        self._taker = taker
        self._stock = taker.stock
        self._tr = tr
        self._tally = self._stock.tally()
        self._basket = Basket(self._stock.keys.size_bytes)
        self._supplies: dict[End, Supply] = {}
        self._returned: list[Row] = []
        self._retried = False
        self._more_due = False  # then nobody is told yet that the queue is empty
        self._claimed_bytes = 0
        self._served = Served()

    def serve(
        self,
        early: Sequence[Want],
        gather: Callable[[], tuple[Sequence[Want], int]],
        *,
        own: Request | None = None,
        extra: int = 0,
        helps: bool = True,
    ) -> Served:
        """Take for those who wait, and for other processes' requests."""
        now = now_us()
        asked = self._taker.ask_present(self._tr, now)
        mine = None
        if own is not None:
            mine = self._tr.snapshot[self._stock.meta.request(own.moment, own.name)]
        prompt = self._admitted(early, len(early))
        for end in _ENDS:
            count = sum([want.count for want in prompt if want.end == end])
            if count:
                self._add_supply(end, min(count + extra, max(_ROUND_ITEMS, count)))
        present = self._taker.parse_present(asked)
        self._served.taken = present.taken
        self._settle(present)
        requests = self._open_requests(present, own, now) if helps else []
        if own is not None and mine is not None:
            self._served.answered = not mine.present()
            self._drop(own)
        for supply in self._supplies.values():
            supply.preload()
        waiting, early_count = ((), 0) if self._served.answered else gather()
        self._hand_out(self._admitted(waiting, early_count), requests, early_count)
        return self._served

    def _settle(self, present: Present) -> None:
        """Do what is due; what comes back can be taken at once."""
        self._retried = present.retried
        if not present.dues:
            return
        found = due.examine(self._stock, self._tr, present.dues)
        self._returned = due.settle(
            self._stock, self._tr, self._tally, found, self._taker.max_attempts
        )
        self._retried = self._served.wrote = True
        self._more_due = present.more_due or found.is_cut
        self._basket.reserve(self._returned)
        for supply in self._supplies.values():
            supply.put_back(self._returned)

    def _open_requests(self, present: Present, own: Request | None, now: int) -> list[Request]:
        """Return the requests of others that can be fulfilled here; drop the expired."""
        found = []
        for request in present.requests:
            count = sum(request.wanted)
            if own is not None and request.name == own.name:
                continue
            if request.deadline <= now:
                self._drop(request)
            elif self._served.asked + count <= _ROUND_ITEMS:
                self._served.asked += count
                found.append(request)
        return found

    def _drop(self, request: Request) -> None:
        remove_request(self._tr, self._stock.meta, request)
        self._served.wrote = True

    def _admitted(self, batch: Sequence[Want], early: int) -> list[Want]:
        """Return those who can be served: the first, and as many as there is room for.

        Who came late waits for the next round if nothing was read at its end.
        """
        found: list[Want] = []
        room = _ROUND_ITEMS
        for index, want in enumerate(batch):
            if index >= early and want.end not in self._supplies:
                continue
            if found and want.count > room:
                break
            found.append(want)
            room -= want.count
        return found

    def _hand_out(self, batch: list[Want], requests: list[Request], early: int) -> None:
        wanted: list[list[Row]] = [[] for _ in batch]
        claims: list[tuple[list[Row], list[Row]]] = [([], []) for _ in requests]
        for which, end in enumerate(_ENDS):
            for index, want in enumerate(batch):
                if want.end == end:
                    wanted[index] = self._add_supply(end, want.count).take(want.count)
            for index, request in enumerate(requests):
                count = request.wanted[which]
                if count and self._claimed_bytes < _MAX_CLAIMED_BYTES:
                    taken = self._add_supply(end, count).take(count)
                    claims[index][which].extend(taken)
                    self._claimed_bytes += sum([len(row.value) for row in taken])
        for supply in self._supplies.values():
            supply.finish()
        for row in self._returned:
            if row.place not in self._basket.places:
                self._tr[self._stock.keys.key(row.place)] = row.value
        for request, rows in zip(requests, claims, strict=True):
            self._claim(request, rows)
        self._deliver(batch, wanted, early)
        self._served.took = self._tally.taken = len(self._basket.places)
        self._served.late = sum([want.count for want in batch[early:]])
        self._tally.write(self._tr)

    def _claim(self, request: Request, rows: tuple[list[Row], list[Row]]) -> None:
        short = len(rows[0]) + len(rows[1]) < sum(request.wanted)
        cut = self._basket.is_full or self._claimed_bytes >= _MAX_CLAIMED_BYTES
        if short and (cut or self._more_due):
            if not any(rows):
                return  # it is answered by the next round
            short = False
        self._served.wrote = True
        for row in (*rows[0], *rows[1]):
            self._stock.note_hidden(self._tally, self._stock.position(row.place))
        write_claim(self._tr, self._stock.meta, request, Claim(rows, short, self._retried))

    def _deliver(self, batch: list[Want], wanted: list[list[Row]], early: int) -> None:
        self._served.wrote = self._served.wrote or any(wanted)
        told_empty = not (self._basket.is_full or self._more_due)
        portions = [
            (want, rows)
            for index, (want, rows) in enumerate(zip(batch, wanted, strict=True))
            if rows or (told_empty and (index < early or self._served.wrote))
        ]
        self._served.results = self._taker.deliver(
            self._tr, self._tally, portions, retried=self._retried
        )

    def _add_supply(self, end: End, limit: int) -> Supply:
        """Return the supply of an end; it is asked for when it is new."""
        if end not in self._supplies:
            kind = RelaxedSupply if self._taker.relaxed else Supply
            supply = kind(self._tr, self._stock.keys, self._stock.reader, end, limit, self._basket)
            supply.put_back(self._returned)
            self._supplies[end] = supply
        return self._supplies[end]
