"""A database whose transactions give up: a request must not wait for ever."""

from __future__ import annotations

from typing import Any

from fdbqueue import conf
from fdbqueue.service.catalog import Catalog


class ImpatientDatabase:
    """Any database, its transactions with a timeout, retries included.

    A cluster that has gone away is otherwise waited for until it is back. For reading
    alone: it is not known whether a commit that timed out took effect.

    Args:
        database: Anything with ``create_transaction()``.
        timeout_seconds: How long each transaction may take; then it fails with 1031.
    """

    def __init__(self, database: Any, timeout_seconds: float) -> None:
        self._database = database
        self.timeout_seconds = timeout_seconds

    def create_transaction(self) -> Any:
        """Return a new transaction with the timeout set."""
        transaction = self._database.create_transaction()
        transaction.options.set_timeout(int(self.timeout_seconds * 1000))
        return transaction


def reading_catalog(timeout_seconds: float) -> Catalog:
    """Return the setting's catalog, its queues to be read with a timeout.

    Args:
        timeout_seconds: How long each read may take.

    Raises:
        ConfigurationError: The setting is wrong.
    """
    catalog = conf.catalog()
    return catalog.over(ImpatientDatabase(catalog.database, timeout_seconds))
