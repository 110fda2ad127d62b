"""The special keys that show a transaction's own write conflict ranges, on each engine."""

from __future__ import annotations

import pytest

from fdbqueue.engines import embedded

WRITTEN = b"\xff\xff/transaction/write_conflict_range/"
WRITTEN_END = WRITTEN + b"\xff\xff"
STAMP_AT_0 = bytes(14)


@pytest.fixture
def database(engine):
    """The database of the engine under test, not a file of the test's own."""
    return engine.database


def _written(reads, *arguments, **options):
    rows = reads.get_range(*(arguments or (WRITTEN, WRITTEN_END)), **options)
    return [(row.key.removeprefix(WRITTEN), row.value) for row in rows]


def _bounds(*ranges):
    return [bound for begin, end in ranges for bound in ((begin, b"1"), (end, b"0"))]


def _code(engine, call):
    try:
        call()
    except engine.error as error:
        return error.code
    return None


def test_nothing_is_shown_before_a_write(transaction, prefix):
    """Reads and read conflicts are no writes."""
    assert _written(transaction, limit=1) == []
    transaction[prefix + b"a"].wait()
    transaction.get_range(prefix, prefix + b"\xff").to_list()
    transaction.add_read_conflict_key(prefix + b"b")
    assert _written(transaction) == []
    transaction[prefix + b"a"] = b""
    assert _written(transaction, limit=1) == [(prefix + b"a", b"1")]


@pytest.mark.parametrize("read_your_writes", [True, False])
@pytest.mark.parametrize(
    "write",
    [
        lambda tr, key: tr.set(key, b"1"),
        lambda tr, key: tr.clear(key),
        lambda tr, key: tr.clear_range(key, key + b"\x00"),
        lambda tr, key: tr.add(key, b"1"),
        lambda tr, key: tr.bit_xor(key, b"1"),
        lambda tr, key: tr.compare_and_clear(key, b"1"),
        lambda tr, key: tr.set_versionstamped_value(key, STAMP_AT_0),
        lambda tr, key: tr.add_write_conflict_key(key),
        lambda tr, key: tr.add_write_conflict_range(key, key + b"\x00"),
    ],
    ids=[
        "set",
        "clear",
        "clear_range",
        "add",
        "bit_xor",
        "compare_and_clear",
        "set_versionstamped_value",
        "add_write_conflict_key",
        "add_write_conflict_range",
    ],
)
def test_every_kind_of_write_is_shown(transaction, prefix, write, read_your_writes):
    """The key written is a range of its own, in the transaction's and in snapshot reads."""
    if not read_your_writes:
        transaction.options.set_read_your_writes_disable()
    key = prefix + b"a"
    write(transaction, key)
    expected = _bounds((key, key + b"\x00"))
    assert _written(transaction) == expected
    assert _written(transaction.snapshot) == expected
    assert _written(transaction, limit=1) == expected[:1]


@pytest.mark.parametrize("read_your_writes", [True, False])
def test_a_versionstamped_key_is_shown_as_what_it_may_become(transaction, prefix, read_your_writes):
    """The range holds the key's first and its last stamp; after the commit it is the key."""
    if not read_your_writes:
        transaction.options.set_read_your_writes_disable()
    place = len(prefix).to_bytes(4, "little")
    transaction.set_versionstamped_key(prefix + bytes(10) + b"/" + place, b"")
    stamp = transaction.get_versionstamp()
    last = prefix + b"\xff" * 10 + b"/"
    assert _written(transaction) == _bounds((prefix + bytes(10) + b"/", last + b"\x00"))
    transaction.commit().wait()
    key = prefix + bytes(stamp) + b"/"
    written = [row for row in _written(transaction) if prefix in row[0]]  # not the client's own
    assert written == _bounds((key, key + b"\x00"))


def test_ranges_are_merged(transaction, prefix):
    """Ranges that overlap or touch are one, in whatever order they were written."""
    transaction.clear_range(prefix + b"d", prefix + b"f")
    transaction.add_write_conflict_range(prefix + b"b", prefix + b"d")
    transaction[prefix + b"c"] = b""
    transaction[prefix + b"x"] = b""
    transaction.clear_range(prefix + b"e", prefix + b"g")
    expected = _bounds((prefix + b"b", prefix + b"g"), (prefix + b"x", prefix + b"x\x00"))
    assert _written(transaction) == expected


