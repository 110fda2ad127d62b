"""Move rows of the outbox into FoundationDB: see the page of this package for the protocol."""

from __future__ import annotations

import contextlib
import functools
import json
import random
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from django.db import connections
from django.db.models.functions import Length

from fdbqueue.connections import left_in_order
from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import QueueNotFound, text_of_error
from fdbqueue.logs import get_logger
from fdbqueue.own_threads import OwnThread, WorkerThreads
from fdbqueue.service import Catalog, Prepared, Push, Queue, run, shared_us
from fdbqueue.service.transactions import VERSIONS_PER_SECOND, Conflict
from fdbqueue.steady import monotonic
from fdbqueue.tasks.ends import is_refusal
from fdbqueue.tasks.key_limit_queues import Limited, declare
from fdbqueue.tasks.many import portions
from fdbqueue.tasks.outbox.models import OutboxName, OutboxTask
from fdbqueue.tasks.outbox.outbox_rows import MAX_CALL_CHARACTERS, NotATask, Outbox, push_in
from fdbqueue.tasks.outbox.wake import wake_key
from fdbqueue.tasks.records import encoded
from fdbqueue.tasks.schedules import is_engines

logger = get_logger(__name__)

#: The most rows that are read at once, and about the most characters of their calls.
MAX_ROWS_AT_ONCE, MAX_CHARACTERS = 500, 1_500_000
#: So many queues that a mover does not know are left out by the database, and noted in the claim.
_MAX_UNKNOWN = 100
#: How often a mover looks at the table if nothing wakes it.
LOOK_SECONDS = 2.0
#: A claim that was not renewed for so long may be taken; it is renewed after half of that.
CLAIM_SECONDS = 10.0
#: How long a mover pauses after something has failed, at first and at most.
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.5, 30.0
_STOP_SECONDS = 5.0


class ClaimLost(Exception):
    """Another mover has taken the claim; nothing was moved."""


class Moved(NamedTuple):
    """What was done: how many rows were moved, and how many were set aside."""

    moved: int = 0
    set_aside: int = 0

    def plus(self, other: Moved) -> Moved:
        """Return both together."""
        return Moved(self.moved + other.moved, self.set_aside + other.set_aside)


class _Claim(NamedTuple):
    """Who moves rows: see the page of this package."""

    mover: str | None = None
    version: int = 0
    moved: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


class _ReadyRow(NamedTuple):
    """A row, the queue that it is for, what to push to that, and the limits if it has some."""

    row: OutboxTask
    queue: Queue
    push: Push
    limited: Limited | None


