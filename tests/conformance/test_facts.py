"""The 63 recorded facts about a cluster hold on every engine.

All of them apply to one file on one machine, so none is left out.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fdbqueue.engines import embedded
from tests.conftest import Engine

_RECORDED = Path(__file__).with_name("recorded") / "facts.jsonl"
_FACTS = {
    fact["fact"]: fact["steps"] for fact in map(json.loads, _RECORDED.read_text().splitlines())
}
_AGE_SECONDS = 6.5
_DEADLINE_SECONDS = 60

Steps = list[list[Any]]


class Place(NamedTuple):
    """Where a fact is tried: an engine, and a prefix of its own."""

    engine: Engine
    prefix: bytes

    def begin(self):
        """Return a new transaction."""
        return self.engine.database.create_transaction()

    def key(self, name):
        """Return a key under the prefix."""
        return self.prefix + name

    def put(self, *names, value=b""):
        """Set keys in a transaction of their own."""
        transaction = self.begin()
        for name in names:
            transaction[self.key(name)] = value
        transaction.commit().wait()

    def value(self, name):
        """Return the value of a key, read in a transaction of its own."""
        transaction = self.begin()
        return bytes(transaction[self.key(name)])

    def outcome(self, call):
        """Return "ok", or the code of the error the call or its future gives."""
        try:
            result = call()
            if hasattr(result, "wait"):
                result.wait()
        except self.engine.error as error:
            return error.code
        return "ok"


class Aged(NamedTuple):
    """Transactions begun at the module's start, for the facts about old ones."""

    place: Place
    reader: Any
    writer: Any
    begun_at: float


_FUNCTIONS: dict[str, Callable[[Place], Steps]] = {}


def _fact(name):
    def register(function):
        _FUNCTIONS[name] = function
        return function

    return register


_aged: dict[str, Aged] = {}


@pytest.fixture
def aged(engine):
    """Begin the transactions that shall grow old, before the first fact of an engine."""
    if engine.name not in _aged:
        place = Place(engine, b"fdbqueue-test-aged-" + secrets.token_hex(8).encode())
        place.put(b"first")  # so that the reader's version is not a new file's first
        reader, writer = place.begin(), place.begin()
        reader[place.key(b"written")] = b""
        reader[place.key(b"read")].wait()
        writer[place.key(b"written")] = b""
        _aged[engine.name] = Aged(place, reader, writer, time.monotonic())


@pytest.fixture(scope="module", autouse=True)
def _aged_places_are_emptied():
    yield
    for old in _aged.values():
        transaction = old.place.begin()
        transaction.clear_range(old.place.prefix, old.place.prefix + b"\xff")
        transaction.commit().wait()
    _aged.clear()


def _grown_old(place):
    old = _aged[place.engine.name]
    time.sleep(max(0, old.begun_at + _AGE_SECONDS - time.monotonic()))
    return old


# Limits


def _write_of(key_bytes, value_bytes, place):
    transaction = place.begin()
    key = place.prefix.ljust(key_bytes, b"k")
    return [
        ["set", place.outcome(lambda: transaction.set(key, b"v" * value_bytes))],
        ["get other key", place.outcome(lambda: transaction[place.key(b"other")])],
        ["commit", place.outcome(transaction.commit)],
    ]


for _name, _sizes in {
    "key of 10000 bytes": (10_000, 1),
    "key of 10001 bytes": (10_001, 1),
    "value of 100000 bytes": (100, 100_000),
    "value of 100001 bytes": (100, 100_001),
}.items():
    _FUNCTIONS[_name] = partial(_write_of, *_sizes)


def _commit_of_values(place, count):
    transaction = place.begin()
    for number in range(count):
        transaction[place.key(b"%d" % number)] = bytes(100_000)
    return place.outcome(transaction.commit)


@_fact("transaction over 10,000,000 bytes")
def _transaction_too_large(place):
    return [["set", "110 values of 100000 bytes"], ["commit", _commit_of_values(place, 110)]]


@_fact("transaction of 9.8 MB")
def _large_transaction(place):
    return [["commit", _commit_of_values(place, 98)]]


