"""FoundationDB's transaction API on one SQLite file, with nothing to install or to run.

    database = fdbqueue.engines.embedded.open("queues.sqlite3")

It answers as a cluster does (strict serializability, optimistic conflicts, versionstamps,
watches, FoundationDB's limits and error codes), for development, tests and small
installations on one machine. POSIX only.

How a transaction goes, and which module has it:

1. ``database``: ``create_transaction()``; what a fork does; one object for each file.
2. ``transaction``: the binding's methods. A read asks the snapshot, which the first one opens
   (``storage``, ``snapshots``); after a write it asks a view of the snapshot with the writes over
   it (``view``, ``writes``). A range comes in parts (``ranges``), each result as a future
   (``futures``).
3. ``state``: what an attempt has written, what it conflicts with, and whether it can be used
   (``options``, ``errors``, ``keys``). A write is only checked and noted there.
4. ``reservations``: an attempt that follows a conflict waits in line before it reads.
5. ``commits``: one of the threads that commit does so for all, once the process has its turn
   (``storage``), by the snapshot's own connection if nothing was committed since.
6. ``groups``: which commits of the group conflict with the history, what the others change, and
   the version of them all (``clock``).
7. ``watches``: who commits wakes the processes that watch.

``files`` looks at whether the file is still the one that was opened, and makes its tables.
"""

from __future__ import annotations

from fdbqueue.engines.embedded.database import Database, open
from fdbqueue.engines.embedded.errors import FDBError, predicates
from fdbqueue.engines.embedded.keys import KeySelector
from fdbqueue.engines.embedded.ranges import StreamingMode
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
