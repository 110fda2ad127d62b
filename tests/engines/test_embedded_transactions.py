"""Transactions side by side on the embedded engine, against a plain-Python model."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fdbqueue.engines import embedded
from fdbqueue.engines.embedded import FDBError

KEYS = [b"%c" % letter for letter in b"abcdef"]
_STAMPED = bytes(10) + b"!" + bytes(4)

_keys = st.sampled_from(KEYS)
_values = st.sampled_from([b"", b"\x00", b"\x01", b"\xff", b"\x01\x01"])
_ranges = st.tuples(_keys, st.sampled_from([*KEYS[1:], b"g"])).filter(
    lambda keys: keys[0] < keys[1]
)
_snapshot = st.booleans()
_writes = st.one_of(
    st.tuples(
        st.sampled_from(["set", "add", "byte_max", "append_if_fits", "compare_and_clear"]),
        _keys,
        _values,
    ),
    st.tuples(st.just("clear"), _keys),
    st.tuples(st.just("clear_range"), _ranges),
    st.tuples(st.just("set_versionstamped_value"), _keys, st.just(_STAMPED)),
)
_reads = st.one_of(
    st.tuples(st.just("get"), _keys, _snapshot),
    st.tuples(st.just("get_range"), _ranges, st.integers(0, 3), st.booleans(), _snapshot),
)
_declared = st.tuples(
    st.sampled_from(["add_read_conflict_range", "add_write_conflict_range"]), _ranges
)
_options = st.tuples(
    st.sampled_from(["next_write_no_write_conflict_range", "snapshot_ryw_disable"])
)
_ends = st.tuples(st.sampled_from(["commit", "commit", "commit", "reset"]), st.booleans())
_steps = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 1, 2]),
        st.one_of(_writes, _reads, _writes, _declared, _options, _ends),
    ),
    max_size=30,
)


class Refused(Exception):
    """An error of the engine, by its code."""


class Model:
    """What is stored, and the keys that each commit wrote."""

    def __init__(self):
        self.rows: dict[bytes, bytes] = {}
        self.commits: list[set[bytes]] = []


class ModelTransaction:
    """A transaction as its documentation has it, one key at a time."""

    def __init__(self, model, *, sees_own):
        self._model = model
        self._rows = dict(model.rows)
        self._version = len(model.commits)
        self._sees_own = sees_own
        self._snapshot_sees_own = True
        self._skips_conflict = False
        self._is_refused = False
        #: What it wrote, what it depends on, and what it makes others depend on.
        self._mutations: list[tuple[str, Any, bytes]] = []
        self._read: set[bytes] = set()
        self._written: set[bytes] = set()
        #: The keys whose value does not depend on what is stored, or is not known before the end.
        self._known: set[bytes] = set()
        self._unreadable: set[bytes] = set()

    def write(self, name, where, value=b""):
        """Set, clear or change a key, or clear a range."""
        keys = {where} if isinstance(where, bytes) else _within(where)
        self._mutations.append((name, where, value))
        if not self._skips_conflict:
            self._written |= keys
        self._skips_conflict = False
        if name in ("clear", "clear_range"):
            self._unreadable -= keys
        if name == "set_versionstamped_value":
            self._unreadable |= keys
        if name in ("set", "clear", "clear_range", "set_versionstamped_value"):
            self._known |= keys

    def get(self, key, is_snapshot):
        """Return a value."""
        rows = self._view(is_snapshot)
        if key in self._hidden(is_snapshot):
            self._is_refused = True
            raise Refused(1036)
        self._depend({key}, is_snapshot)
        return rows.get(key)

    def get_range(self, within, limit, reverse, is_snapshot):
        """Return rows, and depend on what was looked at."""
        rows, found = self._view(is_snapshot), []
        looked_at = set()
        for key in sorted(_within(within), reverse=reverse):
            if key in self._hidden(is_snapshot):
                self._is_refused = True
                raise Refused(1036)
            looked_at.add(key)
            if key in rows:
                found.append((key, rows[key]))
            if len(found) == limit > 0:
                break
        self._depend(looked_at, is_snapshot)
        return found

    def declare(self, name, within):
        """Add a conflict range."""
        if name == "add_read_conflict_range":
            self._depend(_within(within), is_snapshot=False)
        else:
            self._written |= _within(within)

    def set_option(self, name):
        """Set an option."""
        if name == "snapshot_ryw_disable":
            self._snapshot_sees_own = False
        else:
            self._skips_conflict = True

    def commit(self, stamp):
        """Commit; the stamp is the engine's, None where it has refused the commit."""
        if self._is_refused:
            raise Refused(1036)
        if not (self._mutations or self._written):
            return
        if any(self._read & written for written in self._model.commits[self._version :]):
            raise Refused(1020)
        self._model.commits.append(self._written)
        _apply(self._model.rows, self._mutations, stamp or b"")

    def _view(self, is_snapshot):
        rows = dict(self._rows)
        if self._sees(is_snapshot):
            _apply(rows, self._mutations, bytes(10))
        return rows

    def _hidden(self, is_snapshot):
        return self._unreadable if self._sees(is_snapshot) else set()

    def _sees(self, is_snapshot):
        return self._sees_own and (self._snapshot_sees_own or not is_snapshot)

    def _depend(self, keys, is_snapshot):
        if not is_snapshot:
            self._read |= keys - self._known if self._sees_own else keys


