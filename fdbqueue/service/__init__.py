"""Queues over FoundationDB transactions; needs neither Django nor FoundationDB's client."""

from __future__ import annotations

from fdbqueue.service.answers import Once
from fdbqueue.service.awaiting.transactions import arun
from fdbqueue.service.base import Queue
from fdbqueue.service.batches import Batch
from fdbqueue.service.batching import Batcher, Mover
from fdbqueue.service.catalog import Catalog, QueueSpec
from fdbqueue.service.counters import Counts, Minute
from fdbqueue.service.items import Held, Item, Page, Push, Undecodable
from fdbqueue.service.loading import Load
from fdbqueue.service.queues import FifoQueue, PriorityQueue
from fdbqueue.service.transactions import run, transactional
from fdbqueue.service.working import Worker

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
