"""The format of a queue: what decides how its bytes are read and ordered.

Kind, codec, priority type, order and shards come from the settings of each process. The key of one
row, FORMAT, names those that the queue's items are written under.

- *Who writes, removes or buries ready items* depends on the row: of it and a change of the format,
  the second to commit runs again. A round that writes none depends on the rows that it takes.
- *Acks and extends* find their item by its place, which no change of shards changes: they read the
  row only until the process has seen it.
- *The first push* writes it, and conflicts with the first push under other settings.
- *Another row* is an error before anything is written. Only a change of shards
  (:meth:`Format.begin_move`, :meth:`Format.replace`) writes another, but not over another layout.
"""

from __future__ import annotations

import functools
import json
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import FormatMismatch, LayoutMismatch
from fdbqueue.service.storage.item_keys import Position
from fdbqueue.service.storage.tables import TableKeys

#: Begins what stands in place of a number of shards while items move.
MOVING = "moving"
#: The end of the key that a first push conflicts by, with those under other settings; and of the
#: first key behind that.
_ADOPTED, _BEHIND_ADOPTED = b"\x00", b"\x01"
#: The version of the layout of keys and tables.
LAYOUT = 2
#: What stands in place of the layout of a row that is no format.
_UNREADABLE = "unreadable"
#: So many rows that were seen are remembered for a database.
_MAX_SEEN = 10_000

#: The keys of rows that this process has seen, by database.
_seen: weakref.WeakKeyDictionary[Any, set[bytes]] = weakref.WeakKeyDictionary()


