"""What a transaction of the embedded engine keeps of its writes until it commits."""

from __future__ import annotations

import itertools

import pytest

from fdbqueue.engines.embedded.write_buffer import WriteBuffer

_PARAMS = (b"\x01", b"\xff", b"\x01\x00", b"\xff\xff", b"\x05\x00\x00\x00\x00\x00\x00\x00", b"")


@pytest.mark.parametrize("stored", [None, b"", b"\xff", b"\xfe\xff", b"\x01" * 9])
def test_additions_in_a_row(database, put, stored):
    """Additions kept together give what each gives alone, in a commit of its own."""
    kept, alone = {}, {}
    for number, params in enumerate(itertools.product(_PARAMS, repeat=3)):
        kept[b"kept%d" % number] = alone[b"alone%d" % number] = params
    if stored is not None:
        put(dict.fromkeys([*kept, *alone], stored))
    transaction = database.create_transaction()
    for key, params in kept.items():
        for param in params:
            transaction.add(key, param)
    read = [bytes(transaction[key]) for key in kept]
    transaction.commit().wait()
    for turn in range(3):
        transaction = database.create_transaction()
        for key, params in alone.items():
            transaction.add(key, params[turn])
        transaction.commit().wait()
    transaction = database.create_transaction()
    expected = [bytes(transaction[key]) for key in alone]
    assert read == [bytes(transaction[key]) for key in kept] == expected


def test_additions_of_one_length_are_one():
    """A thousand additions to a key cost its reads, and the commit, no more than one."""
    writes = WriteBuffer()
    for _ in range(1_000):
        writes.write("add", b"count", (1).to_bytes(8, "little"), 0)
    assert writes.mutations() == [("add", b"count", (1_000).to_bytes(8, "little"))]