@_fact("set in the system keyspace")
def _system_set(place):
    transaction = place.begin()
    return [
        ["set", place.outcome(lambda: transaction.set(b"\xff" + place.prefix, b""))],
        ["commit", place.outcome(transaction.commit)],
    ]


@_fact("get in the system keyspace")
def _system_get(place):
    transaction = place.begin()
    return [["get", place.outcome(lambda: transaction[b"\xff" + place.prefix])]]


@_fact("range end at \\xff is legal")
def _range_to_the_end(place):
    rows = place.begin().get_range(b"\xfe", b"\xff", limit=1)
    return [["get_range", place.outcome(rows.to_list)]]


@_fact("get_range with begin after end")
def _inverted_read(place):
    transaction = place.begin()
    rows = transaction.get_range(place.key(b"b"), place.key(b"a"))
    return [
        ["get_range", place.outcome(rows.to_list)],
        ["commit", place.outcome(transaction.commit)],
    ]


@_fact("clear_range with begin after end")
def _inverted_clear(place):
    transaction = place.begin()
    clear = partial(transaction.clear_range, place.key(b"b"), place.key(b"a"))
    return [["clear_range", place.outcome(clear)], ["commit", place.outcome(transaction.commit)]]


@_fact("read conflict range with begin after end")
def _inverted_conflict(place):
    add = partial(place.begin().add_read_conflict_range, place.key(b"b"), place.key(b"a"))
    return [["add_read_conflict_range", place.outcome(add)]]


@_fact("empty key")
def _empty_key(place):
    transaction = place.begin()  # not committed: the key is not this test's own
    return [
        ["set", place.outcome(lambda: transaction.set(b"", b"v"))],
        ["get", place.outcome(lambda: transaction[b""])],
    ]


# Versions and states


@_fact("committed version before commit")
def _version_before_commit(place):
    return [["get_committed_version", place.begin().get_committed_version()]]


@_fact("read-only commit")
def _read_only_commit(place):
    transaction = place.begin()
    transaction[place.key(b"a")].wait()
    stamp = transaction.get_versionstamp()
    return [
        ["commit", place.outcome(transaction.commit)],
        ["get_committed_version", transaction.get_committed_version()],
        ["get_versionstamp", place.outcome(stamp.wait)],
    ]


@_fact("stamp of a commit")
def _stamp(place):
    transaction = place.begin()
    transaction[place.key(b"a")] = b""
    future = transaction.get_versionstamp()
    commit = place.outcome(transaction.commit)
    stamp, version = bytes(future), transaction.get_committed_version()
    return [
        ["commit", commit],
        ["committed version > 0", version > 0],
        [
            "stamp is version big-endian in 8 bytes then batch order in 2",
            stamp[:8] == version.to_bytes(8, "big"),
        ],
        ["stamp bytes", len(stamp)],
    ]


@_fact("read version stays")
def _read_version_stays(place):
    transaction = place.begin()
    first = transaction.get_read_version().wait()
    place.put(b"a")
    return [["same", transaction.get_read_version().wait() == first]]


@_fact("a later read version is at least an earlier commit's version")
def _read_version_is_recent(place):
    transaction = place.begin()
    transaction[place.key(b"a")] = b""
    transaction.commit().wait()
    earlier = place.begin()
    read_version = earlier.get_read_version().wait()
    return [["holds", read_version >= transaction.get_committed_version()]]


@_fact("ancient read version")
def _ancient_version(place):
    place.put(b"a")
    transaction = place.begin()
    transaction.set_read_version(1)
    return [["get", place.outcome(lambda: transaction[place.key(b"a")])]]


@_fact("future read version")
def _future_version(place):
    earlier = place.begin()
    version = earlier.get_read_version().wait()
    transaction = place.begin()
    transaction.set_read_version(version + 1_000_000_000)
    outcome = place.outcome(lambda: transaction[place.key(b"a")])
    return [["get (waits about a second, then fails)", outcome]]


@_fact("set and commit again after a commit, without reset")
def _commit_twice(place):
    transaction = place.begin()
    transaction[place.key(b"a")] = b"1"
    first = place.outcome(transaction.commit)
    transaction[place.key(b"a")] = b"2"
    return [
        ["commit", first],
        ["commit", place.outcome(transaction.commit)],
        ["value now", place.value(b"a").decode()],
    ]