def test_parts_of_the_ranges(transaction, prefix):
    """A read shows the bounds that lie in it, from either end, up to its limit."""
    for key in (b"a", b"c"):
        transaction.add_write_conflict_range(prefix + key, prefix + key + b"\xff")
    bounds = _bounds(*((prefix + key, prefix + key + b"\xff") for key in (b"a", b"c")))
    assert _written(transaction, WRITTEN + prefix + b"aa", WRITTEN + prefix + b"d") == bounds[1:]
    assert _written(transaction, WRITTEN + prefix, WRITTEN + prefix + b"cc") == bounds[:3]
    assert _written(transaction, reverse=True) == bounds[::-1]
    assert _written(transaction, limit=3) == bounds[:3]
    assert _written(transaction, limit=2, reverse=True) == bounds[:1:-1]
    assert _written(transaction, WRITTEN_END, WRITTEN) == []
    assert [row.key for row in transaction.get_range_startswith(WRITTEN)] == [
        WRITTEN + key for key, _ in bounds
    ]


def test_many_ranges(transaction, prefix):
    """Ranges that an iteration fetches in parts are all there."""
    keys = [prefix + b"%04d" % number for number in range(0, 1000, 2)]
    for key in keys:
        transaction[key] = b""
    assert _written(transaction) == _bounds(*((key, key + b"\x00") for key in keys))


def test_a_write_without_conflicts_is_not_shown(transaction, prefix):
    """A write after ``set_next_write_no_write_conflict_range`` is not there, the next one is."""
    transaction.options.set_next_write_no_write_conflict_range()
    transaction[prefix + b"a"] = b""
    assert _written(transaction, limit=1) == []
    transaction[prefix + b"b"] = b""
    assert _written(transaction) == _bounds((prefix + b"b", prefix + b"b\x00"))


def test_looking_gets_no_read_version(database, prefix):
    """A transaction that has looked still reads, and conflicts, as of its commit."""
    transaction, other = database.create_transaction(), database.create_transaction()
    transaction.add_read_conflict_key(prefix + b"a")
    transaction[prefix + b"b"] = b""
    assert _written(transaction, limit=1)
    other[prefix + b"a"] = b""
    other.commit().wait()
    transaction.commit().wait()


def test_looking_depends_on_nothing(database, prefix):
    """A write of another transaction to a range shown is no conflict."""
    transaction, other = database.create_transaction(), database.create_transaction()
    transaction.get_read_version().wait()
    transaction[prefix + b"a"] = b"mine"
    assert _written(transaction, limit=1)
    other[prefix + b"a"] = b"theirs"
    other.commit().wait()
    transaction.commit().wait()
    reader = database.create_transaction()
    assert reader[prefix + b"a"] == b"mine"


def test_looking_first_leaves_reads_as_they_were(transaction, prefix):
    """It counts as no read: read-your-writes may still be disabled."""
    assert _written(transaction) == []
    transaction.options.set_read_your_writes_disable()
    transaction[prefix + b"a"] = b"mine"
    assert transaction[prefix + b"a"] == None  # a value read


def test_a_reset_forgets_the_ranges(transaction, prefix):
    """After ``on_error`` and after ``reset`` nothing is written."""
    transaction[prefix + b"a"] = b""
    transaction.on_error(1020).wait()
    assert _written(transaction) == []
    transaction[prefix + b"a"] = b""
    transaction.reset()
    assert _written(transaction) == []


def test_ranges_of_a_commit(transaction, prefix):
    """What was written can be seen after the commit."""
    transaction[prefix + b"a"] = b""
    transaction.commit().wait()
    assert _written(transaction) == _bounds((prefix + b"a", prefix + b"a\x00"))


def test_ranges_of_a_cancelled_transaction(transaction, prefix):
    """What was written can be seen after a cancel, which ends every other read."""
    transaction[prefix + b"a"] = b""
    transaction.cancel()
    assert _written(transaction) == _bounds((prefix + b"a", prefix + b"a\x00"))


def test_what_is_wrong_with_a_write_is_said(engine, transaction, prefix):
    """The error of a write is raised here as by any read."""
    transaction[prefix + bytes(10_000)] = b""
    assert _code(engine, lambda: _written(transaction)) == 2102


def test_the_end_of_all_keys_is_not_shown(transaction):
    """A range up to it has a begin alone."""
    transaction.options.set_access_system_keys()
    transaction.add_write_conflict_range(b"\xff\xfe", b"\xff\xff")
    assert _written(transaction, WRITTEN, WRITTEN[:-1] + b"0") == [(b"\xff\xfe", b"1")]


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        (
            b"\xff\xff/transaction/read_conflict_range/",
            b"\xff\xff/transaction/read_conflict_range0",
        ),
        (b"\xff\xff/status/json", b"\xff\xff/status/json\x00"),
        (b"\xff\xff/transaction/", WRITTEN_END),
        (WRITTEN, b"\xff\xff\xff"),
        (b"a", WRITTEN_END),
    ],
)
def test_other_special_keys_are_not_in_the_embedded_engine(embedded_path, begin, end):
    """A read of more than these keys is outside the legal range."""
    transaction = embedded.open(embedded_path, durability="normal").create_transaction()
    with pytest.raises(embedded.FDBError) as caught:
        transaction.get_range(begin, end).to_list()
    assert caught.value.code == 2004
