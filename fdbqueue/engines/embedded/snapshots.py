"""Snapshots: the database as it was at one version."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from fdbqueue.engines.embedded import version_clock
from fdbqueue.engines.embedded.fdb_errors import FDBError
from fdbqueue.engines.embedded.fdb_limits import TRANSACTION_LIFE_SECONDS
from fdbqueue.locks import RLock

#: Takes the place of BEGIN, a query and ROLLBACK: only the first of its three rows is fetched, so
#: the statement is under way until its cursor is closed, and meanwhile SQLite reads everything by
#: this connection at the same version.
BEGIN = "SELECT max(version) FROM commits UNION ALL SELECT 0 UNION ALL SELECT 0"

#: Queries of a key, and of the first and the last rows of a range up to a number of them.
GET = "SELECT value FROM kv WHERE key = ?"
FORWARD = "SELECT key, value FROM kv WHERE key >= ? AND key < ? ORDER BY key LIMIT ?"
REVERSE = "SELECT key, value FROM kv WHERE key >= ? AND key < ? ORDER BY key DESC LIMIT ?"

Row = tuple[bytes, bytes]


class Snapshot:
    """Read the database as it was at one version, for at most five seconds.

    Wraps a SQLite read transaction. Many transactions may share one; the last to release
    it gives the connection back. While nothing was committed since, it may become the write
    transaction that commits what was worked out from it.

    Args:
        give_back: Takes :attr:`connection` when the snapshot ends.
    """

    __slots__ = (
        "_give_back",
        "_lock",
        "_users",
        "connection",
        "cursor",
        "opened_at",
        "version",
    )

    def __init__(self, give_back: Callable[[Snapshot], None]) -> None:
        self._give_back = give_back
        self._lock = RLock()  # a finalizer may release while this thread reads
        self._users = 1
        #: What it reads by, None before it begins and once it was given back.
        self.connection: sqlite3.Connection | None = None
        #: What keeps SQLite at one version until it is closed.
        self.cursor: sqlite3.Cursor | None = None
        #: -1 before it begins, and once it has become a transaction that writes.
        self.version = -1
        self.opened_at = version_clock.seconds()

    @property
    def expired(self) -> bool:
        """Whether the five seconds a transaction may read are over."""
        return version_clock.seconds() - self.opened_at > TRANSACTION_LIFE_SECONDS

    def write(self, work: Callable[[sqlite3.Connection], object]) -> bool:
        """Call ``work`` with the connection, inside a transaction that may write.

        SQLite makes a write transaction out of a read transaction only if that sees the newest
        version; otherwise it refuses at once (SQLITE_BUSY_SNAPSHOT). So when ``work`` is called,
        no process has committed anything since :attr:`version`, and none can before ``work`` has.

        The lock keeps others from sharing or expiring the snapshot meanwhile. However this ends,
        no transaction stays open, and the snapshot can only be released.

        Returns:
            Whether ``work`` was called. It is not if something was committed since, or if other
            transactions share the snapshot.
        """
        with self._lock:
            connection = self.connection
            if connection is None or self.cursor is None or self._users > 1:
                return False
            try:
                connection.execute("BEGIN IMMEDIATE")
                self.version = -1  # so that no other transaction shares it
                self.cursor.close()  # or the checkpoint that the commit may make would not be whole
                work(connection)
            except sqlite3.Error:
                if self.version == -1:
                    raise
                return False
            finally:
                if connection.in_transaction:
                    connection.rollback()
            return True

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""
        row = self.query(GET, (key,))
        return row[0][0] if row else None

    def rows(self, begin: bytes, end: bytes, limit: int, *, reverse: bool) -> list[Row]:
        """Return up to ``limit`` rows of ``[begin, end)`` from either end."""
        return self.query(REVERSE if reverse else FORWARD, (begin, end, limit))

    def commits_since(self, version: int) -> list[tuple[int, bytes]]:
        """Return the version and write conflict ranges of each later commit still kept."""
        return self.query(
            "SELECT version, ranges FROM commits WHERE version > ? ORDER BY version",
            (version,),
        )

    def oldest_commit(self) -> int:
        """Return the version from which on the commits are kept without a gap."""
        return self.query("SELECT min(version) FROM commits")[0][0]

    def share(self) -> bool:
        """Count one more user; False when the snapshot was given back already, or has written."""
        with self._lock:
            if self.connection is None or self.version < 0:
                return False
            self._users += 1
            return True

    def release(self) -> None:
        """Count one user less; the last gives the connection back."""
        with self._lock:
            self._users -= 1
            if self._users <= 0:
                self._give_back(self)

    def expire(self) -> None:
        """Give the connection back now; further reads fail with 1007."""
        with self._lock:
            self._give_back(self)

    def query(self, sql: str, parameters: tuple[bytes | int, ...] = ()) -> list[Any]:
        """Return the rows of a query.

        Raises:
            FDBError: 1007 when the snapshot has ended, 1510 when SQLite cannot read.
        """
        with self._lock:
            is_over = version_clock.seconds() - self.opened_at > TRANSACTION_LIFE_SECONDS
            if self.connection is None or is_over:
                raise FDBError(1007)
            try:
                return self.connection.execute(sql, parameters).fetchall()
            except sqlite3.Error as error:
                raise FDBError(1510) from error
