"""Queues over FoundationDB transactions; needs neither Django nor FoundationDB's client."""

from __future__ import annotations

from fdbqueue.service.base import Queue
from fdbqueue.service.catalog import Catalog, QueueSpec
from fdbqueue.service.counters import Counts, Minute
from fdbqueue.service.items import Item, Page, Undecodable
from fdbqueue.service.queues import FifoQueue, PriorityQueue
from fdbqueue.service.transactions import run, transactional

__all__ = [
    "Catalog",
    "Counts",
    "FifoQueue",
    "Item",
    "Minute",
    "Page",
    "PriorityQueue",
    "Queue",
    "QueueSpec",
    "Undecodable",
    "run",
    "transactional",
]
