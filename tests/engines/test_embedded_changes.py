"""What the embedded engine's commits make of their mutations, against a plain-Python model."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from fdbqueue.engines.embedded import commit_groups
from tests.engines.alone import alone

_keys = st.sampled_from([b"%c" % letter for letter in b"abcdefgh"])
_numbers = st.binary(min_size=1, max_size=2)
_mutations = st.lists(
    st.one_of(
        st.tuples(st.just("set"), _keys, _numbers),
        st.tuples(st.just("clear"), _keys),
        st.tuples(st.just("clear_range"), _keys, _keys),
        st.tuples(st.just("add"), _keys, _numbers),
        st.tuples(st.just("append_if_fits"), _keys, _numbers),
        st.tuples(st.just("byte_max"), _keys, _numbers),
        st.tuples(st.just("compare_and_clear"), _keys, _numbers),
    ),
    max_size=12,
)


def _apply(rows, name, key, *arguments):
    stored = rows.get(key)
    if name == "clear" or (name == "compare_and_clear" and stored == arguments[0]):
        rows.pop(key, None)
    elif name == "clear_range":
        for cleared in [row for row in rows if key <= row < arguments[0]]:
            del rows[cleared]
    elif name == "add" and stored is not None:
        size = len(arguments[0])
        total = sum(int.from_bytes(part[:size], "little") for part in (stored, arguments[0]))
        rows[key] = (total % 256**size).to_bytes(size, "little")
    elif name == "append_if_fits":
        rows[key] = (stored or b"") + arguments[0]
    elif name == "byte_max":
        rows[key] = max(stored or b"", arguments[0])
    elif name in ("set", "add"):
        rows[key] = arguments[0]


def _rows(database):
    return dict(alone(database).get_range(b"", b"\xff"))


@settings(max_examples=200, deadline=None)
@given(
    commits=st.lists(st.tuples(_mutations, st.booleans()), min_size=1, max_size=5),
    searched=st.sampled_from([0, 250]),
)
def test_a_group_of_commits(shared, commits, searched):
    """Commits made together do what they would one after another, and so does the next one."""
    alone(shared).clear_range(b"", b"\xff")
    with patch.object(commit_groups, "_SEARCHED_KEYS", searched):
        model = _committed(shared, commits)
    assert _rows(shared) == model
    after = [("add", b"%c" % letter, b"\x01\x01") for letter in b"abcdefgh"]
    model = _committed(shared, [(after, True)], model)
    assert _rows(shared) == model


def _committed(shared, commits, model=None):
    """Make commits in one group, and return what they make of a model."""
    model = {} if model is None else model
    transactions = []
    for mutations, read_your_writes in commits:
        transactions.append(shared.create_transaction())
        if not read_your_writes:
            transactions[-1].options.set_read_your_writes_disable()
        for name, *arguments in mutations:
            if name == "clear_range":
                arguments.sort()
            getattr(transactions[-1], name)(*arguments)
            _apply(model, name, *arguments)
    for future in [transaction.commit() for transaction in transactions]:
        future.wait()
    return model


def test_many_operations_in_one_commit(database):
    """Operations on more keys than one statement takes, old keys and new ones, all apply."""
    keys = [b"%03d" % number for number in range(100)]
    for start in (0, 50):
        transaction = database.create_transaction()
        for key in keys[start:]:
            transaction.add(key, b"\x01")
        transaction.commit().wait()
    expected = {key: b"\x01" if key < b"050" else b"\x02" for key in keys}
    assert _rows(database) == expected
    transaction = database.create_transaction()
    for key in keys[:70]:
        transaction.compare_and_clear(key, b"\x01")
    transaction.commit().wait()
    assert _rows(database) == dict.fromkeys(keys[50:], b"\x02")


def test_stamps_among_operations(database):
    """Stamped keys and values of one group hold their own commit's stamp."""
    transactions = [database.create_transaction() for _ in range(3)]
    for transaction in transactions:
        transaction.add(b"count", b"\x01")
        transaction.set_versionstamped_key(b"log/" + bytes(10) + b"\x04\x00\x00\x00", b"")
        transaction.set_versionstamped_value(b"last", bytes(14))
    stamps = [transaction.get_versionstamp() for transaction in transactions]
    for future in [transaction.commit() for transaction in transactions]:
        future.wait()
    logged = {b"log/" + bytes(stamp): b"" for stamp in stamps}
    assert _rows(database) == {b"count": b"\x03", b"last": bytes(stamps[-1]), **logged}
