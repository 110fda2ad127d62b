"""Ranges between selectors in a transaction with keys that it cannot read before its commit."""

from __future__ import annotations

import pytest

from fdbqueue.engines import embedded
from tests.conformance.replay import Replay
from tests.conformance.stamped_ranges import history

_SEEDS = 500

# What is stored, the writes, the read: begin, end, limit, reverse; and the keys, or the code.
_CASES = [
    # recorded on a cluster
    ("", "stamp d", ("e", True, 0), ("f", False, 0), 0, False, ""),
    ("", "stamp b", ("c", False, 0), ("d", True, 0), 1, False, ""),
    ("de", "stamp e", ("f", False, 0), ("f", True, 0), 0, True, ""),
    ("", "stamp e", ("e", True, 0), ("f", False, 0), 2, True, ""),
    ("ac", "stamp d", ("d", False, 1), ("a", True, 2), 0, False, 1036),
    ("b", "stamp e", ("c", True, -1), ("b", False, 2), 2, False, 1036),
    # worked out from its client
    ("eg", "set g, stamp e", ("b", True, 3), ("e", False, 2), 0, False, ""),
    ("afg", "set b, clear c d, stamp a", ("b", False, 1), ("f", True, -2), 0, False, 1036),
    ("df", "stamp f, clear d e", ("b", True, 3), ("e", False, 3), 0, True, 1036),
    ("ae", "stamp a, clear b e", ("a", True, 0), ("c", True, -2), 0, False, 1036),
    ("ab", "set g, set e, stamp c", ("e", True, -1), ("c", True, 0), 0, True, ""),
    ("ag", "stamp e, stamp a, clear e f, set f", ("b", False, 0), ("g", True, -2), 0, False, 1036),
    ("abdeg", "set c, stamp b, stamp d", ("b", False, 0), ("c", True, 0), 1, False, "a"),
    ("bcf", "read a g, stamp d, set c", ("f", True, -1), ("f", False, 0), 2, False, ""),
]


@pytest.mark.parametrize("case", _CASES, ids=str)
def test_how_far_a_selector_goes(engine, prefix, case):
    """It stops at a key that cannot be read, which is an error only if the answer depends on it."""
    stored, writes, begin, end, limit, reverse, expected = case
    place = prefix + b"case/"

    def key(letter):
        return place + letter.encode()

    setup = engine.database.create_transaction()
    for letter in stored:
        setup[key(letter)] = b"v"
    for number in range(5):  # else a selector may come to other clients' keys
        setup[prefix + b"before%d" % number] = setup[prefix + b"d%d" % number] = b""
    setup.commit().wait()
    transaction = engine.database.create_transaction()
    for write in writes.split(", "):
        verb, *keys = write.split()
        if verb == "stamp":
            transaction.set_versionstamped_value(key(*keys), bytes(14))
        elif verb == "set":
            transaction[key(*keys)] = b"w"
        elif verb == "clear":
            transaction.clear_range(*map(key, keys))
        else:
            list(transaction.get_range(*map(key, keys)))
    selectors = [engine.key_selector(key(letter), *rest) for letter, *rest in (begin, end)]
    try:
        rows = transaction.get_range(*selectors, limit, reverse, -2).to_list()
        found = "".join(row.key[len(place) :].decode() for row in rows)
    except engine.error as error:
        found = error.code
    assert found == expected


def test_random_ranges_are_the_same_on_each_engine(engine, prefix, tmp_path):
    """What this engine answers, the embedded one does; with a cluster, what that does."""
    embedded_one = embedded.Database(str(tmp_path / "queues.sqlite3"), "normal")
    differences, codes = [], set()
    for seed in range(_SEEDS):
        place = b"%07d/" % seed
        recorded = Replay(engine.database, prefix + place, engine.key_selector).recorded(
            history(seed)
        )
        codes |= {step["answer"].get("error") for step in recorded["steps"]}
        again = Replay(embedded_one, place, embedded.KeySelector)
        differences += again.differences(recorded)
    embedded_one.close()
    assert differences == []
    assert {None, 1036} <= codes