class Format:
    """The format that this process gives a queue, and the row that says which one it has.

    Args:
        database: Where the queue is, without a time limit.
        tables: The keys of its tables.
        queue: Its name, for errors.
        facts: Its kind and the options of its format, by name.

    Attributes:
        key: The key of the row that names this format.
        known_key: The same once this process has seen the row; empty before.
    """

    def __init__(
        self, database: Any, tables: TableKeys, queue: str, facts: Mapping[str, Any]
    ) -> None:
        self._tables = tables
        self._queue = queue
        self._facts = dict(sorted({**facts, "layout": LAYOUT}.items()))
        self.key = tables.format + _packed(tuple(self._facts.items()))
        self._writers: weakref.WeakSet[Any] = weakref.WeakSet()
        try:
            self._seen = _seen.setdefault(database, set())
        except TypeError:  # a database without weak references
            self._seen = set()
        self.known_key = self.key if self.key in self._seen else b""

    def __str__(self) -> str:
        return _in_words(self._facts)

    def begin_read(self, tr: Transaction) -> Callable[[], bool]:
        """Begin to read the row; call the returned function for whether there is one.

        The transaction depends on the answer: it conflicts with whoever stores another format. The
        function raises FormatMismatch if another one is stored.
        """
        if not self.known_key:
            return functools.partial(self._has_row, tr, self._read(tr))
        row = tr[self.known_key]
        # If it is gone, another may be there.
        return lambda: bool(row.present()) or self._has_row(tr, self._read(tr))

    def check(self, tr: Transaction) -> bool:
        """Read the row, and depend on it; tell whether there is one.

        Raises:
            FormatMismatch: The queue has another format.
        """
        return self.begin_read(tr)()

    def depend(self, tr: Transaction) -> None:
        """Conflict with a writer of the format, after reading the row by a snapshot."""
        tr.add_read_conflict_range(*self._tables.formats)

    def check_key(self, tr: Transaction, key: bytes) -> None:
        """Compare the key of the row that a transaction has read.

        Raises:
            FormatMismatch: The queue has another format.
        """
        if key != self.key:
            raise self._mismatch(key)
        if not self.known_key and tr not in self._writers:
            if len(self._seen) >= _MAX_SEEN:
                self._seen.clear()
            self._seen.add(self.key)
            self.known_key = self.key

    def adopt(self, tr: Transaction, positions: Iterable[Position | None]) -> None:
        """Write the row of a queue that has none.

        Args:
            tr: The transaction, which has read that there is none.
            positions: The parts of the places of the first and the last item; None for one whose
                key is not an item's.

        Raises:
            FormatMismatch: They are of another kind, or have other priorities.
        """
        kind = self._facts.get("priority_type", type(None).__name__)
        if any(one is None or type(one.priority).__name__ != kind for one in positions):
            raise FormatMismatch(
                queue=self._queue, written="a key of another kind or priority type", here=str(self)
            )
        # The pushes that have seen this row depend on its key, and are no reason to conflict.
        tr.options.set_next_write_no_write_conflict_range()
        self._write(tr)
        tr.add_write_conflict_key(self.key + _ADOPTED)

    def replace(self, tr: Transaction) -> None:
        """Write this format's row in place of the one that is there."""
        tr.clear_range(*self._tables.formats)
        self._write(tr)

    def begin_move(self, tr: Transaction) -> bytes | None:
        """Store a format that no process has, if the one there has another number of shards.

        :meth:`replace` ends it. Until then whatever reads or writes items raises FormatMismatch.

        Returns:
            The key of the row that is there now, None if there is none.

        Raises:
            LayoutMismatch: Another version of fdbqueue has written the queue.
        """
        rows = [bytes(row.key) for row in tr.get_range(*self._tables.formats)]
        mismatch = self._mismatch(rows[0]) if rows else None
        if isinstance(mismatch, LayoutMismatch):
            raise mismatch
        written = self._parsed(rows[0]).get("shards") if rows else None
        shards = self._facts.get("shards")
        if written == shards:
            return rows[0] if rows else None
        tr.clear_range(*self._tables.formats)
        text = json.dumps({**self._facts, "shards": f"{MOVING} to {shards}"}, separators=(",", ":"))
        key = self._tables.format + text.encode()
        tr[key] = b""
        return key

    def check_move(self, tr: Transaction, key: bytes | None) -> None:
        """Check that the format is the same as when :meth:`begin_move` returned the key.

        Raises:
            FormatMismatch: Somebody has, and moves the items to other shards, or has done so.
        """
        if key is not None and not tr[key].present():
            self.check(tr)

    def stored(self, tr: Transaction) -> str | None:
        """Read the format that the queue has, known or not; in words, None if it has none.

        Raises:
            FormatMismatch: It is another one.
        """
        return str(self) if self._has_row(tr, self._read(tr)) else None

    def _read(self, tr: Transaction) -> Any:
        return tr.snapshot.get_range(*self._tables.formats, limit=1)

    def _has_row(self, tr: Transaction, rows: Iterable[Any]) -> bool:
        for row in rows:
            self.check_key(tr, row.key)
            tr.add_read_conflict_key(self.key)
            return True
        begin, end = self._tables.formats
        tr.add_read_conflict_range(begin, self.key)
        tr.add_read_conflict_range(self.key + _BEHIND_ADOPTED, end)
        return False

    def _write(self, tr: Transaction) -> None:
        tr[self.key] = b""
        self._writers.add(tr)

    def _mismatch(self, key: bytes) -> FormatMismatch:
        written = self._parsed(key)
        if written.get("layout", LAYOUT) not in (LAYOUT, _UNREADABLE):
            return LayoutMismatch(queue=self._queue)
        names = [
            name
            for name in sorted({*written, *self._facts})
            if written.get(name) != self._facts.get(name)
        ]
        return FormatMismatch(
            queue=self._queue,
            written=_in_words({name: written.get(name) for name in names}),
            here=_in_words({name: self._facts.get(name) for name in names}),
        )

    def _parsed(self, key: bytes) -> dict[str, Any]:
        try:
            found = json.loads(key[len(self._tables.format) :])
        except ValueError:
            found = None
        return found if isinstance(found, dict) else {"layout": _UNREADABLE}


@functools.lru_cache(maxsize=1_000)
def _packed(facts: tuple[tuple[str, Any], ...]) -> bytes:
    """Return the facts as the row has them: those of all members of a family are the same."""
    return json.dumps(dict(facts), separators=(",", ":")).encode()


def _in_words(facts: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {'none' if value is None else value}" for name, value in facts.items()
    )
