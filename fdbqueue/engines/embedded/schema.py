"""The schema of the SQLite file: what an empty one gets, and what another one must have.

``kv`` holds the keys, ``commits`` the write conflict ranges of recent commits under their
versions, ``clock`` the anchor of versions (see :mod:`fdbqueue.engines.embedded.clock`).
"""

from __future__ import annotations

import sqlite3

from fdbqueue.engines.embedded import clock

#: ``PRAGMA application_id`` of an fdbqueue file: "fdbq".
APPLICATION_ID = 0x66646271
#: ``PRAGMA user_version``: the schema below.
SCHEMA_VERSION = 2
_UPGRADABLE = 1

_SCHEMA = """
    BEGIN IMMEDIATE;
    CREATE TABLE kv (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
    CREATE TABLE commits (version INTEGER PRIMARY KEY, ranges BLOB NOT NULL);
    CREATE TABLE clock (counter TEXT, reading INTEGER, version INTEGER, unix_microseconds INTEGER);
    INSERT INTO commits VALUES (1, x'00000000');
    INSERT INTO clock VALUES ('', 0, 1, {now});
    PRAGMA application_id = {application_id};
    PRAGMA user_version = {schema_version};
    COMMIT;
"""
#: From schema 1, whose versions counted from a moment of the wall clock.
_UPGRADE = """
    BEGIN IMMEDIATE;
    CREATE TABLE clock (counter TEXT, reading INTEGER, version INTEGER, unix_microseconds INTEGER);
    INSERT INTO clock SELECT '', 0, 0, unix_microseconds FROM epoch;
    DROP TABLE epoch;
    PRAGMA user_version = {schema_version};
    COMMIT;
"""


def check_or_create(connection: sqlite3.Connection) -> None:
    """Create an empty file's schema, or see that the file has it."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if not tables and not application:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(
            _SCHEMA.format(
                application_id=APPLICATION_ID,
                schema_version=SCHEMA_VERSION,
                now=clock.unix_microseconds(),
            )
        )
    elif check(connection) == _UPGRADABLE:
        connection.executescript(_UPGRADE.format(schema_version=SCHEMA_VERSION))


def check(connection: sqlite3.Connection) -> int:
    """Return the version of the file's schema.

    Raises:
        sqlite3.DatabaseError: It is another program's file, or one of another version.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (schema,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise sqlite3.DatabaseError("it is another program's SQLite file")
    if schema not in (_UPGRADABLE, SCHEMA_VERSION):
        raise sqlite3.DatabaseError(f"its schema is version {schema}, not {SCHEMA_VERSION}")
    return int(schema)
