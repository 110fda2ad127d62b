"""What a cluster's client answers in corners, on each engine.

Each test is a small program that a real 7.3 cluster was given; the answers are its own.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import tempfile
from pathlib import Path

import pytest

from tests.engines.alone import alone
from tests.engines.children import wait_until

_STAMP_AT_0 = bytes(14)


@pytest.fixture
def database(engine):
    """The engine's database, or the binding's own, which has all its verbs."""
    return getattr(engine.database.create_transaction(), "db", engine.database)


@pytest.fixture
def prefix(database):
    """A random prefix after all others, so that a selector can run off the end.

    One test at a time has one, of all processes that test on one cluster.
    """
    lock = os.open(Path(tempfile.gettempdir(), "fdbqueue-tests-last-keys"), os.O_CREAT | os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    prefix = b"\xfefdbqueue-test-" + secrets.token_hex(8).encode() + b"/"
    yield prefix
    transaction = database.create_transaction()
    transaction.clear_range(prefix, prefix + b"\xff\xff")
    transaction.commit().wait()
    os.close(lock)


@pytest.fixture
def selector(engine, prefix):
    """Make a selector from a key under the prefix."""
    return lambda key, or_equal, offset: engine.key_selector(prefix + key, or_equal, offset)


@pytest.fixture
def put(database, prefix):
    """Set keys as another client would: ``put(k=b"1")``."""

    def put(**rows):
        transaction = database.create_transaction()
        for key, value in rows.items():
            transaction[prefix + key.encode()] = value
        transaction.commit().wait()

    return put


@pytest.fixture
def code(engine):
    """Return a function that tells the code of the error of a future or a call, or None."""

    def code(what):
        try:
            result = what() if callable(what) else what
            if hasattr(result, "wait"):
                result.wait()
        except engine.error as error:
            return error.code
        return None

    return code


def _keys(prefix, rows):
    return [row.key.removeprefix(prefix) for row in rows]


# A read that the transaction's own writes answer takes no read version.


class Program:
    """A transaction that has set ``a``, for reads that need nothing else."""

    def __init__(self, engine, prefix):
        self.transaction = engine.database.create_transaction()
        self.a, self.b, self.d = prefix + b"a", prefix + b"b", prefix + b"d"
        self.transaction[self.a] = b"1"
        self._engine = engine

    def get(self):
        """Read the key it set."""
        assert self.transaction[self.a] == b"1"

    def snapshot_get(self):
        """Read the key it set, as a snapshot read."""
        assert self.transaction.snapshot[self.a] == b"1"

    def get_what_was_cleared(self):
        """Read a key it cleared."""
        del self.transaction[self.b]
        assert not self.transaction[self.b].present()

    def get_in_a_cleared_range(self):
        """Read a key in a range it cleared."""
        self.transaction.clear_range(self.b, self.d)
        assert not self.transaction[self.b].present()

    def get_what_was_added_to(self):
        """Read a key it set and then added to."""
        self.transaction.add(self.a, b"\x01")
        assert self.transaction[self.a] == b"2"

    def get_key(self):
        """Resolve a selector to the key it set."""
        found = self.transaction.get_key(self._engine.key_selector(self.a, False, 1))
        assert found == self.a

    def get_key_behind_the_last(self):
        """Resolve a selector behind the last key there may be."""
        found = self.transaction.get_key(self._engine.key_selector(b"\xff", True, 1))
        assert found == b"\xff"

    def range_with_a_limit(self):
        """Read a range up to the key it set."""
        rows = self.transaction.get_range(self.a, self.d, limit=1)
        assert [row.key for row in rows] == [self.a]

    def cleared_range(self):
        """Read a range it cleared."""
        self.transaction.clear_range(self.b, self.d)
        assert self.transaction.get_range(self.b, self.d).to_list() == []

    def cleared_range_in_reverse(self):
        """Read a range it cleared and set a key in, from the end."""
        self.transaction.clear_range(self.a, self.d)
        self.transaction[self.b] = b"2"
        rows = self.transaction.get_range(self.a, self.d, reverse=True)
        assert [row.key for row in rows] == [self.b]

    def empty_range(self):
        """Read a range without keys."""
        assert self.transaction.get_range(self.b, self.b).to_list() == []

    def inverted_range(self):
        """Read a range that ends before it begins."""
        assert self.transaction.get_range(self.d, self.b).to_list() == []

    def long_key(self):
        """Read a key that is too long to be there."""
        assert not self.transaction[self.a.ljust(10_009, b"k")].present()

    def watch(self):
        """Watch the key it set."""
        self.transaction.watch(self.a).cancel()


class Unreadable(Program):
    """The same, for reads that fail because the commit's stamp is not known."""

    def get(self):
        """Read a value that will hold the stamp."""
        self.transaction.set_versionstamped_value(self.b, _STAMP_AT_0)
        with pytest.raises(self._engine.error, match="1036"):
            self.transaction[self.b].wait()

    def range(self):
        """Read from the key it set to one that will hold the stamp."""
        self.transaction.set_versionstamped_value(self.a + b"\x00", _STAMP_AT_0)
        with pytest.raises(self._engine.error, match="1036"):
            self.transaction.get_range(self.a, self.d).to_list()


