"""Engines: the databases on which transactions run.

An engine is a module with a function ``open(**options)`` that returns a :class:`Database`: an
object whose ``create_transaction()`` returns a :class:`Transaction`, with the methods and
semantics of the FoundationDB Python binding (API version 730). The setting names the module by
its path, so an engine of your own works, too. One of this package also has a row in ``ENGINES``
of ``fdbqueue/conf.py``.
"""

from __future__ import annotations

from fdbqueue.engines.protocols import Database, SnapshotTransaction, Transaction

__all__ = ["Database", "SnapshotTransaction", "Transaction"]
