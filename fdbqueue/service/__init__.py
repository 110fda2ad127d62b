"""Queues over FoundationDB transactions; needs neither Django nor FoundationDB's client."""

from __future__ import annotations

from fdbqueue.service.aio import arun
from fdbqueue.service.bulk.batches import Batch
from fdbqueue.service.catalog import Catalog, QueueSpec
from fdbqueue.service.codecs import CODECS, Codec, Stored
from fdbqueue.service.idempotency import IdempotencyKey
from fdbqueue.service.items import Held, Item, Page, Push, Undecodable
from fdbqueue.service.queues import FifoQueue, PriorityQueue, Queue
from fdbqueue.service.storage.counts import Counts, Minute
from fdbqueue.service.tools.load import Load
from fdbqueue.service.tools.streams import Batcher, Mover
from fdbqueue.service.tools.worker import Worker
from fdbqueue.service.transactions import run, transactional

__all__ = [
    "CODECS",
    "Batch",
    "Batcher",
    "Catalog",
    "Codec",
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
    "Stored",
    "Undecodable",
    "Worker",
    "arun",
    "run",
    "transactional",
]