_READS = [
    (kind, name)
    for kind in (Program, Unreadable)
    for name in vars(kind)
    if not name.startswith("_")
]


@pytest.fixture(params=_READS, ids=lambda read: f"{read[0].__name__}-{read[1]}")
def answered(request, engine, put, prefix):
    """A transaction after a read that its own writes answered."""
    put(k=b"0")
    kind, name = request.param
    program = kind(engine, prefix)
    getattr(program, name)()
    return program.transaction


def test_an_answered_read_sees_what_is_committed_later(answered, put, prefix):
    """The read version is taken by the first read of the database."""
    put(k=b"1")
    assert answered[prefix + b"k"] == b"1"


def test_an_answered_read_leaves_the_read_version_to_be_set(answered, database, put, prefix):
    """``set_read_version`` may come after it."""
    reader = database.create_transaction()
    answered.set_read_version(reader.get_read_version().wait())
    put(k=b"1")
    assert answered[prefix + b"k"] == b"0"


def test_a_key_that_is_too_long_to_be_written_is_looked_for(transaction, put, prefix):
    """So it takes the read version, unless it is longer than 10,008 bytes."""
    put(k=b"0")
    assert not transaction[(prefix + b"k").ljust(10_008, b"k")].present()
    put(k=b"1")
    assert transaction[prefix + b"k"] == b"0"


def test_an_answered_read_is_no_reason_to_conflict(answered, put, prefix, code):
    """What is committed before the first read of the database is no conflict."""
    answered.add_read_conflict_key(prefix + b"k")
    put(k=b"1")
    assert code(answered.commit) != 1020


def test_an_unknown_key_takes_the_read_version(transaction, put, prefix):
    """A read that needs the database, if only for a part of it, is of that moment."""
    put(k=b"0")
    transaction[prefix + b"a"] = b"1"
    transaction.get_range(prefix + b"a", prefix + b"d").to_list()
    put(k=b"1")
    assert transaction[prefix + b"k"] == b"0"


# Selectors at the end of the keys


@pytest.mark.parametrize("snapshot", [False, True])
def test_the_selector_of_the_last_key(transaction, put, engine, prefix, snapshot):
    r"""``\xff`` or equal is a legal place to count from, though nothing is there."""
    put(a=b"", b=b"")
    reads = transaction.snapshot if snapshot else transaction
    last = engine.key_selector(b"\xff", True, 0)
    assert reads.get_key(last) == prefix + b"b"
    assert reads.get_key(last - 1) == prefix + b"a"
    assert reads.get_key(last + 1) == b"\xff"
    assert _keys(prefix, reads.get_range(prefix, last)) == [b"a"]
    assert _keys(prefix, reads.get_range(last, b"\xff")) == [b"b"]


def test_the_selector_of_the_last_system_key(transaction, engine, code):
    r"""With system keys it is ``\xff\xff``; behind either end it is 2004."""
    selector = engine.key_selector
    assert code(transaction.get_key(selector(b"\xff\x00", False, 0))) == 2004
    assert code(transaction.get_key(selector(b"\xff\xff", True, 0))) == 2004
    transaction.options.set_read_system_keys()
    assert code(transaction.get_key(selector(b"\xff\xff", True, 0))) is None
    assert code(transaction.get_key(selector(b"\xff\xff\x00", False, 0))) == 2004


# The approximate size


def test_the_approximate_size_of_a_transaction_that_has_ended(database, prefix, code):
    """It is told after a cancel, a commit and a timeout."""
    cancelled, committed, late = (database.create_transaction() for _ in range(3))
    for transaction in (cancelled, committed, late):
        transaction[prefix + b"a"] = b"1"
    cancelled.cancel()
    committed.commit().wait()
    late.options.set_timeout(1)
    wait_until(lambda: code(late.get_read_version()) == 1031)
    for transaction in (cancelled, committed, late):
        assert transaction.get_approximate_size().wait() > 0


