"""The index of each family of a catalog, compared with what its members have; and many members."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import fdb.tuple

from fdbqueue.service import Catalog, Queue, run
from fdbqueue.service.storage.counts import leased_in
from fdbqueue.service.storage.family_index import BY_LEASES, BY_RATE, Hold
from fdbqueue.service.storage.store import ItemStore

#: How many rows of copies one transaction writes.
_ROWS_AT_ONCE = 10_000


def rows_of(catalog: Catalog, pattern: str) -> dict[str, list[Any]]:
    """Return the moments of the rows of each member, 0 for now; of a row HELD what holds it.

    A row CLOCK has the moment of its row LATER.
    """

    def read(tr: Any) -> dict[str, list[Any]]:
        keys = catalog._family_keys[pattern]
        found = defaultdict(list)
        for row in keys.rows(tr.get_range(keys._clock, keys.bounds[1])):
            found[row.name].append(row.moment if row.hold is None else row.hold)
        return dict(found)

    return run(catalog.database, read, read_only=True)


def assert_indexed(catalog: Catalog) -> None:
    """Check what must be true after every commit, at one version, from the tables of each member.

    A member that has something to take, now or at a moment, has a row of that moment or before; or,
    if a limit keeps back what is ready, a true row that says so.
    """
    names = catalog.names()

    def read(tr: Any) -> list[str]:
        missing = []
        for name in names:
            store = catalog.queue(name).parts.store
            if store.tables.member is None:
                continue
            moments = [0] if any(True for _ in tr.get_range(*store.keys.bounds, limit=1)) else []
            dues = tr.get_range(*store.tables.dues)
            moments += [store.tables.parse_due(bytes(row.key)).moment for row in dues]
            if tr[store.tables.paused].present():
                continue
            keys = catalog.index(catalog.spec(name))
            rows = [row for row in keys.rows(tr.get_range(*keys.bounds)) if row.name == name]
            known = min([row.moment for row in rows if row.hold is None], default=None)
            holds = {row.hold.limit for row in rows if row.hold and _is_true(row.hold, tr, store)}
            if BY_LEASES in holds:
                assert tr[keys.limited].present()
                moments = [moment for moment in moments if moment]
            if BY_RATE in holds and known is not None:
                continue
            if moments and (known is None or known > min(moments)):
                missing.append(f"{name}: {min(moments)} is not covered by {known}")
        return missing

    assert run(catalog.database, read, read_only=True) == []


def _is_true(hold: Hold, tr: Any, store: ItemStore) -> bool:
    """Tell whether a limit keeps items back; of a rate that is not known here."""
    return hold.limit == BY_RATE or leased_in(bytes(tr[store.tables.hidden])) >= hold.level


def multiply(catalog: Catalog, model: Queue, names: Sequence[str]) -> None:
    """Make members with what one of them has, by copies of its rows: pushes would take minutes.

    Args:
        catalog: The catalog.
        model: A member that has something to take now.
        names: The names of the others, which have nothing yet.
    """
    keys = catalog.index(catalog.spec(model.name))
    assert keys is not None
    begin = model.subspace.key()
    base = begin.removesuffix(fdb.tuple.pack((model.name,)))
    tr = model.database.create_transaction()
    rows = [(bytes(row.key), bytes(row.value)) for row in tr.get_range(begin, begin + b"\xff\xff")]
    assert rows
    at_once = max(1, _ROWS_AT_ONCE // len(rows))

    def write(tr: Any, some: Sequence[str]) -> None:
        for name in some:
            prefix = base + fdb.tuple.pack((name,))
            for key, value in rows:
                tr[prefix + key[len(begin) :]] = value
            keys.member(name).announce(tr, 0)

    for first in range(0, len(names), at_once):
        some = names[first : first + at_once]
        run(catalog.database, lambda tr, some=some: write(tr, some))
    assert catalog.queue(names[-1]).counts() == model.counts()
