"""What is packed and unpacked by hand is what the tuple layer makes of it."""

from __future__ import annotations

import math
import struct

import fdb.tuple
import pytest
from fdb.subspace_impl import Subspace
from hypothesis import example, given
from hypothesis import strategies as st

from fdbqueue.service.storage.item_keys import (
    RANDOM_BYTES,
    TAG_BYTES,
    UNTIL_DONE,
    UNTIL_TAKEN,
    FifoKeys,
    PriorityKeys,
    packed,
    packed_number,
)
from tests.cases import cases

INTEGERS = st.integers(-(2**70), 2**70) | st.sampled_from(
    [
        number + change
        for bits in (0, 8, 16, 56, 63, 64)
        for number in [2**bits]
        for change in (-1, 0)
    ]
)
FLOATS = st.floats(allow_nan=False)
BYTES = st.binary(max_size=30) | st.lists(st.sampled_from([b"\x00", b"\xff", b"a"])).map(b"".join)
RANDOMS = st.binary(min_size=RANDOM_BYTES, max_size=RANDOM_BYTES) | st.just(bytes(RANDOM_BYTES))
DIGESTS = st.binary(min_size=TAG_BYTES - 1, max_size=TAG_BYTES - 1)
KEYED = st.builds(bytes.__add__, RANDOMS, DIGESTS.map(b"\x01".__add__))
KEYS = [FifoKeys(Subspace(("fifo",))), PriorityKeys(Subspace(("priority",)))]


def comparable(position):
    """A position with a float's bytes in its place: NaN is no number's equal, nor its own."""
    return tuple(struct.pack(">d", part) if type(part) is float else part for part in position)


def by_the_tuple_layer(keys, place):
    """What the tuple layer says of a place, or the type of its refusal."""
    try:
        elements = list(fdb.tuple.unpack(place))
    except Exception:  # noqa: BLE001  # whatever byte it stumbles over
        return None
    priority = elements.pop(0) if keys.has_priorities and elements else None
    is_usual = len(elements) == 2 and type(elements[0]) is int
    if keys.has_priorities and type(priority) not in (int, float):
        return None
    if not is_usual:
        return None
    random = elements[1] if isinstance(elements[1], bytes) else b""
    is_keyed = len(random) == RANDOM_BYTES + TAG_BYTES and random[RANDOM_BYTES] in (1, 2)
    return priority, elements[0], 1, random[RANDOM_BYTES:] if is_keyed else b""


@given(INTEGERS | FLOATS | BYTES | st.text() | st.none() | st.booleans())
def test_an_element_is_packed_as_the_tuple_layer_does(element):
    """Whatever the element, its bytes are those of ``fdb.tuple.pack``."""
    assert packed(element) == fdb.tuple.pack((element,))


@cases("number", [0, 0.0, -0.0, 1, 1.0, -1, True, 2**70])
def test_numbers_that_are_equal_are_packed_each_by_its_type(number):
    """Also those that were packed before, and the two zeros."""
    for one in (number, -number, number):
        assert packed_number(one) == fdb.tuple.pack((one,))


@given(INTEGERS | FLOATS, st.integers(0, 2**64 - 1), BYTES, st.integers(1, 100))
@example(0, 2**64 - 1, b"", 1)
def test_a_place_is_packed_as_the_recipes_do(priority, index, random, chunks):
    """A place is the tuple of the recipe, with the number of chunks where there are more."""
    fifo, ranked = KEYS
    more = () if chunks == 1 else (chunks,)
    assert fifo.place(None, index, random, chunks).data == fdb.tuple.pack((index, random, *more))
    place = ranked.place(priority, index, random, chunks).data
    assert place == fdb.tuple.pack((priority, index, random, *more))
    found = ranked.position(place)
    assert (found.priority, found.sequence, found.chunks) == (priority, index, chunks)
    assert type(found.priority) is type(priority)
    assert math.copysign(1, found.priority) == math.copysign(1, priority)
    is_usual = chunks == 1 and index < 2**64 - 1  # whose packed form has its length
    usual = index if is_usual else None
    assert ranked.usual_sequence(ranked.key(place), priority) == usual


@pytest.mark.parametrize("keys", KEYS, ids=["fifo", "priority"])
@pytest.mark.parametrize("chunks", [1, 7])
@given(RANDOMS, st.sampled_from([UNTIL_TAKEN, UNTIL_DONE]), DIGESTS)
def test_a_place_names_the_unique_key_of_its_item(keys, chunks, random, kept, digest):
    """In the recipes' order behind the random bytes, in commit order behind the chunks."""
    priority = 3 if keys.has_priorities else None
    tag = kept + digest
    assert keys.position(keys.place(priority, 5, random, chunks).data).tag == b""
    found = keys.position(keys.place(priority, 5, random + tag, chunks).data)
    assert found == (priority, 5, chunks, tag)
    place = keys.place_in_commit_order(priority, chunks, tag).stamped(bytes(range(10)))
    found = keys.position(place)
    assert (found.priority, found.chunks, found.tag) == (priority, chunks, tag)
    place = keys.place_in_commit_order(priority, chunks).stamped(bytes(range(10)))
    assert keys.position(place).tag == b""


@cases("keys", KEYS)
@cases("more", [7, b"", b"x" * 21, b"\x01" * 20, b"\x02" * 22, "text", None])
def test_what_stands_in_place_of_a_mark_makes_a_place_foreign(keys, more):
    """Or it would be an item's place that no push writes."""
    priority = 1 if keys.has_priorities else None
    in_commit_order = keys.place_in_commit_order(priority).stamped(bytes(10))
    counted = keys.place(priority, 5, bytes(20)).data
    for place in (
        in_commit_order + fdb.tuple.pack((1, more)),
        counted + fdb.tuple.pack((1, more)),
        counted + fdb.tuple.pack((1, b"\x01" * 21)),
    ):
        with pytest.raises(ValueError, match="elements"):
            keys.position(place)


@pytest.mark.parametrize("keys", KEYS, ids=["fifo", "priority"])
@given(
    st.lists(INTEGERS | st.floats() | BYTES | KEYED, max_size=4),
    st.integers(0, 60),
    st.sampled_from([b"", b"\x00", b"\xff", b"\x01", b"\x00\xff", b"\x15", b"\x21"]),
)
def test_a_foreign_place_is_read_as_the_tuple_layer_does(keys, elements, cut, inserted):
    """Bytes that were changed anywhere are never read as another place than they are."""
    data = fdb.tuple.pack(tuple(elements))
    for place in (data, data[:cut], data[:cut] + inserted + data[cut:]):
        expected = by_the_tuple_layer(keys, place)
        try:
            found = tuple(keys.position(place))
        except (ValueError, TypeError):
            assert expected is None or not isinstance(fdb.tuple.unpack(place)[-1], bytes)
            continue
        if expected is not None:
            assert comparable(found) == comparable(expected)
