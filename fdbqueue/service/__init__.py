"""Queues over FoundationDB transactions; needs neither Django nor FoundationDB's client."""

from __future__ import annotations

from fdbqueue.service.base import Queue
from fdbqueue.service.catalog import Catalog, QueueSpec
from fdbqueue.service.items import Item, Page, Undecodable
from fdbqueue.service.queues import FifoQueue, PriorityQueue
from fdbqueue.service.transactions import run, transactional

__all__ = [
    "Catalog",
    "FifoQueue",
    "Item",
    "Page",
    "PriorityQueue",
    "Queue",
    "QueueSpec",
    "Undecodable",
    "run",
    "transactional",
]
