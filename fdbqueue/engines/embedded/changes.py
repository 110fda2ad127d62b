"""Apply the mutations of a group of commits to the file, with few statements.

A key that the group changes more than once is read once and written once.
"""

from __future__ import annotations

import sqlite3

from fdbqueue.engines.embedded.atomic import OPERATIONS
from fdbqueue.engines.embedded.writes import Mutation, stamped

#: Among others a key costs about half of what it costs alone. There is a statement for each
#: number of keys, and SQLite prepares each.
_KEYS_AT_ONCE = 16

_GET = [
    "SELECT " + ", ".join(["(SELECT value FROM kv WHERE key = ?)"] * keys)
    for keys in range(_KEYS_AT_ONCE + 1)
]
_SET = [
    f"INSERT INTO kv VALUES {', '.join(['(?, ?)'] * keys)}"
    " ON CONFLICT (key) DO UPDATE SET value = excluded.value"
    for keys in range(_KEYS_AT_ONCE + 1)
]


class Changes:
    """Work out what the keys come to hold, until it is written.

    Args:
        connection: Inside the transaction of the group.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._values: dict[bytes, bytes | None] = {}  # to be written; None clears

    def add(self, mutations: list[Mutation], stamp: bytes) -> list[bytes]:
        """Apply the mutations of one commit, in order, over those added before.

        Args:
            mutations: What the commit does.
            stamp: Its versionstamp.

        Returns:
            The keys that the stamp became part of.
        """
        values = self._values
        stamped_keys = []
        for place, (name, key, param) in enumerate(mutations):
            if name == "set":
                values[key] = param
            elif name == "clear":
                values[key] = None
            elif name == "clear_range":
                self.write()
                self._connection.execute("DELETE FROM kv WHERE key >= ? AND key < ?", (key, param))
            elif name == "set_versionstamped_value":
                values[key] = stamped(param, stamp)
            elif name == "set_versionstamped_key":
                stamped_keys.append(stamped(key, stamp))
                values[stamped_keys[-1]] = param
            else:
                if key not in values:
                    self._read(mutations[place : place + _KEYS_AT_ONCE])
                values[key] = OPERATIONS[name](values[key], param)
        return stamped_keys

    def write(self) -> None:
        """Write what was worked out so far."""
        rows: list[bytes] = []  # each key followed by its value
        cleared = []
        for key, value in self._values.items():
            if value is None:
                cleared.append((key,))
            else:
                rows += (key, value)
        for start in range(0, len(rows), 2 * _KEYS_AT_ONCE):
            part = rows[start : start + 2 * _KEYS_AT_ONCE]
            self._connection.execute(_SET[len(part) // 2], part)
        if cleared:
            self._connection.executemany("DELETE FROM kv WHERE key = ?", cleared)
        self._values.clear()

    def _read(self, mutations: list[Mutation]) -> None:
        """Start from what is stored under the keys that the next mutations depend on."""
        values = self._values
        keys = [key for name, key, _ in mutations if name in OPERATIONS and key not in values]
        stored = self._connection.execute(_GET[len(keys)], keys).fetchone()
        values.update(zip(keys, stored, strict=True))