def test_the_approximate_size_does_not_disturb_a_commit(transaction, database, prefix):
    """Asked for while a commit is under way, it lets that go on."""
    transaction[prefix + b"a"] = b"1"
    commit = transaction.commit()
    assert transaction.get_approximate_size().wait() > 0
    commit.wait()
    assert alone(database)[prefix + b"a"] == b"1"


# Versions after a commit


def test_the_read_version_after_a_commit(transaction, put, prefix):
    """It stays that of the reads."""
    version = transaction.get_read_version().wait()
    put(b=b"")
    transaction[prefix + b"a"] = b"1"
    transaction.commit().wait()
    assert transaction.get_read_version().wait() == version


def test_the_read_version_after_a_blind_commit(transaction, database, prefix):
    """It is one the commit was checked at, before its own."""
    transaction[prefix + b"a"] = b"1"
    transaction.commit().wait()
    version = transaction.get_read_version().wait()
    assert 0 < version < transaction.get_committed_version()
    assert transaction.get_read_version().wait() == version
    assert alone(database)[prefix + b"a"] == b"1"


def test_a_read_version_that_was_set_is_told_unread(transaction):
    """It is what was set, though nothing could be read at it."""
    transaction.set_read_version(1)
    assert transaction.get_read_version().wait() == 1


@pytest.mark.parametrize("renew", [lambda tr: tr.reset(), lambda tr: tr.on_error(1020).wait()])
def test_the_committed_version_outlives_a_reset(transaction, prefix, renew):
    """It is of the last commit, until the next."""
    transaction[prefix + b"a"] = b"1"
    transaction.commit().wait()
    version = transaction.get_committed_version()
    renew(transaction)
    assert transaction.get_committed_version() == version > 0
    transaction[prefix + b"a"].wait()
    assert transaction.get_committed_version() == version
    transaction.commit().wait()
    assert transaction.get_committed_version() == -1


# Ranges between selectors


@pytest.fixture
def conflicts(transaction, put, prefix, code):
    """Tell whether a commit fails when another client sets a key after the reads."""

    def conflicts(key):
        put(**{key: b"new"})
        transaction[prefix + b"written"] = b""
        return code(transaction.commit()) == 1020

    return conflicts


@pytest.mark.parametrize(("key", "conflict"), [("y", False), ("a0", False), ("a", True)])
def test_a_limit_ends_a_range_before_its_end_is_resolved(
    transaction, put, selector, prefix, conflicts, key, conflict
):
    """Where the end would come to lie is not depended on."""
    put(a=b"", b=b"", c=b"")
    rows = transaction.get_range(selector(b"a", False, 1), selector(b"b", False, 9), limit=1)
    assert _keys(prefix, rows) == [b"a"]
    assert conflicts(key) == conflict


@pytest.mark.parametrize(("key", "conflict"), [("0", False), ("b0", False), ("c", True)])
def test_a_limit_ends_a_reverse_range_before_its_begin_is_resolved(
    transaction, put, selector, prefix, conflicts, key, conflict
):
    """Where the begin would come to lie is not depended on."""
    put(a=b"", b=b"", c=b"")
    rows = transaction.get_range(
        selector(b"b", False, -1000), selector(b"d", False, 1), limit=1, reverse=True
    )
    assert _keys(prefix, rows) == [b"c"]
    assert conflicts(key) == conflict


@pytest.mark.parametrize(("key", "conflict"), [("y", False), ("a0", True)])
def test_a_begin_that_passes_the_end(transaction, put, selector, conflicts, key, conflict):
    """It is resolved no further than to the end, which is what it depends on."""
    put(a=b"", b=b"", c=b"")
    rows = transaction.get_range(selector(b"a", False, 9), selector(b"b", False, 1))
    assert rows.to_list() == []
    assert conflicts(key) == conflict


@pytest.mark.parametrize(("key", "conflict"), [("0", False), ("b0", True)])
def test_an_end_that_passes_the_begin(transaction, put, selector, conflicts, key, conflict):
    """The same from the end, in reverse."""
    put(a=b"", b=b"", c=b"", d=b"")
    rows = transaction.get_range(
        selector(b"b", False, 1), selector(b"d", False, -1000), reverse=True
    )
    assert rows.to_list() == []
    assert conflicts(key) == conflict


def test_an_end_right_behind_the_last_key(transaction, put, selector, prefix, conflicts):
    """It has not run off the end of the keys, so what comes after it is no conflict."""
    put(a=b"", b=b"", c=b"")
    rows = transaction.get_range(selector(b"a", False, 1), selector(b"a", False, 4))
    assert _keys(prefix, rows) == [b"a", b"b", b"c"]
    assert not conflicts("y")