def _within(keys):
    return {key for key in KEYS if keys[0] <= key < keys[1]}


def _apply(rows, mutations, stamp):
    for name, where, value in mutations:
        if name == "clear_range":
            for key in _within(where):
                rows.pop(key, None)
            continue
        stored = rows.get(where)
        if name == "clear" or (name == "compare_and_clear" and stored == value):
            rows.pop(where, None)
        elif name == "set_versionstamped_value":
            rows[where] = stamp + value[10:-4]
        elif name == "add":
            total = sum(
                int.from_bytes(part[: len(value)], "little") for part in (stored or b"", value)
            )
            rows[where] = (total % 256 ** len(value)).to_bytes(len(value), "little")
        elif name == "byte_max":
            rows[where] = max(stored or b"", value)
        elif name == "append_if_fits":
            rows[where] = (stored or b"") + value
        elif name == "set":
            rows[where] = value


class Pair:
    """A transaction of the engine, and the model's."""

    def __init__(self, database, model, *, sees_own):
        self._engines = database.create_transaction()
        if not sees_own:
            self._engines.options.set_read_your_writes_disable()
        self._engines.get_read_version().wait()
        self._models = ModelTransaction(model, sees_own=sees_own)

    def check(self, name, *arguments):
        """Do a step with both, and compare their answers."""
        if name == "commit":
            stamp = self._engines.get_versionstamp()
            answer = _answer(lambda: self._engines.commit().wait())
            is_stamped = answer is None and stamp.exception() is None
            known = bytes(stamp) if is_stamped else None
            assert _answer(lambda: self._models.commit(known)) == answer
        elif name in ("get", "get_range"):
            *_, is_snapshot = arguments
            reads = self._engines.snapshot if is_snapshot else self._engines
            answer = _answer(lambda: _read(reads, name, *arguments[:-1]))
            assert answer == _answer(lambda: getattr(self._models, name)(*arguments))
        elif name.startswith("add_") and name.endswith("_range"):
            getattr(self._engines, name)(*arguments[0])
            self._models.declare(name, *arguments)
        elif arguments:
            where, *values = arguments
            getattr(self._engines, name)(*([where] if isinstance(where, bytes) else where), *values)
            self._models.write(name, where, *values)
        else:
            getattr(self._engines.options, f"set_{name}")()
            self._models.set_option(name)


def _answer(call):
    try:
        return call()
    except (FDBError, Refused) as error:
        return "error", getattr(error, "code", error.args[0])


def _read(reads, name, where, *options):
    if name == "get":
        found = reads.get(where)
        return bytes(found) if found.present() else None
    return [*map(operator.attrgetter("key", "value"), reads.get_range(*where, *options))]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A database that every example empties."""
    path = tmp_path_factory.mktemp("transactions") / "queues.sqlite3"
    database = embedded.open(path, durability="normal")
    yield database
    database.close()


@settings(max_examples=150, deadline=None)
@given(steps=_steps, sees_own=st.lists(st.booleans(), min_size=3, max_size=3))
def test_transactions_side_by_side(shared, steps, sees_own):
    """Each read, each commit and what is stored at last are the model's."""
    shared.clear_range(b"", b"\xff")
    model = Model()
    pairs = [Pair(shared, model, sees_own=one) for one in sees_own]
    for number, (name, *arguments) in [*steps, *((one, ("commit", True)) for one in range(3))]:
        if name in ("commit", "reset"):
            (sees_own_next,) = arguments
            if name == "commit":
                pairs[number].check("commit")
            pairs[number] = Pair(shared, model, sees_own=sees_own_next)
        else:
            pairs[number].check(name, *arguments)
    assert dict(shared.get_range(b"", b"\xff")) == model.rows
