"""FoundationDB's transaction API on one SQLite file, with nothing to install or to run.

    database = fdbqueue.engines.embedded.open("queues.sqlite3")

It answers as a cluster does (strict serializability, optimistic conflicts, versionstamps,
watches, FoundationDB's limits and error codes), for development, tests and small
installations on one machine. POSIX only.
"""

from __future__ import annotations

from fdbqueue.engines.embedded.database import Database, open
from fdbqueue.engines.embedded.errors import FDBError, predicates
from fdbqueue.engines.embedded.range_result import StreamingMode
from fdbqueue.engines.embedded.selectors import KeySelector
from fdbqueue.engines.embedded.transaction import Transaction

__all__ = [
    "Database",
    "FDBError",
    "KeySelector",
    "StreamingMode",
    "Transaction",
    "open",
    "predicates",
]
