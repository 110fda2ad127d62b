"""Bad input: a clear error of the tree that names the queue, and nothing written."""

from __future__ import annotations

import decimal
import math
import uuid

import fdb.tuple
import pytest
from fdb.subspace_impl import Subspace

from fdbqueue.exceptions import (
    CorruptItem,
    InvalidInput,
    InvalidPriority,
    InvalidValue,
    KeyTooLarge,
    QueueNotFound,
    ValueTooLarge,
)
from fdbqueue.service import Catalog, FifoQueue, QueueSpec
from tests.cases import cases

NOT_NUMBERS = [None, True, False, "1", b"1", [], {}, 1j, decimal.Decimal(1)]


def cycle():
    """Return a list that contains itself."""
    found = []
    found.append(found)
    return found


def deep(depth=100_000):
    """Return a list nested too deeply to encode."""
    found = []
    for _ in range(depth):
        found = [found]
    return found


@cases("priority", [*NOT_NUMBERS, math.nan, math.inf, -math.inf, 2**63])
@cases("queue", ["ints", "floats"])
def test_a_priority_must_be_a_finite_number(request, queue, priority, rows):
    """No type of queue takes it, the error names both, and nothing is written."""
    found = request.getfixturevalue(queue)
    with pytest.raises(InvalidPriority) as caught:
        found.push("x", priority)
    assert caught.value.context["queue"] == queue
    assert queue in str(caught.value)
    assert rows() == []


@pytest.mark.parametrize("priority", [0.5, -1.25, 1e300])
def test_an_int_queue_takes_no_fraction_and_nothing_beyond_64_bits(ints, rows, priority):
    """The integer that a float equals is taken, others are refused."""
    assert ints.push("fits", 3.0).priority == 3
    ints.clear()
    with pytest.raises(InvalidPriority):
        ints.push("x", priority)
    assert rows() == []


def test_a_float_queue_takes_only_integers_that_a_float_equals(floats):
    """2**53 is a float, 2**53 + 1 is not."""
    assert floats.push("x", 2**53).priority == 2.0**53
    with pytest.raises(InvalidPriority):
        floats.push("x", 2**53 + 1)


def test_a_fifo_queue_takes_no_priority(fifo, rows):
    """A priority would be lost, so it is refused."""
    with pytest.raises(InvalidPriority):
        fifo.push("x", 1)
    assert rows() == []


@cases(
    "value",
    [
        math.nan,
        math.inf,
        b"bytes",
        {1, 2},
        {1: "not a string"},
        {"a": [{None: 1}]},
        object(),
        "\ud800",
        cycle(),
        deep(),
        10**5000,
        uuid.UUID(int=1),
    ],
)
def test_what_json_lacks_is_refused(fifo, rows, value):
    """The error names the queue and the reason."""
    with pytest.raises(InvalidValue) as caught:
        fifo.push(value)
    assert caught.value.context["queue"] == "fifo"
    assert caught.value.context["reason"]
    assert rows() == []


@pytest.mark.parametrize("kind", ["list", "dict"])
def test_json_may_be_nested_200_levels_deep_and_no_more(fifo, rows, kind):
    """What is pushed can be read wherever the stack stands; deeper values are refused."""

    def nested(levels):
        value = "core"
        for _ in range(levels):
            value = [value] if kind == "list" else {"a": value}
        return value

    fifo.push(nested(200))
    assert fifo.pop().value == nested(200)
    with pytest.raises(InvalidValue):
        fifo.push(nested(201))
    assert rows() == []


@pytest.mark.parametrize("value", ["text", 1, None, [1], {}])
def test_a_bytes_queue_takes_bytes_alone(database, subspace, rows, value):
    """Nothing is converted behind the pusher's back."""
    with pytest.raises(InvalidValue):
        FifoQueue(database, subspace, codec="bytes").push(value)
    assert rows() == []