class RowMover:
    """Move the rows of an outbox, step by step; for one thread.

    Args:
        outbox: The outbox.
        catalog: Where the queues are.

    Attributes:
        done: What it has done so far.
    """

    def __init__(self, outbox: Outbox, catalog: Catalog) -> None:
        self.done = Moved()
        self._outbox = outbox
        self._backend = outbox.backend
        self._catalog = catalog
        self._name = secrets.token_hex(16)
        self._key = b""
        #: What ``moved`` has of rows that may be in the table yet; None if that is not known.
        self._moved_ids: tuple[str, ...] | None = None
        #: The queues that rows are for and this process does not know, in the order in which they
        #: were met; which of them the claim has, and which the log.
        self._unknown: dict[str, None] = {}
        self._noted: tuple[str, ...] = ()
        self._told: set[str] = set()

    # The claim

    def claim(self, *, by_force: bool = False) -> bool:
        """Take the claim or renew it; tell whether this mover has it.

        A mover that is at work keeps it, unless it leaves rows of a queue that this one knows.

        Args:
            by_force: Whether to take it from a mover that is at work.

        Raises:
            RuntimeError: A transaction of the ORM is open in this thread.
        """
        self._key = self._key or self._claim_key()
        claim = functools.partial(self._claim_in, by_force=by_force)
        self._moved_ids = None
        try:
            claimed = run(self._catalog.database, claim, retries_conflicts=by_force)
        except Conflict:  # another mover was first
            return False
        if claimed is not None:
            self._moved_ids, self._noted = claimed.moved, claimed.unknown
        if self._moved_ids is not None and self._claim_key() != self._key:
            self.release()  # the table was emptied, and has another name
            self._key, self._moved_ids = b"", None
        return self._moved_ids is not None

    def _claim_key(self) -> bytes:
        """Return the key of the claim; the first mover gives the table its name.

        Raises:
            RuntimeError: A transaction of the ORM is open in this thread.
        """
        connection = connections[self._outbox.alias]
        if connection.in_atomic_block or not connection.get_autocommit():
            raise RuntimeError("Rows of an outbox are not moved in a transaction of the ORM.")
        names = OutboxName.objects.using(self._outbox.alias)
        found, _ = names.get_or_create(pk=1, defaults={"name": secrets.token_hex(16)})
        return _claim_at(self._backend, found.name)

    def _claim_in(self, tr: Transaction, by_force: bool) -> _Claim | None:
        claim, version = _stored_claim(tr, self._key), shared_us(tr, self._catalog.database)
        age = (version - claim.version) / VERSIONS_PER_SECOND
        if claim.mover == self._name:
            if not 0 <= age < CLAIM_SECONDS / 2:
                self._write(tr, claim._replace(version=version))
            return claim
        is_free = claim.mover is None or not 0 <= age < CLAIM_SECONDS
        if is_free or by_force or any(map(self._knows, claim.unknown)):
            taken = _Claim(self._name, version, claim.moved)
            self._write(tr, taken)
            return taken
        return None

    def release(self) -> None:
        """Give up the claim, if this mover has it, so that another can take it at once."""

        def release(tr: Transaction) -> None:
            claim = _stored_claim(tr, self._key)
            if claim.mover == self._name:
                self._write(tr, claim._replace(mover=None))

        if self._key:
            run(self._catalog.database, release)

    def _write(self, tr: Transaction, claim: _Claim) -> None:
        tr[self._key] = encoded(claim._asdict())

    # The steps

    def move(self, goes_on: Callable[[Moved], bool] = lambda _: True) -> None:
        """Move all rows that wait; the claim must be this mover's.

        Args:
            goes_on: Called after each transaction with what was done so far; tells whether to go
                on.

        Raises:
            ClaimLost: Another mover has taken the claim.
        """
        self._unknown.clear()
        while True:
            self._delete_moved()
            rows, too_large = self._first_rows()
            ready, aside = self._ready(rows)
            if not (rows or too_large):
                self._note_unknown()
                return
            self.done = self.done.plus(Moved(set_aside=aside + too_large))
            for portion in portions(ready, lambda one: (one.queue.name, len(one.row.call))):
                for some in self._moved_together(portion):
                    self.done = self.done.plus(some)
                    if not goes_on(self.done):
                        return

    def _delete_moved(self) -> None:
        """Delete the rows that were moved last."""
        if self._moved_ids is None:
            raise ClaimLost
        if self._moved_ids:
            self._outbox.rows.filter(result_id__in=self._moved_ids).delete()
            self._moved_ids = ()

    def _first_rows(self) -> tuple[list[OutboxTask], int]:
        """Return the first rows of queues that are known, as many as are read at once.

        Those that are too large to be read are set aside; returns how many, too.
        """
        chosen: list[int] = []
        total = too_large = 0
        for key, result_id, size in self._first_sizes():
            if size > MAX_CALL_CHARACTERS:
                row = OutboxTask(pk=key, result_id=result_id)
                self._set_aside(row, NotATask(f"it has {size:,} characters"))
                too_large += 1
                continue
            total += size
            if chosen and total > MAX_CHARACTERS:
                break
            chosen.append(key)
        return [*self._outbox.waiting.filter(pk__in=chosen)], too_large

    def _first_sizes(self) -> list[tuple[int, str, int]]:
        """Return the numbers, the ids and the sizes of the first rows of queues that are known.

        Other rows are passed over, however many they are: they may be of a newer version of the
        project, whose workers know their queues. Each read begins with the first row: only what one
        statement reads is whole, so that no row comes before an earlier one.
        """
        most, is_for_known = MAX_ROWS_AT_ONCE, functools.cache(self._is_for_known)
        while True:
            left_out = [*self._unknown][:_MAX_UNKNOWN]
            rows = self._outbox.waiting.exclude(queue__in=left_out).annotate(size=Length("call"))
            found = [*rows.values_list("pk", "result_id", "size", "queue")[:most]]
            sizes = [one[:3] for one in found if is_for_known(one[3])]
            if sizes or len(found) < most:
                return sizes[:MAX_ROWS_AT_ONCE]
            most *= 2

    def _knows(self, name: str) -> bool:
        """Tell whether this process knows a queue, as one of the backend's."""
        try:
            self._catalog.spec(name)
        except QueueNotFound:
            return False
        return bool(self._backend.owns(self._catalog.home(name)))

    def _is_for_known(self, name: str) -> bool:
        """Tell whether the queue of a row is known; the log says once which are not."""
        if self._knows(name):
            return True
        self._unknown[name] = None
        if name not in self._told:
            self._told.add(name)
            facts = {"backend": self._backend.alias, "queue": name}
            logger.warning("rows of an outbox are for a queue that is not known", extra=facts)
        return False

    def _left(self) -> tuple[str, ...]:
        """Return queues that rows were left for: of very many now some, and now others."""
        names = [*self._unknown]
        return tuple(sorted(random.sample(names, min(len(names), _MAX_UNKNOWN))))

    def _note_unknown(self) -> None:
        """Note in the claim which rows were left, so that a mover that knows better takes it."""
        left = self._left()
        if left == self._noted:
            return

        def note(tr: Transaction) -> None:
            claim = _stored_claim(tr, self._key)
            if claim.mover == self._name:
                self._write(tr, claim._replace(unknown=left))

        run(self._catalog.database, note, wrote=lambda _: False)  # harmless twice
        self._noted = left

    def _ready(self, rows: Sequence[OutboxTask]) -> tuple[list[_ReadyRow], int]:
        """Return what to push for each row; set those aside that are no tasks, and count them."""
        found, aside = [], 0
        for row in rows:
            try:
                push, limited = push_in(row)
                queue = self._catalog.queue(row.queue if limited is None else limited.queue)
                found.append(_ReadyRow(row, queue, push, limited))
            except Exception as error:  # noqa: BLE001  # whatever is wrong with it, others are moved
                self._set_aside(row, error)
                aside += 1
        return found, aside

    def _moved_together(self, ready: Sequence[_ReadyRow]) -> Iterator[Moved]:
        """Move rows in one transaction; if that is refused, each half of them, down to one."""
        if not ready:
            return
        self._delete_moved()
        try:
            moved = self._move_some(ready)
        except Exception as error:
            if not _is_of_rows(error):
                self._moved_ids = None  # the claim tells what was moved
                raise
            if len(ready) == 1:
                self._set_aside(ready[0].row, error)
                yield Moved(set_aside=1)
                return
        else:
            self._moved_ids = tuple(one.row.result_id for one in ready)
            self._delete_moved()
            yield Moved(moved=moved)
            return
        half = len(ready) // 2
        yield from self._moved_together(ready[:half])
        yield from self._moved_together(ready[half:])

    def _move_some(self, ready: Sequence[_ReadyRow]) -> int:
        """Push tasks with their records, and note that they were moved; return how many."""
        of_queues: dict[str, list[_ReadyRow]] = {}
        for one in ready:
            of_queues.setdefault(one.queue.name, []).append(one)
        pushes = [(some, _prepared(some)) for some in of_queues.values()]
        ids = tuple(one.row.result_id for one in ready)
        limits = {one.queue.name: one.limited for one in ready if one.limited is not None}
        left = self._left()

        def move(tr: Transaction) -> int:
            claim, version = _stored_claim(tr, self._key), shared_us(tr, self._catalog.database)
            if claim.mover != self._name:
                raise ClaimLost
            known = self._known(tr, ids)
            for limited in limits.values():
                declare(tr, self._catalog, self._backend.records.prefix, limited)
            for some, push_all in pushes:
                new = [one for one in some if one.row.result_id not in known]
                is_all = len(new) == len(some)
                self._push(tr, new, push_all if is_all else _prepared(new))
            self._write(tr, _Claim(self._name, version, ids, left))
            return len(ids) - len(known)

        moved: int = run(self._catalog.database, move, wrote=True)
        self._noted = left
        return moved

    def _known(self, tr: Transaction, ids: Sequence[str]) -> set[str]:
        """Return which tasks have a record, and depend on it.

        They were aborted, or their rows are back, from a backup of the table.
        """
        records = self._backend.records
        reads = [(one, records.begin_has(tr, one)) for one in ids]
        return {one for one, has in reads if has()}

    def _push(self, tr: Transaction, new: Sequence[_ReadyRow], push: Prepared) -> None:
        for one, item in zip(new, push(tr), strict=True):
            if not item.existing:
                self._backend.records.write_new(
                    tr, item.id, result_id=one.row.result_id, queue=one.queue.name
                )

    def _set_aside(self, row: OutboxTask, error: BaseException) -> None:
        problem = text_of_error(error)
        self._outbox.put_aside(row, problem)
        facts = {"backend": self._backend.alias, "row": row.pk, "id": row.result_id}
        logger.error("a row of an outbox was set aside", extra={**facts, "error": problem})

    # Waiting

    def watch(self) -> Any:
        """Return a future that is ready when rows have come; to be called before :meth:`move`."""
        key = wake_key(self._backend)
        return run(self._catalog.database, lambda tr: tr.watch(key), read_only=True)


