"""What becomes of items that are taken off the ready ones, and what a popper must know."""

from __future__ import annotations

import copy
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from fdbqueue.exceptions import CorruptItem, FdbQueueError
from fdbqueue.service import due
from fdbqueue.service.answers import Answers
from fdbqueue.service.claims import (
    Claim,
    Request,
    answer_claim,
    ask_claim,
    read_request,
    remove_claim,
    remove_request,
)
from fdbqueue.service.counters import Tally, tally_of
from fdbqueue.service.items import Item
from fdbqueue.service.keyspace import Due
from fdbqueue.service.reading import End, Row
from fdbqueue.service.stock import Stock
from fdbqueue.service.wants import Portion, Present, Result, Served, Want

ENDS: tuple[End, End] = ("min", "max")
W = TypeVar("W", bound=Want)

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
        self.answers = Answers(stock)
        self.max_attempts = max_attempts
        self.relaxed = relaxed

    def collect(self, tr: Any, batch: Sequence[Want], request: Request, claim: Claim) -> Served:
        """Give those who wait what was taken for them, and remove the claim.

        What those would have had whose calls were made meanwhile goes to the next; what is
        left is put back, and then nobody is told that the queue is empty.
        """
        tally = self.stock.tally()
        asked = self.ask_answers(tr, batch)
        remove_claim(tr, self.stock.meta, request.deadline, request.name)
        answered = self.answered(asked)
        portions: list[Portion] = []
        left: list[Row] = []
        for end, rows in zip(ENDS, claim.rows, strict=True):
            start = 0
            for want in self.unanswered(batch, asked, answered):
                if want.end == end:
                    portions.append((want, rows[start : start + want.count]))
                    start += want.count
            left += rows[start:]
        self._put_back(tr, left)
        told_empty = claim.empty and not left
        portions = [(want, portion) for want, portion in portions if portion or told_empty]
        results = self.deliver(tr, tally, portions, retried=claim.retried)
        tally.write(tr)
        return Served([*answered.items(), *results], wrote=True)

    def give_back(self, tr: Any, request: Request) -> None:
        """Remove a request, and put back what was taken for it."""
        meta = self.stock.meta
        remove_request(tr, meta, request)
        claim = answer_claim(ask_claim(tr, meta, request.name))
        remove_claim(tr, meta, request.deadline, request.name)
        self._put_back(tr, [] if claim is None else [*claim.rows[0], *claim.rows[1]])

    def ask_answers(self, tr: Any, batch: Iterable[Want]) -> dict[Want, Any]:
        """Ask for what is kept of calls with a key; of those with the same key, of the first."""
        named = {want.call.name: want for want in reversed([*batch]) if want.call is not None}
        return {
            want: self.answers.ask(tr, want.call)
            for want in named.values()
            if want.call is not None
        }

    def unanswered(
        self, batch: Iterable[W], asked: Container[Want], answered: Container[Want]
    ) -> list[W]:
        """Return the wants that were not answered: those with a key that were asked for."""
        return [
            want for want in batch if want.call is None or (want in asked and want not in answered)
        ]

    def answered(self, asked: dict[Want, Any]) -> dict[Want, list[Item] | Exception]:
        """Return the answers of the calls that were made before."""
        found: dict[Want, list[Item] | Exception] = {}
        for want, answer in asked.items():
            assert want.call is not None
            try:
                items = self.answers.recalled_items(answer, want.call)
            except FdbQueueError as error:
                found[want] = error
            else:
                if items is not None:
                    found[want] = items
        return found

    def deliver(
        self, tr: Any, tally: Tally, portions: Sequence[Portion], *, retried: bool
    ) -> list[Result]:
        """Do to rows what was wanted of them; no want gets past one that is corrupt.

        It is put back, with all that was taken with it and behind it at that end. Who got
        nothing has the error too, for the queue is not empty.
        """
        corrupt: dict[End, CorruptItem] = {}
        results: list[Result] = []
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
                items = want.effect(tr, tally, loaded)
                if want.call is not None:
                    self.answers.keep_items(tr, want.call, loaded, items)
                return items
            corrupt = errors[0]
        self._put_back(tr, rows)
        return copy.copy(corrupt)

    def _put_back(self, tr: Any, rows: Iterable[Row]) -> None:
        for row in rows:
            tr[self.stock.keys.key(row.place)] = row.value

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
