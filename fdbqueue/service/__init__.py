"""Queues over FoundationDB transactions; needs neither Django nor FoundationDB's client.

This is the face of the service: what the rest of the package imports from below it is listed in
``BELOW_THE_FACE`` of ``tests/repository/test_layers.py``.

For applications
    Queues (``Queue``, ``FifoQueue``, ``PriorityQueue``, ``SeveralQueues``) and the ``Catalog``
    that opens them by name; what they take and hand out (``Push``, ``Item``, ``Page``, ``Held``,
    ``Counts``, ...); transactions (``run``, ``transactional``, ``arun``); tools over a queue
    (``Worker``, ``Batcher``, ``Mover``, ``AlternatingLeases``, ``scan``); what codecs and observers
    of your own inherit from (``Codec``, ``Observer``).
For REST, the pages, the commands and the metrics
    The figures of many queues in one round trip (``counts_of``, ``ends_of``, ``mismatches_of``,
    ``pauses_of``), ``depths``, limits and defaults, and the code of an engine's error
    (``error_code``). What the setting needs is in :mod:`fdbqueue.service.options`.

Where to find, and to change:

- a queue's public methods: :mod:`queues`; their ``await`` twins: :mod:`aio`
- a queue option: :mod:`options`, which settings, REST and pages read
- a codec: :mod:`codecs`
- the limits of items, bytes and seconds: :mod:`sizes`
- the keys and values that are stored, a lease's key among them: :mod:`storage`
- a push: :mod:`entries` and :mod:`push`
- a pop, a lease, an ack: :mod:`consume`, whose page tells how a pop goes
- operations of several threads in one transaction: :mod:`combiner`, and :mod:`writes` for pushes,
  acks, nacks and extends
- retries, receipts, and the outcome of a commit: :mod:`transactions`
- idempotency keys: :mod:`idempotency`; unique keys: :mod:`uniques`
- many items at a time: :mod:`bulk`; workers, streams and other tools: :mod:`tools`
- what reads without changing: :mod:`browse`
- several queues as one: :mod:`several`, over :mod:`consume.several_take`
- how a queue is put together: :mod:`assembly`; by its name: :mod:`catalog`
"""

from __future__ import annotations

import fdbqueue.binding  # noqa: F401  # before what imports the binding
from fdbqueue.service.aio import arun
from fdbqueue.service.browse import (
    ITEM_STATES,
    Depth,
    Ends,
    HeldLease,
    counts_of,
    depths,
    ends_of,
    mismatches_of,
    pauses_of,
)
from fdbqueue.service.catalog import KINDS, Catalog, QueueSpec
from fdbqueue.service.clock import microseconds, moment, now_us, shared_us
from fdbqueue.service.codecs import (
    CODECS,
    Codec,
    Stored,
    strict_json,
)
from fdbqueue.service.consume.contention import Contended
from fdbqueue.service.consume.expiry import GIVEN_BACK, LEASE_EXPIRED, is_last_attempt
from fdbqueue.service.consume.leases import AHEAD, ahead
from fdbqueue.service.consume.pauses import Pause
from fdbqueue.service.consume.waiting import ItemWait, ItemWatch
from fdbqueue.service.entries import MAX_INTEGER, MIN_INTEGER
from fdbqueue.service.idempotency import IdempotencyKey
from fdbqueue.service.instrumentation import Observer, Operation
from fdbqueue.service.items import (
    NOT_GIVEN,
    DeadReason,
    Duration,
    Failure,
    Held,
    Item,
    Page,
    Priority,
    Push,
    Undecodable,
)
from fdbqueue.service.moments import ORDERS, Order
from fdbqueue.service.names import NAME, PATTERN, covers, is_among, share_a_name
from fdbqueue.service.options import DEFAULT_MAX_VALUE_BYTES, QueueOptions
from fdbqueue.service.push import Prepared, push_portions
from fdbqueue.service.queues import FifoQueue, PriorityQueue, Queue
from fdbqueue.service.several import LeaseInKeywords, PopInKeywords, SeveralQueues
from fdbqueue.service.sizes import (
    LEASE_SECONDS,
    MAX_ITEMS_A_CALL,
    MAX_REASON_CHARACTERS,
    MAX_RESPONSE_SECONDS,
    MAX_SECONDS,
    MAX_UNIQUE_BYTES,
    MAX_WORKER_CHARACTERS,
)
from fdbqueue.service.storage.counts import HISTORY_MINUTES, Counts, Minute
from fdbqueue.service.storage.failures import group_digest, group_of_text
from fdbqueue.service.storage.family_index import NOW, Prospect
from fdbqueue.service.storage.item_keys import ENDS, End
from fdbqueue.service.tools.alternating import AlternatingLeases, ack_in_several
from fdbqueue.service.tools.engine_copy import Side
from fdbqueue.service.tools.examination import Examiner
from fdbqueue.service.tools.family import Family
from fdbqueue.service.tools.line import Leases
from fdbqueue.service.tools.presence import WorkerCounts, WorkerRow, Workers, worker_here
from fdbqueue.service.tools.streams import BATCH_ITEMS, Batcher, Mover, Scan, scan, scan_by_moment
from fdbqueue.service.tools.worker import Worker
from fdbqueue.service.transactions import error_code, run, transactional
from fdbqueue.service.uniques import UNIQUE_WHILE

__all__ = [
    "AHEAD",
    "BATCH_ITEMS",
    "CODECS",
    "DEFAULT_MAX_VALUE_BYTES",
    "ENDS",
    "GIVEN_BACK",
    "HISTORY_MINUTES",
    "ITEM_STATES",
    "KINDS",
    "LEASE_EXPIRED",
    "LEASE_SECONDS",
    "MAX_INTEGER",
    "MAX_ITEMS_A_CALL",
    "MAX_REASON_CHARACTERS",
    "MAX_RESPONSE_SECONDS",
    "MAX_SECONDS",
    "MAX_UNIQUE_BYTES",
    "MAX_WORKER_CHARACTERS",
    "MIN_INTEGER",
    "NAME",
    "NOT_GIVEN",
    "NOW",
    "ORDERS",
    "PATTERN",
    "UNIQUE_WHILE",
    "AlternatingLeases",
    "Batcher",
    "Catalog",
    "Codec",
    "Contended",
    "Counts",
    "DeadReason",
    "Depth",
    "Duration",
    "End",
    "Ends",
    "Examiner",
    "Failure",
    "Family",
    "FifoQueue",
    "Held",
    "HeldLease",
    "IdempotencyKey",
    "Item",
    "ItemWait",
    "ItemWatch",
    "LeaseInKeywords",
    "Leases",
    "Minute",
    "Mover",
    "Observer",
    "Operation",
    "Order",
    "Page",
    "Pause",
    "PopInKeywords",
    "Prepared",
    "Priority",
    "PriorityQueue",
    "Prospect",
    "Push",
    "Queue",
    "QueueOptions",
    "QueueSpec",
    "Scan",
    "SeveralQueues",
    "Side",
    "Stored",
    "Undecodable",
    "Worker",
    "WorkerCounts",
    "WorkerRow",
    "Workers",
    "ack_in_several",
    "ahead",
    "arun",
    "counts_of",
    "covers",
    "depths",
    "ends_of",
    "error_code",
    "group_digest",
    "group_of_text",
    "is_among",
    "is_last_attempt",
    "microseconds",
    "mismatches_of",
    "moment",
    "now_us",
    "pauses_of",
    "push_portions",
    "run",
    "scan",
    "scan_by_moment",
    "share_a_name",
    "shared_us",
    "strict_json",
    "transactional",
    "worker_here",
]