def _claim_at(backend: Any, name: str) -> bytes:
    """Return the key of the claim of the table with a name."""
    key: bytes = backend.records.state_key("outbox", backend.alias, "claim", name)
    return key


def _stored_claim(tr: Transaction, key: bytes) -> _Claim:
    value = tr[key]
    if not value.present():
        return _Claim()
    found = json.loads(bytes(value))
    unknown = tuple(found.get("unknown", ()))  # others wrote claims before there was this
    return _Claim(found["mover"], found["version"], tuple(found["moved"]), unknown)


def has_moved(tr: Transaction, outbox: Outbox, result_id: str) -> bool:
    """Tell whether a row was moved by the last transaction of a mover."""
    name = OutboxName.objects.using(outbox.alias).filter(pk=1).first()
    key = None if name is None else _claim_at(outbox.backend, name.name)
    return key is not None and result_id in _stored_claim(tr, key).moved


def _is_of_rows(error: Exception) -> bool:
    """Tell whether an error is because of the rows, so that others can be moved without them."""
    if isinstance(error, ClaimLost) or not getattr(error, "outcome_known", True):
        return False
    return is_refusal(error) or not is_engines(error)


def _prepared(some: Sequence[_ReadyRow]) -> Prepared:
    """Prepare the tasks of one queue; a function that pushes none if there are none."""
    return some[0].queue.prepare_batch([one.push for one in some]) if some else lambda _: []