@_fact("get while a commit is in flight")
def _get_during_commit(place):
    transaction = place.begin()
    transaction[place.key(b"a")] = b"1"
    commit = transaction.commit()
    return [
        ["get", place.outcome(lambda: transaction[place.key(b"a")])],
        ["commit", place.outcome(commit.wait)],
    ]


@_fact("after cancel")
def _cancelled(place):
    transaction = place.begin()
    transaction.cancel()
    steps = [
        ["get", place.outcome(lambda: transaction[place.key(b"a")])],
        ["commit", place.outcome(transaction.commit)],
    ]
    transaction.reset()
    return [*steps, ["reset then get", place.outcome(lambda: transaction[place.key(b"a")])]]


# Ages, limits and errors


@_fact("6.5 s after the first read")
def _old_reader(place):
    old = _grown_old(place)
    return [
        ["get of another key", place.outcome(lambda: old.reader[old.place.key(b"other")])],
        ["commit", place.outcome(old.reader.commit)],
    ]


@_fact("6.5 s, no read, only writes")
def _old_writer(place):
    return [["commit", place.outcome(_grown_old(place).writer.commit)]]


@_fact("timeout of 1 ms, 50 ms later")
def _timed_out(place):
    transaction = place.begin()
    transaction.options.set_timeout(1)
    time.sleep(0.05)
    return [
        ["get", place.outcome(lambda: transaction[place.key(b"a")])],
        ["on_error(1031)", place.outcome(lambda: transaction.on_error(1031))],
    ]


@_fact("retry limit of 2")
def _retry_limit(place):
    transaction = place.begin()
    transaction.options.set_retry_limit(2)
    return [["on_error(1020)", place.outcome(lambda: transaction.on_error(1020))] for _ in range(4)]


def _on_error(code, place):
    transaction = place.begin()
    return [["on_error", place.outcome(lambda: transaction.on_error(code))]]


for _code in (1004, 1007, 1009, 1020, 1021, 1025, 1031, 1036, 1037, 1038, 1039, 1213):
    _FUNCTIONS[f"on_error({_code})"] = partial(_on_error, _code)
for _code in (2000, 2002, 2015, 2017, 2101, 2102, 2103):
    _FUNCTIONS[f"on_error({_code})"] = partial(_on_error, _code)

_CLASSIFIED = (1007, 1009, 1020, 1021, 1031, 1037, 1038, 1039, 1042, 1051, 1078, 1213, 2101)


def _predicate(name, place):
    predicates = embedded.predicates
    if place.engine.name == "foundationdb":
        import fdb

        predicates = fdb.predicates
    holds = getattr(predicates, name)
    return [[str(code), bool(holds(place.engine.error(code)))] for code in _CLASSIFIED]


for _name in ("is_retryable", "is_maybe_committed", "is_retryable_not_committed"):
    _FUNCTIONS[f"predicate {_name}"] = partial(_predicate, _name)


# Watches


def _fires(watch):
    fired = threading.Event()
    watch.on_ready(lambda _: fired.set())
    return fired.wait(_DEADLINE_SECONDS)


@_fact("watch")
def _watch(place):
    place.put(b"a", b"sentinel", value=b"1")
    transaction = place.begin()
    watch, sentinel = transaction.watch(place.key(b"a")), transaction.watch(place.key(b"sentinel"))
    before = watch.is_ready()
    transaction.commit().wait()
    idle = watch.is_ready()
    place.put(b"a", value=b"1")
    place.put(b"sentinel", value=b"2")
    assert _fires(sentinel)
    same = watch.is_ready()
    place.put(b"a", value=b"2")
    return [
        ["ready before commit", before],
        ["ready when idle", idle],
        ["ready after a set to the same value", same],
        ["ready after a set to another value", _fires(watch)],
    ]


@_fact("watch of a transaction that is reset before commit")
def _watch_reset(place):
    transaction = place.begin()
    watch = transaction.watch(place.key(b"a"))
    transaction.reset()
    return [["wait", place.outcome(watch.wait)]]


