"""What is packed and unpacked by hand is what the tuple layer makes of it."""

from __future__ import annotations

import math
import struct

import fdb.tuple
import pytest
from fdb.subspace_impl import Subspace
from hypothesis import given
from hypothesis import strategies as st

from fdbqueue.service import tuples
from fdbqueue.service.storage.item_keys import FifoKeys, ItemKeys, PriorityKeys

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
KEYS = [FifoKeys(Subspace(("fifo",))), PriorityKeys(Subspace(("priority",)))]


def comparable(position: tuple[object, ...]) -> tuple[object, ...]:
    """A position with a float's bytes in its place: NaN is no number's equal, nor its own."""
    return tuple(struct.pack(">d", part) if type(part) is float else part for part in position)


def by_the_tuple_layer(keys: ItemKeys, place: bytes) -> object:
    """What the tuple layer says of a place, or the type of its refusal."""
    try:
        elements = list(fdb.tuple.unpack(place))
    except Exception:  # noqa: BLE001  # whatever byte it stumbles over
        return None
    priority = elements.pop(0) if keys.has_priorities and elements else None
    is_usual = len(elements) == 2 and type(elements[0]) is int
    if keys.has_priorities and type(priority) not in (int, float):
        return None
    return (priority, elements[0], 1) if is_usual else None


@given(INTEGERS | FLOATS | BYTES | st.text() | st.none() | st.booleans())
def test_an_element_is_packed_as_the_tuple_layer_does(element):
    """Whatever the element, its bytes are those of ``fdb.tuple.pack``."""
    assert tuples.packed(element) == fdb.tuple.pack((element,))


@given(INTEGERS | FLOATS, st.integers(0, 2**64 - 1), BYTES, st.integers(1, 100))
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


@pytest.mark.parametrize("keys", KEYS, ids=["fifo", "priority"])
@given(
    st.lists(INTEGERS | st.floats() | BYTES, max_size=4),
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
