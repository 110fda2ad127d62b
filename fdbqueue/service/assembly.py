"""The parts of one queue, which know the storage below them and never the queue itself."""

from __future__ import annotations

from dataclasses import dataclass

from fdbqueue.engines.protocols import Database
from fdbqueue.service.browse import Browser
from fdbqueue.service.codecs import Codec
from fdbqueue.service.consume.acks import Acks
from fdbqueue.service.consume.allowance import TakeLimits
from fdbqueue.service.consume.consumer import Consumer
from fdbqueue.service.consume.dead_letters import DeadLetters
from fdbqueue.service.consume.pauses import Pausing
from fdbqueue.service.consume.poppers import ProcessGroup, shared_group
from fdbqueue.service.consume.returns import Returns
from fdbqueue.service.consume.round import Taker
from fdbqueue.service.entries import Encoder, Priorities
from fdbqueue.service.idempotency import SavedResponses
from fdbqueue.service.options import QueueOptions
from fdbqueue.service.push import Pusher
from fdbqueue.service.storage.counts import Counters
from fdbqueue.service.storage.family_index import Member
from fdbqueue.service.storage.format import Format
from fdbqueue.service.storage.item_keys import ItemKeys
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.service.storage.tables import TableKeys
from fdbqueue.service.transactions import unlimited
from fdbqueue.service.writes import Runner


@dataclass(frozen=True, slots=True)
class QueueParts:
    """What a queue is made of.

    Attributes:
        runner: Runs its operations in transactions.
        store: Its items in their states.
        counters: Its counts and its history.
        responses: The saved responses of calls with an idempotency key.
        pusher: Writes what is pushed.
        browser: Reads without changing anything.
        taker: Takes items in a transaction.
        group: What the threads of this process share of it: poppers, writes, and the watch.
        consumer: Pops and leases, and waits for items.
        acks: Ends and extends leases.
        dead_letters: Buries items and redrives them.
        returns: Gives back what workers hold, and ends delays before their time.
        pausing: Pauses and resumes it.
    """

    runner: Runner
    store: ItemStore
    counters: Counters
    responses: SavedResponses
    pusher: Pusher
    browser: Browser
    taker: Taker
    group: ProcessGroup
    consumer: Consumer
    acks: Acks
    dead_letters: DeadLetters
    returns: Returns
    pausing: Pausing


def assemble(
    database: Database,
    keys: ItemKeys,
    name: str,
    kind: str,
    codec: Codec,
    priorities: Priorities,
    options: QueueOptions,
    member: Member | None = None,
    limits_at: bytes | None = None,
) -> QueueParts:
    """Return the parts of a queue.

    Args:
        database: Anything with ``create_transaction()``.
        keys: The keys of its items.
        name: Its name, for errors.
        kind: ``"fifo"`` or ``"priority"``.
        codec: Its codec.
        priorities: Its type of priorities.
        options: Its options.
        member: Its rows in the index of its family; None if it is in none.
        limits_at: The key of a row that has its limits; None for those of the options.
    """
    tables = TableKeys(keys.subspace.key(), member)
    limits = TakeLimits.of(options) if limits_at is None else TakeLimits.at(limits_at)
    if member is not None:
        member.gives_at_end = limits is not None and limits.max_leased is not None
    facts = {"kind": kind, **options.of_format(kind)}
    format_ = Format(unlimited(database), tables, name, facts)
    store = ItemStore(keys, tables, codec, format_, name, options)
    taker = Taker(store, limits)
    who = keys.subspace.key(), name, type(keys), member and member.ready
    group = shared_group(database, taker, (*who, options, limits_at))
    runner = Runner(database, name, group.writes)
    acks = Acks(runner, taker.leases, taker.responses)
    return QueueParts(
        runner=runner,
        store=store,
        counters=Counters(tables),
        responses=taker.responses,
        pusher=Pusher(runner, Encoder(store, priorities), taker.responses),
        browser=Browser(taker, priorities),
        taker=taker,
        group=group,
        consumer=Consumer(runner, taker, group),
        acks=acks,
        dead_letters=DeadLetters(runner, store),
        returns=Returns(runner, taker.leases, acks),
        pausing=Pausing(runner, tables.paused, keys.bounds, member=member),
    )
