"""Queues over FoundationDB transactions; needs neither Django nor FoundationDB's client.

Where to find, and to change:

- a queue's public methods: :mod:`queues`; their ``await`` twins: :mod:`aio`
- a queue option: :mod:`options`, which settings, REST and pages read
- a codec: :mod:`codecs`
- the limits of items, bytes and seconds: :mod:`limits`
- the keys and values that are stored, a lease's key among them: :mod:`storage`
- a push: :mod:`push`; a pop, a lease, an ack: :mod:`consume`, whose page tells how a pop goes
- operations of several threads in one transaction: :mod:`consume.combiner`
- retries, and the outcome of a commit: :mod:`transactions` and :mod:`receipts`
- idempotency keys: :mod:`idempotency`
- many items at a time: :mod:`bulk`; workers, streams and other tools: :mod:`tools`
- what reads without changing: :mod:`browse` and :mod:`overview`
- how a queue is put together: :mod:`parts`, :mod:`runner`; by its name: :mod:`catalog`
"""

from __future__ import annotations

from fdbqueue.service.aio import arun
from fdbqueue.service.bulk.batches import Batch
from fdbqueue.service.catalog import Catalog, QueueSpec
from fdbqueue.service.idempotency import IdempotencyKey
from fdbqueue.service.items import Held, Item, Page, Push, Undecodable
from fdbqueue.service.queues import FifoQueue, PriorityQueue, Queue
from fdbqueue.service.storage.counts import Counts, Minute
from fdbqueue.service.tools.load import Load
from fdbqueue.service.tools.streams import Batcher, Mover
from fdbqueue.service.tools.worker import Worker
from fdbqueue.service.transactions import run, transactional

__all__ = [
    "Batch",
    "Batcher",
    "Catalog",
    "Counts",
    "FifoQueue",
    "Held",
    "IdempotencyKey",
    "Item",
    "Load",
    "Minute",
    "Mover",
    "Page",
    "PriorityQueue",
    "Push",
    "Queue",
    "QueueSpec",
    "Undecodable",
    "Worker",
    "arun",
    "run",
    "transactional",
]