def test_an_end_that_runs_off(transaction, put, selector, prefix, conflicts):
    """Whatever comes after the rows would be among them."""
    put(a=b"", b=b"", c=b"")
    rows = transaction.get_range(selector(b"a", False, 1), selector(b"a", False, 5))
    assert _keys(prefix, rows) == [b"a", b"b", b"c"]
    assert conflicts("y")


def test_a_limit_ends_a_range_before_what_is_unreadable(transaction, put, selector, prefix, code):
    """A key that is known after the commit only, behind the rows, does no harm."""
    put(a=b"", b=b"", c=b"")
    transaction.set_versionstamped_value(prefix + b"y", _STAMP_AT_0)
    rows = transaction.get_range(prefix + b"a", selector(b"b", False, 9), limit=1)
    assert _keys(prefix, rows) == [b"a"]
    assert code(transaction.commit()) is None


def test_a_range_may_begin_at_a_key_cleared_by_comparison(
    transaction, put, engine, selector, prefix
):
    """The key counts, and is not there; so the range begins behind what is before it."""
    put(a=b"", c=b"")
    transaction.compare_and_clear(prefix + b"b", b"x")
    before_c = engine.key_selector.last_less_than(prefix + b"c")
    assert _keys(prefix, transaction.get_range(before_c, prefix + b"d")) == [b"c"]
    assert _keys(prefix, transaction.get_range(prefix, selector(b"a", False, 3))) == [b"a"]
    assert transaction.get_key(before_c) == prefix + b"a"


# The versionstamp's future


@pytest.fixture
def stamp(transaction, prefix):
    """The future of the versionstamp of a transaction that writes."""
    transaction[prefix + b"a"] = b"1"
    return transaction.get_versionstamp()


def test_the_stamp_of_a_commit_that_conflicts(transaction, stamp, put, prefix, code):
    """It is 2020, not the commit's error."""
    transaction[prefix + b"k"].wait()
    put(k=b"1")
    assert code(transaction.commit()) == 1020
    assert code(stamp) == 2020


def test_the_stamp_of_a_commit_that_is_too_large(transaction, stamp, prefix, code):
    """It is 2020, not the commit's error."""
    transaction.options.set_size_limit(100)
    transaction[prefix + b"b"] = bytes(101)
    assert code(transaction.commit()) == 2101
    assert code(stamp) == 2020


@pytest.mark.parametrize("renew", [lambda tr: tr.reset(), lambda tr: tr.on_error(1020).wait()])
def test_the_stamp_of_a_transaction_that_is_reset(transaction, stamp, renew, code):
    """It is 1100: the commit it would have come from is given up."""
    assert not stamp.is_ready()
    renew(transaction)
    assert code(stamp) == 1100


def test_the_stamp_of_a_transaction_that_is_cancelled(transaction, stamp, code):
    """It is 1025, as everything else."""
    transaction.cancel()
    assert code(stamp) == 1025


def test_the_stamp_where_a_read_fails_the_commit(transaction, stamp, prefix, code):
    """Nothing is known until the transaction is reset."""
    transaction.set_versionstamped_value(prefix + b"stamped", _STAMP_AT_0)
    assert code(transaction[prefix + b"stamped"]) == 1036
    assert code(transaction.commit()) == 1036
    assert not stamp.is_ready()
    transaction.reset()
    assert code(stamp) == 1100


# Timeouts and retries


def test_a_timeout_that_has_passed_cannot_be_taken_back(transaction, database, prefix, code):
    """The transaction stays timed out, whatever is set then."""
    transaction[prefix + b"a"] = b"1"
    transaction.options.set_timeout(1)
    later = database.create_transaction()
    later.options.set_timeout(1)
    wait_until(lambda: code(later.get_read_version()) == 1031)
    transaction.options.set_timeout(0)
    assert code(transaction.commit()) == 1031


@pytest.mark.parametrize("error", [1079, 1223])
def test_on_error_retries_what_is_throttled(transaction, error, code):
    """A request that a blob worker or a proxy turned down is run again."""
    assert code(transaction.on_error(error)) is None
    assert code(transaction.get_read_version()) is None


@pytest.mark.parametrize(("error", "reported"), [(1100, 1025), (-1, 4000), (0, 2000)])
def test_on_error_reports_some_errors_as_others(transaction, error, reported, code):
    """A broken promise is reported as a cancelled transaction, a negative code as unknown."""
    assert code(transaction.on_error(error)) == reported
    assert code(transaction.get_read_version()) == 1025


