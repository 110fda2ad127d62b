"""Queues over FoundationDB transactions; needs neither Django nor FoundationDB's client."""

from __future__ import annotations

from fdbqueue.service.aio import arun
from fdbqueue.service.base import Queue
from fdbqueue.service.bulk.batches import Batch
from fdbqueue.service.bulk.load import Load
from fdbqueue.service.bulk.streams import Batcher, Mover
from fdbqueue.service.catalog import Catalog, QueueSpec
from fdbqueue.service.idempotency import Once
from fdbqueue.service.items import Held, Item, Page, Push, Undecodable
from fdbqueue.service.queues import FifoQueue, PriorityQueue
from fdbqueue.service.storage.counts import Counts, Minute
from fdbqueue.service.transactions import run, transactional
from fdbqueue.service.worker import Worker

__all__ = [
    "Batch",
    "Batcher",
    "Catalog",
    "Counts",
    "FifoQueue",
    "Held",
    "Item",
    "Load",
    "Minute",
    "Mover",
    "Once",
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