def move_now(
    outbox: Outbox,
    catalog: Catalog,
    *,
    goes_on: Callable[[Moved], bool] = lambda _: True,
    rest: Callable[[float], object] = time.sleep,
) -> Moved:
    """Move all rows that wait, even if others move some; return what this call has done.

    It takes the claim from others. If one takes it back, it waits until that one is ready, or for
    ten seconds; then it takes it again.

    Args:
        outbox: The outbox.
        catalog: Where the queues are.
        goes_on: Called after each transaction with what was done; tells whether to go on.
        rest: Sleeps.
    """
    mover, claimed_at = RowMover(outbox, catalog), monotonic()
    has_claim = mover.claim(by_force=True)
    try:
        while True:
            if has_claim:
                with contextlib.suppress(ClaimLost):
                    mover.move(goes_on)
                    return mover.done
                claimed_at = monotonic()
            if not goes_on(mover.done) or not outbox.waiting.exists():
                return mover.done
            rest(random.uniform(0.05, 0.2))
            is_late = monotonic() - claimed_at > CLAIM_SECONDS
            has_claim = mover.claim(by_force=is_late)
    finally:
        mover.release()


class MoverThread:
    """Move the rows of an outbox as they come, from :meth:`start` to :meth:`stop`.

    Args:
        outbox: The outbox.
        catalog: Where the queues are.
        threads: The worker's, of which this is one.
    """

    def __init__(
        self, outbox: Outbox, catalog: Catalog, threads: WorkerThreads | None = None
    ) -> None:
        self._outbox = outbox
        self._mover = RowMover(outbox, catalog)
        self._is_over = False
        self._woken = threading.Event()
        #: How many times in a row something has failed.
        self._failures = 0
        self._thread = OwnThread(self._run, name="fdbqueue-outbox", owner=threads)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, once the step that is under way has ended; not later than five seconds."""
        self._is_over = True
        self._woken.set()
        self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        while not self._is_over:
            woken = self._woken = threading.Event()
            watch = None
            try:
                with left_in_order():
                    watch, seconds = self._claim_and_move(woken)
                self._failures = 0
            except ClaimLost:
                seconds = LOOK_SECONDS
            except BaseException as error:  # noqa: BLE001  # whatever has failed, the thread goes on
                seconds = self._failed(error)
            if not self._is_over:
                woken.wait(seconds)
            if watch is not None:
                watch.cancel()
        self._give_up()
        with contextlib.suppress(Exception):
            connections[self._outbox.alias].close()

    def _claim_and_move(self, woken: threading.Event) -> tuple[Any, float]:
        """Move what waits; return what reports more, and after how long to look all the same."""
        if not self._mover.claim():
            return None, LOOK_SECONDS * random.uniform(1, 2)
        watch = self._mover.watch()
        watch.on_ready(lambda _: woken.set())
        before = self._mover.done.moved
        self._mover.move(lambda _: not self._is_over)
        if moved := self._mover.done.moved - before:
            facts = {"backend": self._outbox.backend.alias, "tasks": moved}
            logger.debug("tasks were moved from an outbox", extra=facts)
        return watch, LOOK_SECONDS

    def _failed(self, error: BaseException) -> float:
        """Let another mover try; return how long to pause."""
        seconds = min(_FIRST_PAUSE_SECONDS * 2**self._failures, _MAX_PAUSE_SECONDS)
        self._failures += 1
        facts = {"backend": self._outbox.backend.alias, "error": text_of_error(error)}
        logger.warning("an outbox could not be moved", extra={**facts, "seconds": seconds})
        self._give_up()
        return seconds

    def _give_up(self) -> None:
        with contextlib.suppress(Exception):  # then it is taken when it is old
            self._mover.release()
