"""What reads and calls of the embedded engine return: values, rows and futures."""

from __future__ import annotations

import logging
import threading

import pytest

from fdbqueue.engines.embedded import FDBError
from tests.engines.alone import alone

_DEADLINE_SECONDS = 60


def test_an_absent_value(database):
    """An absent key's value equals None, is not present, and has no bytes."""
    value = database.create_transaction()[b"absent"]
    assert value == None  # what is tested
    assert not value.present()
    with pytest.raises(TypeError):
        bool(value)
    assert value != b""
    assert repr(value) == "None"
    with pytest.raises(TypeError):
        bytes(value)
    with pytest.raises(TypeError):
        len(value)


def test_a_present_value_acts_as_its_bytes(database, put):
    """A value compares, slices, adds up and iterates as its bytes do."""
    put({b"a": b"12345", b"empty": b""})
    transaction = database.create_transaction()
    value, empty = transaction[b"a"], transaction[b"empty"]
    assert value.present()
    assert value.wait() is value
    assert bytes(value) == value.value == b"12345"
    assert (value[0], value[1:3], len(value), list(value)[:1]) == (49, b"23", 5, [49])
    assert (value + b"6", b"0" + value, value * 2) == (b"123456", b"012345", b"1234512345")
    assert (50 in value, value.startswith(b"12"), int(value)) == (True, True, 12345)
    assert (str(value), repr(value)) == ("b'12345'", "b'12345'")
    assert hash(value) == hash(b"12345")
    assert empty.present()
    assert empty == b""
    assert empty != None  # what is tested


def test_values_are_ordered_as_bytes(database, put):
    """Comparisons work with bytes and between values, whichever comes first."""
    put({b"a": b"1", b"b": b"2"})
    transaction = database.create_transaction()
    one, two = transaction[b"a"], transaction[b"b"]
    same, first = transaction[b"a"], b"1"
    assert one < two <= b"2"
    assert two > one >= same
    assert one == same
    assert one != two
    assert first <= one < b"2"
    assert first == one
    assert sorted([two, one]) == [b"1", b"2"]


def test_a_value_is_a_key_and_a_value(database, put):
    """What was read may be written, and used as a key, as it is."""
    put({b"name": b"found", b"found": b"it"})
    transaction = database.create_transaction()
    name = transaction[b"name"]
    assert transaction[name] == b"it"
    transaction[b"copy"] = name
    transaction[name] = transaction[name]
    del transaction[name]
    transaction.commit().wait()
    assert alone(database)[b"copy"] == b"found"
    assert alone(database)[b"found"] is None


def test_an_absent_value_is_no_key(database, put):
    """An absent value given as a key is refused, and clears nothing."""
    put({b"a": b"1"})
    transaction = database.create_transaction()
    absent = transaction[b"absent"]
    for call in (
        lambda: transaction[absent],
        lambda: transaction.set(absent, b""),
        lambda: transaction.set(b"k", absent),
        lambda: transaction.clear_range(absent, b"z"),
        lambda: transaction.clear_range("", b"z"),
    ):
        with pytest.raises(TypeError):
            call()
    transaction.commit().wait()
    assert alone(database)[b"a"] == b"1"


def test_wrong_types_are_refused_at_the_call(database):
    """Keys and values that are no bytes raise TypeError, and leave the transaction usable."""
    transaction = database.create_transaction()
    for wrong in ("text", 1, None, bytearray(b"x")):
        for call in (
            lambda wrong=wrong: transaction[wrong],
            lambda wrong=wrong: transaction.set(wrong, b""),
            lambda wrong=wrong: transaction.set(b"k", wrong),
            lambda wrong=wrong: transaction.add(b"k", wrong),
            lambda wrong=wrong: transaction.clear(wrong),
            lambda wrong=wrong: transaction.watch(wrong),
            lambda wrong=wrong: transaction.add_read_conflict_key(wrong),
            lambda wrong=wrong: transaction.add_write_conflict_range(b"", wrong),
            lambda wrong=wrong: transaction.get_range_startswith(wrong),
        ):
            with pytest.raises(TypeError):
                call()
    transaction[b"k"] = b"v"
    transaction.commit().wait()
    assert alone(database)[b"k"] == b"v"


def test_what_knows_its_bytes_is_a_key(database):
    """Objects with ``as_foundationdb_key`` and ``as_foundationdb_value`` may be passed."""

    class Named:
        def as_foundationdb_key(self):
            return b"key"

        def as_foundationdb_value(self):
            return b"value"

    alone(database)[Named()] = Named()
    assert alone(database)[Named()] == alone(database)[b"key"] == b"value"