@_fact("watch of a key the same transaction then sets")
def _watch_own_write(place):
    transaction = place.begin()
    watch = transaction.watch(place.key(b"a"))
    transaction[place.key(b"a")] = b"1"
    transaction.commit().wait()
    return [["ready after its commit", _fires(watch)]]


@_fact("watch of an absent key")
def _watch_absent(place):
    transaction = place.begin()
    watch = transaction.watch(place.key(b"a"))
    transaction.commit().wait()
    place.put(b"a", value=b"")
    return [["ready after a set to the empty value", _fires(watch)]]


@_fact("does a watch conflict with a write to its key before commit?")
def _watch_conflict(place):
    transaction = place.begin()
    watch = transaction.watch(place.key(b"a"))
    transaction.get_read_version().wait()
    place.put(b"a", value=b"1")
    steps = [["commit", place.outcome(transaction.commit)]]
    watch.cancel()
    return steps


# Conflicts


def _two_commits(place, first, second):
    return [
        ["first commit", place.outcome(first.commit)],
        ["second commit", place.outcome(second.commit)],
    ]


def _read_then_written(writes, place):
    writer, reader = place.begin(), place.begin()
    reader[place.key(b"a")].wait()
    if writes:
        reader[place.key(b"b")] = b""
    writer[place.key(b"a")] = b"1"
    return _two_commits(place, writer, reader)


_FUNCTIONS["read of a key, written by the other"] = partial(_read_then_written, True)
_FUNCTIONS["same, but the reader writes nothing"] = partial(_read_then_written, False)


def _both_write(method, place):
    transactions = [place.begin(), place.begin()]
    for transaction in transactions:
        transaction.get_read_version().wait()
        getattr(transaction, method)(place.key(b"a"), b"\x01")
    return _two_commits(place, *transactions)


_FUNCTIONS["blind writes of one key"] = partial(_both_write, "set")
_FUNCTIONS["atomic adds to one key"] = partial(_both_write, "add")


def _depends_after(own, place):
    """Return how a commit ends that depends on a key after writes of its own, and removes it."""
    place.put(b"a")
    transaction = place.begin()
    transaction.get_read_version().wait()
    key = place.key(b"a")
    for method in own:
        getattr(transaction, method)(key, *([] if method == "clear" else [b""]))
    transaction.add_read_conflict_key(key)
    transaction.clear(key)
    place.put(b"a")
    return place.outcome(transaction.commit)


@_fact("read conflict on a key after own writes to it, written by the other")
def _own_writes(place):
    ways = (
        ["set"],
        ["byte_max"],
        ["byte_max", "byte_max"],
        ["byte_max", "set"],
        ["byte_max", "clear"],
        ["clear", "byte_max"],
    )
    return [[f"commit after {', '.join(own)}", _depends_after(own, place)] for own in ways]


def _limited_read(reverse, inserted, place):
    place.put(b"b", b"d")
    writer, reader = place.begin(), place.begin()
    list(reader.get_range(place.key(b""), place.key(b"\xff"), limit=1, reverse=reverse))
    reader[place.key(b"other")] = b""
    writer[place.key(inserted)] = b""
    return _two_commits(place, writer, reader)


for _name, _reverse, _inserted in (
    ("limit-1 range read, insert after the row returned", False, b"c"),
    ("limit-1 range read, insert before the row returned", False, b"a"),
    ("limit-1 reverse range read, insert before the row returned", True, b"c"),
    ("limit-1 reverse range read, insert after the row returned", True, b"e"),
):
    _FUNCTIONS[_name] = partial(_limited_read, _reverse, _inserted)


def test_every_fact_is_tried():
    """The recording holds 63 facts, and each has its function."""
    assert len(_FACTS) == 63
    assert _FUNCTIONS.keys() == _FACTS.keys()


@pytest.mark.parametrize("name", _FACTS)
def test_fact(aged, engine, prefix, name):
    """What the cluster answered at each step is what the engine answers."""
    assert _FUNCTIONS[name](Place(engine, prefix)) == _FACTS[name]
