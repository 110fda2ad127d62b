"""FoundationDB's transaction API on one SQLite file.

    database = fdbqueue.engines.embedded.open("queues.sqlite3")

It answers as a cluster does, on one machine with POSIX. A transaction goes through:

1. ``database``: one object for each file; forks.
2. ``transaction``: reads of a snapshot of the ``sqlite_file``, after a write of a ``view``.
3. ``transaction_state``: what an attempt has read and written.
4. ``reservations``: after a conflict it waits in line before it reads.
5. ``commits``: one thread commits for all, in its process's ``turn``.
6. ``commit_groups``: which commits conflict; their version (``version_clock``).
7. ``watches``: a commit wakes the processes that watch.
"""

from __future__ import annotations

from fdbqueue.engines.embedded.database import Database, open
from fdbqueue.engines.embedded.fdb_errors import FDBError, predicates
from fdbqueue.engines.embedded.keys import KeySelector
from fdbqueue.engines.embedded.range_reads import StreamingMode
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