def test_a_reads_future(database, put):
    """A read's future is ready, gives its result, and calls back."""
    put({b"a": b"1"})
    future = database.create_transaction()[b"a"]
    seen = []
    future.on_ready(seen.append)
    future.block_until_ready()
    future.cancel()
    assert future.is_ready()
    assert future.done()
    assert future.exception() is None
    assert seen == [future]
    assert future.result() == b"1"


def test_a_failed_reads_future(database):
    """A read that fails raises when its result is used, not when it is made."""
    future = database.create_transaction()[b"\xff"]
    assert future.is_ready()
    future.block_until_ready()
    assert future.exception().code == 2004
    for use in (future.wait, future.present, lambda: bytes(future), lambda: future == b""):
        with pytest.raises(FDBError) as caught:
            use()
        assert caught.value.code == 2004


def test_a_commits_future(database):
    """Every way to use a commit's future runs the commit, once."""
    for number, use in enumerate(("wait", "is_ready", "done", "block_until_ready", "exception")):
        transaction = database.create_transaction()
        transaction.add(b"count", b"\x01")
        future = transaction.commit()
        getattr(future, use)()
        future.wait()
        assert alone(database)[b"count"] == bytes([number + 1])
    called = []
    transaction = database.create_transaction()
    transaction.add(b"count", b"\x01")
    transaction.commit().on_ready(called.append)
    assert len(called) == 1
    assert alone(database)[b"count"] == b"\x06"


def test_a_delays_future(database):
    """The future of ``on_error`` becomes ready by itself, and calls back from a thread."""
    called = threading.Event()
    delay = database.create_transaction().on_error(1020)
    delay.on_ready(lambda _: called.set())
    assert called.wait(_DEADLINE_SECONDS)
    assert delay.is_ready()
    assert delay.wait() is None
    assert delay.exception() is None


def test_a_callbacks_exception_goes_no_further(database, put, caplog):
    """A callback that raises is logged; who completed the future does not see it."""

    def fail(_):
        raise ValueError("of the callback")

    database.create_transaction()[b"a"].on_ready(fail)
    transaction = database.create_transaction()
    broken, whole = transaction.watch(b"a"), transaction.watch(b"b")
    transaction.commit().wait()
    broken.on_ready(fail)
    put({b"a": b"1"})
    broken.wait()
    put({b"b": b"1"})
    whole.wait()
    failures = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert ["of the callback" in record.exc_text for record in failures] == [True, True]


def test_rows(database, put):
    """A row of a range has a key and a value, and unpacks into them."""
    put({b"a": b"1"})
    (row,) = database.create_transaction()[b"":b"\xff"]
    key, value = row
    assert (key, value) == (row.key, row.value) == (b"a", b"1")
    assert type(row.key) is type(row.value) is bytes
    assert repr(row) == "b'a': b'1'"


def test_a_databases_own_operations(database):
    """Single operations of the database run in a transaction of their own."""
    for key in (b"a", b"b", b"c", b"d"):
        alone(database)[key] = key.upper()
    assert alone(database)[b"a"] == b"A"
    assert alone(database).get(b"absent") is None
    assert [row.key for row in alone(database)[b"b":b"d"]] == [b"b", b"c"]
    assert [row.key for row in alone(database).get_range(b"a", b"z", 2, True)] == [b"d", b"c"]
    del alone(database)[b"a"]
    del alone(database)[b"b":b"d"]
    assert [row.key for row in alone(database)[:]] == [b"d"]
    assert repr(database) == f"<embedded Database {database.path!r}>"


def test_a_value_passes_for_bytes_as_with_the_binding(database):
    """isinstance() says bytes, and keys and values may be given as values read."""
    alone(database)[b"a"] = b"b"
    transaction = database.create_transaction()
    value = transaction[b"a"]
    assert isinstance(value, bytes)
    transaction[value] = value
    transaction.commit().wait()
    assert alone(database)[b"b"] == b"b"


def test_waiting_for_any_of_several_futures(database):
    """The place of the one that is ready is told, whatever the others do."""
    first = database.create_transaction()
    watch = first.watch(b"a")
    first.commit().wait()
    second = database.create_transaction()
    assert type(watch).wait_for_any(watch, second.get_read_version()) == 1
    watch.cancel()
    with pytest.raises(ValueError, match="at least one"):
        type(watch).wait_for_any()
