"""Where transactions run.

An engine is a module with a function ``open(**options)`` that returns a :class:`Database`:
anything whose ``create_transaction()`` gives a :class:`Transaction`, with the methods and
meanings of the FoundationDB Python binding (API version 730). A setting names the module by
its path, so that it may be yours.
"""

from __future__ import annotations

from fdbqueue.engines.protocols import Database, SnapshotTransaction, Transaction

__all__ = ["Database", "SnapshotTransaction", "Transaction"]
