"""Rounds: transactions that take items off the ready ones, for one caller or for many.

A round is one transaction in which somebody takes items for all who wait in this process,
and for those of other processes who have asked for help. It reads the head of the queue and
its present (who else pops, who waits, what is due) at once, so an uncontended pop costs one
read more than the recipe's. The wants at the min end come first, then those at the max end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fdbqueue.service import due
from fdbqueue.service.claims import Claim, Request, remove_request, write_claim
from fdbqueue.service.clock import now_us
from fdbqueue.service.items import Item
from fdbqueue.service.reading import End, Row
from fdbqueue.service.supply import Basket, RelaxedSupply, Supply
from fdbqueue.service.taking import ENDS, Taker
from fdbqueue.service.wants import Present, Result, Served, Want

#: One round takes no more items than this, but for the first who waits.
_ROUND_ITEMS = 1_000
#: Claims are written, so what is taken for others is bounded by less than 5,000,000 bytes.
_MAX_CLAIMED_BYTES = 1_000_000


class Round:
    """One transaction in which items are taken.

    Args:
        taker: Takes the queue's items.
        tr: The transaction.
    """

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
        self._asked: dict[Want, Any] | None = None  # what is kept of the calls with a key
        self._answered: list[Result] = []
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
        """Take items for all who wait.

        Args:
            early: Those who wait already.
            gather: Returns those who wait once the head has been read, and how many of
                them, the first, were early. The later ones are served by the commit, which
                proves what was read; they cannot be told that the queue is empty by a
                transaction without one.
            own: The request under which the early wait, to be fulfilled here.
            extra: For how many more to read at once.
            helps: Whether to take for other processes' requests, too.
        """
        now = now_us()
        asked = self._taker.ask_present(self._tr, now)
        mine = None
        if own is not None:
            mine = self._tr.snapshot[self._stock.meta.request(own.moment, own.name)]
        prompt, _ = self._admitted(early, len(early))
        self._asked = self._taker.ask_answers(self._tr, prompt)
        for end in ENDS:
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
        batch, early_count = self._unanswered(*self._admitted(waiting, early_count))
        self._hand_out(batch, requests, early_count)
        return self._served

    def _unanswered(self, batch: list[Want], early: int) -> tuple[list[Want], int]:
        """Answer the calls that were made before, and return the others, and how many early."""
        answered = self._taker.answered(self._asked or {})
        self._answered = [(want, answered[want]) for want in batch if want in answered]
        return [want for want in batch if want not in answered], early - len(self._answered)

    def _settle(self, present: Present) -> None:
        """Do what is due; what comes back can be taken at once."""
        self._retried = present.retried
        if not present.dues:
            return
        found = due.examine(self._stock, self._tr, present.dues)
        self._returned = due.settle(
            self._stock, self._tr, self._tally, found, self._taker.max_attempts
        )
        self._served.settled = due.settled(found, self._taker.max_attempts)
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

    def _admitted(self, batch: Sequence[Want], early: int) -> tuple[list[Want], int]:
        """Return those who can be served, and how many of them, the first, are early.

        The first, and as many as there is room for. Who came late waits for the next round
        if nothing was read at its end; so does a call with a key that was not looked up.
        """
        found: list[Want] = []
        prompt, room = 0, _ROUND_ITEMS
        for index, want in enumerate(batch):
            if index >= early and want.end not in self._supplies:
                continue
            if want.call is not None and self._asked is not None and want not in self._asked:
                continue
            if found and want.count > room:
                break
            found.append(want)
            prompt += index < early
            room -= want.count
        return found, prompt

    def _hand_out(self, batch: list[Want], requests: list[Request], early: int) -> None:
        wanted: list[list[Row]] = [[] for _ in batch]
        claims: list[tuple[list[Row], list[Row]]] = [([], []) for _ in requests]
        for which, end in enumerate(ENDS):
            for index, want in enumerate(batch):
                if want.end == end:
                    kept = want.call is not None
                    supply = self._add_supply(end, want.count)
                    wanted[index] = supply.take(want.count, leased=want.leases, kept=kept)
            for index, request in enumerate(requests):
                count = request.wanted[which]
                if count and self._claimed_bytes < _MAX_CLAIMED_BYTES:
                    # Its owner may lease them, and keep a copy: that has to fit, too.
                    supply = self._add_supply(end, count)
                    taken = supply.take(count, leased=True, kept=True)
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
        self._served.results = [
            *self._answered,
            *self._taker.deliver(self._tr, self._tally, portions, retried=self._retried),
        ]

    def _add_supply(self, end: End, limit: int) -> Supply:
        """Return the supply of an end; it is asked for when it is new."""
        if end not in self._supplies:
            kind = RelaxedSupply if self._taker.relaxed else Supply
            supply = kind(self._tr, self._stock.keys, self._stock.reader, end, limit, self._basket)
            supply.put_back(self._returned)
            self._supplies[end] = supply
        return self._supplies[end]


def take(taker: Taker, tr: Any, want: Want) -> list[Item]:
    """Take items in the caller's transaction, which serves nobody else.

    Raises:
        CorruptItem: One of them cannot be decoded; all stay where they are.
        IdempotencyKeyReused: The key was another call's.
    """
    while True:
        served = Round(taker, tr).serve([want], lambda: ([want], 1), helps=False)
        for _, result in served.results:
            if isinstance(result, Exception):
                raise result
            if want.call is not None and not result and not want.call.replayed:
                taker.answers.keep_items(tr, want.call, [], [])
            return result
