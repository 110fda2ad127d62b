"""Range reads and key selectors of the embedded engine, against a plain-Python model."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fdbqueue.engines.embedded import FDBError, KeySelector, StreamingMode
from tests.cases import cases
from tests.engines.children import run

_MODES = [
    StreamingMode.want_all,
    StreamingMode.iterator,
    StreamingMode.small,
    StreamingMode.medium,
    StreamingMode.large,
    StreamingMode.serial,
]

_keys = st.binary(max_size=2).map(lambda key: bytes(byte % 4 for byte in key))
_values = st.binary(max_size=3)
_rows = st.dictionaries(_keys, _values, max_size=12)
_selectors = st.builds(KeySelector, _keys, st.booleans(), st.integers(-6, 6))
_writes = st.lists(
    st.one_of(
        st.tuples(st.just("set"), _keys, _values),
        st.tuples(st.just("clear"), _keys),
        st.tuples(st.just("clear_range"), _keys, _keys),
        st.tuples(st.just("add"), _keys, st.binary(min_size=1, max_size=2)),
        st.tuples(st.just("append_if_fits"), _keys, _values),
    ),
    max_size=8,
)


class Model:
    """What a database holds, as a dict and nothing more."""

    def __init__(self, rows):
        self.rows = dict(rows)

    def write(self, name, key, *arguments):
        """Do what the method of a transaction does."""
        if name == "set":
            self.rows[key] = arguments[0]
        elif name == "clear":
            self.rows.pop(key, None)
        elif name == "clear_range":
            self.rows = {k: v for k, v in self.rows.items() if not key <= k < arguments[0]}
        elif name == "append_if_fits":
            self.rows[key] = self.rows.get(key, b"") + arguments[0]
        else:
            size = len(arguments[0])
            old = int.from_bytes(self.rows.get(key, b"")[:size], "little")
            total = old + int.from_bytes(arguments[0], "little")
            self.rows[key] = (total % 256**size).to_bytes(size, "little")

    def get_key(self, selector):
        """Return the key a selector stands for."""
        keys = sorted(self.rows)
        find = bisect_right if selector.or_equal else bisect_left
        index = find(keys, selector.key) - 1 + selector.offset
        if index < 0:
            return b""
        return keys[index] if index < len(keys) else b"\xff"

    def get_range(self, begin, end, limit, reverse):
        """Return the rows between two selectors."""
        first, last = self.get_key(begin), self.get_key(end)
        rows = sorted(row for row in self.rows.items() if first <= row[0] < last)
        if reverse:
            rows.reverse()
        return rows[:limit] if limit else rows


def _filled(database, rows):
    def fill(transaction):
        transaction.clear_range(b"", b"\xff")
        for key, value in rows.items():
            transaction[key] = value

    run(database, fill)
    return database.create_transaction()


def _write(transaction, model, writes):
    for name, *arguments in writes:
        if name == "clear_range":
            arguments.sort()
        getattr(transaction, name)(*arguments)
        model.write(name, *arguments)


def _pairs(rows):
    return [(row.key, row.value) for row in rows]


@settings(max_examples=600, deadline=None)
@given(
    rows=_rows,
    writes=_writes,
    begin=_selectors,
    end=_selectors,
    limit=st.integers(0, 5),
    reverse=st.booleans(),
    mode=st.sampled_from(_MODES),
)
def test_a_range_between_selectors(shared, rows, writes, begin, end, limit, reverse, mode):
    """Any selectors, limit, direction and mode give the model's rows, own writes included."""
    transaction, model = _filled(shared, rows), Model(rows)
    _write(transaction, model, writes)
    expected = model.get_range(begin, end, limit, reverse)
    found = transaction.get_range(begin, end, limit, reverse, mode)
    assert _pairs(found) == expected
    assert _pairs(found.to_list()) == expected
    transaction.commit().wait()
    again = shared.create_transaction().snapshot.get_range(begin, end, limit, reverse, mode)
    assert _pairs(again) == expected


@settings(max_examples=300, deadline=None)
@given(rows=_rows, writes=_writes, selector=_selectors)
def test_a_selectors_key(shared, rows, writes, selector):
    """A selector stands for the model's key, through own writes and once they are stored."""
    transaction, model = _filled(shared, rows), Model(rows)
    _write(transaction, model, writes)
    assert transaction.get_key(selector) == model.get_key(selector)
    transaction.commit().wait()
    assert shared.create_transaction().get_key(selector) == model.get_key(selector)


@settings(max_examples=150, deadline=None)
@given(rows=_rows, writes=_writes, begin=_selectors, end=_selectors)
def test_clears_by_selectors(shared, rows, writes, begin, end):
    """A key or a range given by selectors is cleared where the selectors lead."""
    transaction, model = _filled(shared, rows), Model(rows)
    _write(transaction, model, writes)
    first, last = sorted([begin, end], key=model.get_key)
    bounds = model.get_key(first), model.get_key(last)
    transaction.clear_range(first, last)
    model.write("clear_range", *bounds)
    if model.get_key(end) != b"\xff":
        transaction.clear(end)
        model.write("clear", model.get_key(end))
    transaction.commit().wait()
    assert _pairs(shared.create_transaction()[:]) == sorted(model.rows.items())