# What the binding checks


@pytest.mark.parametrize(
    ("limit", "mode", "error"), [(0, 0, 2210), (-1, 0, 2210), (0, 5, 2000), (-2, -2, 2012)]
)
def test_what_is_wrong_with_a_range_is_told_when_it_is_iterated(
    transaction, prefix, limit, mode, error, code
):
    """The call itself gives no error, and the commit none either."""
    transaction[prefix + b"a"] = b"1"
    rows = transaction.get_range(prefix, prefix + b"\xff", limit, False, mode)
    assert code(lambda: next(iter(rows))) == error
    assert code(transaction.commit()) is None


def test_a_limit_of_minus_one_is_none(transaction, put, prefix):
    """-1 and 0 both let a range be read to its end."""
    put(a=b"", b=b"")
    for reverse, keys in ((False, [b"a", b"b"]), (True, [b"b", b"a"])):
        rows = transaction.get_range(prefix, prefix + b"\xff", -1, reverse)
        assert _keys(prefix, rows) == _keys(prefix, rows.to_list()) == keys


def test_an_absent_value_has_the_methods_of_bytes_only(transaction, prefix):
    """What bytes lack is an AttributeError; what they have fails without bytes."""
    absent = transaction[prefix + b"absent"]
    assert not hasattr(absent, "x")
    assert hasattr(absent, "upper")
    for use in (absent.upper, absent.__len__, lambda: bool(absent), lambda: hash(absent)):
        with pytest.raises(TypeError):
            use()


def test_a_value_holds_its_bytes_one_by_one(transaction, prefix):
    """``in`` looks for a number, as a value is a sequence of them."""
    transaction[prefix + b"a"] = b"123"
    value = transaction[prefix + b"a"]
    assert (50 in value, b"2" in value) == (True, False)
    assert value.startswith(b"12")
    assert 2 * value == b"123123"


# Futures


def test_whether_a_future_was_cancelled(transaction, prefix):
    """A watch that is given up was; a read and a commit were not."""
    read = transaction[prefix + b"a"]
    read.wait()
    watch = transaction.watch(prefix + b"a")
    transaction.commit().wait()
    assert not read.cancelled()
    assert not watch.cancelled()
    watch.cancel()
    wait_until(watch.is_ready)
    assert watch.cancelled()


def test_a_result_is_not_waited_for(transaction, prefix):
    """``result()`` and ``exception()`` are for futures that are ready."""
    watch = transaction.watch(prefix + b"a")
    transaction.commit().wait()
    for ask in (watch.result, watch.exception):
        with pytest.raises(Exception, match="Future result not available"):
            ask()
    watch.cancel()
    wait_until(watch.is_ready)
    assert watch.exception().code == 1101


_SIZES = {
    "set": (lambda tr, key: tr.set(key, b"vv"), 3, 71),
    "add": (lambda tr, key: tr.add(key, bytes(8)), 3, 77),
    "clear": (lambda tr, key: tr.clear(key), 4, 50),
    "clear_range": (lambda tr, key: tr.clear_range(key, key + b"\xff\xff"), 4, 72),
    "read": (lambda tr, key: tr.add_read_conflict_key(key), 2, 25),
    "get": (lambda tr, key: tr.get(key).wait(), 2, 25),
    "snapshot": (lambda tr, key: tr.snapshot.get(key).wait(), 0, 0),
}


@pytest.mark.parametrize("operation", _SIZES)
@pytest.mark.parametrize("length", [40, 140])
def test_the_approximate_size_of_each_operation(transaction, prefix, operation, length):
    """Its keys, as often as they are sent, and something for each mutation and range."""
    call, times, more = _SIZES[operation]
    before = transaction.get_approximate_size().wait()
    call(transaction, (prefix + b"key").ljust(length, b"y"))
    assert transaction.get_approximate_size().wait() - before == times * length + more


_COMMITTED = {"set": (3, 71), "add": (3, 77), "clear": (4, 70), "clear_range": (4, 72)}


@pytest.mark.parametrize("operation", _COMMITTED)
@pytest.mark.parametrize("is_over", [False, True])
def test_the_size_that_is_limited(transaction, prefix, operation, is_over, code):
    """The limit counts what a commit sends, to the byte; a clear has 20 bytes more than before."""
    times, more = _COMMITTED[operation]
    key = (prefix + b"key").ljust(140, b"y")
    _SIZES[operation][0](transaction, key)
    transaction.options.set_size_limit(times * 140 + more - is_over)
    assert code(transaction.commit()) == (2101 if is_over else None)
