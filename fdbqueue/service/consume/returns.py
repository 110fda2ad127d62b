"""Give back what workers hold, and have run now what waits for its time, at somebody else's word.

Both move hidden items to their own places, in portions of 200 items or about 1,000,000 bytes, each
one transaction with one receipt. They need no token: commands, REST and pages say who may call.

The items are listed by snapshot reads; the transaction that moves them reads each again. A caller
that has shown somebody what it will do gives a bound: what is leased again after that moment is
beyond it, so the same call twice does nothing the second time. The token of a rate stays spent:
somebody may have begun with the item.

What is left behind by

- *a late ack, nack or extend*: ``LeaseLost``. Of an ack and a give back at once, the first wins;
- *a worker that lives*: until its next extension fails, its work is done twice;
- *an unknown outcome*: each portion counts once, or ``OutcomeUnknown`` is raised;
- *a crash, a signal, an engine that fails*: the portions before. The same call does the rest.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import InvalidInput
from fdbqueue.service.clock import microseconds
from fdbqueue.service.consume import expiry
from fdbqueue.service.consume.acks import Acks
from fdbqueue.service.consume.leases import Leases, ahead, worker_of
from fdbqueue.service.sizes import STEP_BYTES
from fdbqueue.service.storage.counts import CountChange
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.service.storage.tables import Hidden, State
from fdbqueue.service.writes import Runner

#: How many items one transaction looks at.
_AT_ONCE = 200

#: Tells of a hidden item, without its value, whether it is meant.
Meant = Callable[[Hidden], bool]


def moment_before(queue: str, name: str, at: datetime.datetime | None) -> int | None:
    """Return a moment that bounds what is meant, in microseconds; None if there is no bound.

    Raises:
        InvalidInput: It does not know its time zone.
    """
    if at is None:
        return None
    if not isinstance(at, datetime.datetime) or at.tzinfo is None:
        raise InvalidInput(queue=queue, reason=f"{name} is no datetime with a time zone")
    return microseconds(at)


def portions(
    runner: Runner,
    store: ItemStore,
    state: State,
    item_ids: Iterable[str] | None,
    is_meant: Meant | None = None,
) -> Iterator[list[bytes]]:
    """Yield the places of hidden items, 200 at most at a time: of all, up to the last of now.

    Args:
        runner: Runs its reads.
        store: The items of the queue.
        state: Their state.
        item_ids: Ids to take in place of all; nothing is read of these.
        is_meant: Tells which of all to yield; None for each.

    Raises:
        InvalidInput: One is not an item's id in this queue.
    """
    if item_ids is not None:
        places = iter(dict.fromkeys(map(store.keys.place_named, item_ids)))
        while some := [*itertools.islice(places, _AT_ONCE)]:
            yield some
        return

    def following(tr: Transaction, after: bytes | None) -> tuple[list[bytes], list[bytes]]:
        found = store.places(tr, state, after, _AT_ONCE, last)
        if is_meant is None:
            return found, found
        facts = store.facts(tr.snapshot, state, found)
        pairs = zip(found, facts, strict=True)
        return found, [place for place, one in pairs if one is not None and is_meant(one)]

    last = runner.read(None, functools.partial(store.last_place, state=state))
    after: bytes | None = None
    while last is not None:
        found, meant = runner.read(None, functools.partial(following, after=after))
        if not found:
            return
        if meant:
            yield meant
        after = found[-1]


class Returns:
    """Give back the leases of one queue, and end its delays before their time.

    Args:
        runner: Runs its operations.
        leases: Its leases.
        acks: What gives a lease up.
    """

    def __init__(self, runner: Runner, leases: Leases, acks: Acks) -> None:
        self._runner = runner
        self._store = leases.store
        self._queue = leases.store.queue
        self._requeue = leases.put_back
        self._give_up = functools.partial(acks.give_up, delay_us=0, reason=expiry.GIVEN_BACK)

    def give_back(
        self,
        item_ids: Iterable[str] | None,
        worker: str | None,
        leased_before: datetime.datetime | None,
        limit: int | None,
        on_given_back: Callable[[int], None],
        *,
        spend: bool,
    ) -> int:
        """Give back leases: of some items, of a worker, or all; count them."""
        names = None
        if worker is not None:
            names = {worker_of(self._queue, worker), ahead(worker).encode()}
        before = moment_before(self._queue, "leased_before", leased_before)

        def is_meant(lease: Hidden) -> bool:
            return (names is None or lease.worker in names) and (
                before is None or lease.began < before
            )

        change = self._give_up if spend else self._requeue
        work = functools.partial(self._portion, state=State.LEASED, change=change)
        return self._do("give_back", State.LEASED, item_ids, is_meant, work, limit, on_given_back)

    def run_now(
        self,
        item_ids: Iterable[str] | None,
        due_before: datetime.datetime | None,
        limit: int | None,
        on_ready: Callable[[int], None],
    ) -> int:
        """Make delayed items ready: some, or all; count them."""
        before = moment_before(self._queue, "due_before", due_before)

        def is_meant(delayed: Hidden) -> bool:
            return before is None or delayed.until < before

        work = functools.partial(self._portion, state=State.DELAYED, change=self._end_delay)
        return self._do("run_now", State.DELAYED, item_ids, is_meant, work, limit, on_ready)

    def _do(
        self,
        verb: str,
        state: State,
        item_ids: Iterable[str] | None,
        is_meant: Meant,
        work: Callable[..., tuple[int, int]],
        limit: int | None,
        on_done: Callable[[int], None],
    ) -> int:
        """Move what is meant, a portion at a time, until the limit is reached; count it."""
        done, most = 0, math.inf if limit is None else limit
        for some in portions(self._runner, self._store, state, item_ids, is_meant):
            rest = some
            while rest and done < most:
                move = functools.partial(work, places=rest, is_meant=is_meant, most=most - done)
                count, looked = self._runner.write(verb, None, move, wrote=_has_moved)
                on_done(count)
                done, rest = done + count, rest[looked:]
            if done >= most:
                break
        return done

    def _portion(
        self,
        tr: Transaction,
        state: State,
        places: Sequence[bytes],
        change: Callable[[CountChange, Hidden], None],
        is_meant: Meant,
        most: float,
    ) -> tuple[int, int]:
        """Move what is meant of some places; stop after about 1,000,000 bytes.

        Returns:
            How many were moved, and how many of the places were looked at.
        """
        self._store.format.check(tr)
        count_change = self._store.count_change(tr)
        count = looked = size = 0
        for place, facts in zip(places, self._store.facts(tr, state, places), strict=True):
            if count >= most or size >= STEP_BYTES:
                break
            looked += 1
            if facts is None or not is_meant(facts):
                continue
            hidden = self._store.find(tr, state, place)
            if hidden is None:  # its value is gone
                continue
            size += len(hidden.row.value)
            change(count_change, hidden)
            count += 1
        count_change.write()
        return count, looked

    def _end_delay(self, count_change: CountChange, delayed: Hidden) -> None:
        """Requeue a delayed item, as the end of its delay does."""
        row = expiry.take_out_or_bury(
            self._store, count_change, delayed, delayed.attempts, None, ""
        )
        assert row is not None
        self._store.write_rows(count_change.tr, [row])


def _has_moved(found: tuple[int, int]) -> bool:
    return found[0] > 0