@pytest.fixture
def long_range(shared):
    """Begin a transaction with writes of every kind among a thousand stored rows.

    Each case has its own: all of them in one may take longer than a transaction may read.
    """
    rows = {b"%04d" % number: b"v" * (number % 60) for number in range(1000)}
    _filled(shared, rows)
    writes = [
        *(("clear", b"%04d" % number) for number in range(0, 1000, 7)),
        *(("add", b"%04d" % number, b"\x01") for number in range(3, 1000, 11)),
        *(("set", b"%04d+" % number, b"new") for number in range(2, 1000, 5)),
        ("clear_range", b"0250", b"0620"),
        *(("append_if_fits", b"%04d" % number, b"!") for number in range(240, 640, 9)),
        ("clear_range", b"0990", b"\xff"),
    ]

    def begin():
        transaction, model = shared.create_transaction(), Model(rows)
        _write(transaction, model, writes)
        return transaction, model

    return begin


@cases("reverse", [False, True])
@cases("limit", [0, 1, 255, 256, 257, 700])
@cases("mode", [*_MODES, StreamingMode.exact])
def test_a_long_range_in_parts(long_range, mode, limit, reverse):
    """However a long range is cut into parts, no row is lost, doubled or out of order."""
    transaction, model = long_range()
    begin, end = KeySelector.first_greater_or_equal(b""), KeySelector.last_less_than(b"0985")
    if mode == StreamingMode.exact and not limit:
        with pytest.raises(FDBError) as caught:
            transaction.get_range(begin, end, limit, reverse, mode).to_list()
        assert caught.value.code == 2210
        return
    rows = transaction.get_range(begin, end, limit, reverse, mode)
    assert _pairs(rows) == model.get_range(begin, end, limit, reverse)
    assert _pairs(rows.to_list()) == _pairs(rows)


@pytest.mark.parametrize("reverse", [False, True])
def test_writes_while_a_range_is_iterated(shared, reverse):
    """Rows fetched already stay as they were; parts fetched later see the writes."""
    transaction = _filled(shared, {b"%04d" % number: bytes(100) for number in range(500)})
    rows = iter(transaction.get_range(b"", b"\xff", reverse=reverse))
    begins = [next(rows).key, next(rows).key]
    near, far = (b"0497", b"0001") if reverse else (b"0002", b"0498")
    for key in (near, far):
        del transaction[key]
        transaction[key + b"+"] = b"new"
    keys = begins + [row.key for row in rows]
    assert keys == sorted(set(keys), reverse=reverse)
    assert (near in keys, near + b"+" in keys) == (True, False)
    assert (far in keys, far + b"+" in keys) == (False, True)
    assert len(keys) == 500


def test_a_range_read_conflicts_only_with_what_it_returned(shared):
    """An iteration given up early conflicts with its first part, not with the rest."""
    rows = {b"%04d" % number: bytes(100) for number in range(500)}
    for key, code in ((b"0499", None), (b"0001", 1020)):
        transaction = _filled(shared, rows)
        next(iter(transaction.get_range(b"", b"\xff")))
        run(shared, lambda other, key=key: other.set(key, b"changed"))
        transaction[b"other"] = b""
        error = transaction.commit().exception()
        assert getattr(error, "code", None) == code


def test_slices_and_prefixes(shared):
    """``tr[a:b]``, ``tr[a:b:-1]``, open ends and ``get_range_startswith`` are range reads."""
    rows = {b"a": b"1", b"b": b"2", b"b\xff": b"3", b"c": b"4"}
    transaction = _filled(shared, rows)
    assert [row.key for row in transaction[b"a":b"c"]] == [b"a", b"b", b"b\xff"]
    assert [row.key for row in transaction[b"a":b"c":-1]] == [b"b\xff", b"b", b"a"]
    assert _pairs(transaction[:]) == sorted(rows.items())
    assert [row.key for row in transaction.get_range(None, b"b")] == [b"a"]
    assert [row.key for row in transaction.get_range(b"b\xff", None)] == [b"b\xff", b"c"]
    prefixed = transaction.get_range_startswith(b"b", limit=1, reverse=True)
    assert _pairs(prefixed) == [(b"b\xff", b"3")]
    assert [tuple(row) for row in transaction.snapshot[b"c":]] == [(b"c", b"4")]
    del transaction[b"b":b"c"]
    transaction.clear_range_startswith(b"c")
    assert _pairs(transaction[:]) == [(b"a", b"1")]


def test_the_prefix_of_every_key_has_no_end():
    """A prefix of nothing but 0xFF bytes is refused: no key comes after it."""
    from fdbqueue.engines.embedded.keys import first_after_prefix

    assert first_after_prefix(b"a\xff\xff") == b"b"
    with pytest.raises(ValueError, match="0xFF"):
        first_after_prefix(b"\xff")