@cases(
    "value", [None, b"\x00\xff", "\u00e9", 2**80, -5, 1.5, True, uuid.UUID(int=7), (1, (2, b"x"))]
)
def test_tuple_values_come_back_exactly(database, subspace, value):
    """What the tuple layer can hold is what was pushed."""
    queue = FifoQueue(database, subspace, codec="tuple")
    queue.push(value)
    assert queue.pop().value == value


@pytest.mark.parametrize("value", [{}, {1}, object(), cycle()], ids=lambda v: type(v).__name__)
def test_what_the_tuple_layer_lacks_is_refused(database, subspace, rows, value):
    """The error is ours, not the tuple layer's."""
    with pytest.raises(InvalidValue):
        FifoQueue(database, subspace, codec="tuple").push(value)
    assert rows() == []


def test_a_value_may_be_100000_bytes_and_no_more(database, subspace, rows):
    """The limit is of the encoded value; the error names the queue, the size and the limit."""
    queue = FifoQueue(database, subspace, codec="bytes", name="big")
    queue.push(bytes(100_000))
    assert len(queue.pop().value) == 100_000
    with pytest.raises(ValueTooLarge) as caught:
        queue.push(bytes(100_001))
    assert caught.value.context == {"queue": "big", "size_bytes": 100_001, "limit_bytes": 100_000}
    assert rows() == []


def test_a_key_may_be_10000_bytes_and_no_more(database, subspace, rows):
    """A subspace whose prefix leaves no room for a key is refused at the push."""
    long = Subspace(rawPrefix=subspace.key() + b"x" * 9_990)
    with pytest.raises(KeyTooLarge) as caught:
        FifoQueue(database, long, name="deep").push("x")
    assert caught.value.context["queue"] == "deep"
    assert caught.value.context["limit_bytes"] == 10_000
    assert rows() == []


@pytest.mark.parametrize(
    "stored",
    [b"", b"\xff\xff\xff", b"\x02not json\x00", b"\x15\x01", b"\x02[1,\x00", b"\x02NaN\x00"],
)
def test_a_corrupt_value_stops_the_pop_and_stays(ints, database, subspace, rows, stored):
    """Peek and pop name the queue and the item; what is stored is not touched."""
    transaction = database.create_transaction()
    transaction[subspace.pack((1, 0, b"r"))] = stored
    transaction.commit().wait()
    before = rows()
    for operation in (ints.pop, ints.pop_max, ints.peek, lambda: ints.pop_many(5)):
        with pytest.raises(CorruptItem) as caught:
            operation()
        assert caught.value.context["queue"] == "ints"
        assert caught.value.context["id"] == ints.page().items[0].id
    assert rows() == before


@pytest.mark.parametrize(
    "key",
    [
        (),
        (1,),
        (1, 2),
        (1, 2, b"r", 4),
        ("text", 0, b"r"),
        (1, "text", b"r"),
        (True, 0, b"r"),
        (1, True, b"r"),
    ],
)
def test_a_foreign_key_stops_the_pop_and_stays(ints, database, subspace, rows, key):
    """A key that is no item's is reported, not guessed at."""
    transaction = database.create_transaction()
    transaction[subspace.pack(key) + (b"" if key else b"\x15")] = b"\x02[]\x00"
    transaction.commit().wait()
    before = rows()
    with pytest.raises(CorruptItem):
        ints.pop()
    assert rows() == before


@pytest.mark.parametrize("items", [[1], ["ab"], [("x",)], [("x", 1, 2)], [None]])
def test_push_many_takes_pairs_alone(ints, rows, items):
    """A priority queue's items are (value, priority), and a string is no pair."""
    with pytest.raises(InvalidInput):
        ints.push_many(items)
    assert rows() == []


@cases("name", [None, 1, b"mail", [], {}, True, "", "user-*"])
def test_what_is_no_name_names_no_queue(database, subspace, name):
    """It is the error of a name that no queue has."""
    specs = [QueueSpec("mail", "fifo"), QueueSpec("user-*", "fifo")]
    catalog = Catalog(database, fdb.tuple.unpack(subspace.key()), specs)
    with pytest.raises(QueueNotFound):
        catalog.queue(name)
    with pytest.raises(QueueNotFound):
        catalog.spec(name)
