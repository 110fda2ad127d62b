"""The json codec writes and reads what the tuple layer would, byte for byte."""

from __future__ import annotations

import json

import fdb.tuple
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fdbqueue.service.codecs import JsonCodec
from tests.cases import cases

NOW = 1_790_000_000_000_000

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")),
    lambda children: st.lists(children) | st.dictionaries(st.text("ab\x00é"), children),
)


@given(JSON, st.integers(0, 2**60), st.integers(0, 2**30))
@example("\x00\xff", NOW, 0)
@example("", NOW, 0)
@example(0, 2**48, 0)
@example(0, 2**48 - 1, 0)
@example(0, 2**56 - 1, 1)
@example(0, 2**56, 0)
@example("x", 0, 0)
def test_what_is_written(value, pushed_at, attempts):
    """It is the packed tuple of the JSON text, the time and the attempts, and is read again."""
    data = JsonCodec().encode(value, pushed_at, attempts)
    text, *metadata = fdb.tuple.unpack(data)
    assert metadata == [pushed_at, attempts]
    assert fdb.tuple.pack((text, pushed_at, attempts)) == data
    stored = JsonCodec().decode(data)
    assert stored.value == value
    assert stored.attempts == attempts
    assert stored.pushed_at == (pushed_at if pushed_at < 250_000_000_000_000_000 else None)


@cases(
    ("elements", "expected"),
    [
        (("1",), (1, None, 0)),
        (("1", NOW), (1, NOW, 0)),
        (("1", NOW, 3), (1, NOW, 3)),
        (("1", NOW, 0, "more"), (1, NOW, 0)),
        (("1", "x", NOW, 0), (1, None, 0)),
        (("1", "x", 5), (1, None, 5)),
        (("1", 2**56 - 1, 0), (1, 2**56 - 1, 0)),
        (('"\\u0000"', NOW, 0), ("\x00", NOW, 0)),
    ],
)
def test_what_others_wrote(elements, expected):
    """A tuple of another shape is read as far as it goes."""
    stored = JsonCodec().decode(fdb.tuple.pack(elements))
    assert (stored.value, stored.pushed_at, stored.attempts) == expected


@cases(
    "data",
    [
        b"",
        b"\x14",
        b"\x02",
        b"\x02\xff\x00" + fdb.tuple.pack((NOW, 0)),
        b"\x02oops\x00" + fdb.tuple.pack((NOW, 0)),
        b"\x021\x00\xff\x00" + fdb.tuple.pack((NOW, 0)),
        fdb.tuple.pack((b"1", NOW, 0)),
        fdb.tuple.pack((NOW, 0)),
        b"\x1b" * 9,
        b"\x02" + fdb.tuple.pack((NOW, 0)),
    ],
)
def test_what_cannot_be_read(data):
    """Anything else is an error that queues report, and never a wrong value."""
    with pytest.raises((ValueError, TypeError)):
        JsonCodec().decode(data)


@cases(
    ("data", "pushed_at"),
    [
        (b"\x02oops\x00" + fdb.tuple.pack((NOW, 0)), NOW),
        (b"\x02oops\x00" + fdb.tuple.pack((NOW, 7)), NOW),
        (b"\x02\xff\x00" + fdb.tuple.pack((NOW, 0)), NOW),
        (fdb.tuple.pack((b"1", NOW, 0)), NOW),
        (b"", None),
        (b"\xff", None),
        (b"\x02\xff\x00" + fdb.tuple.pack((NOW, 7)), None),
        (b"\x02\xff\x00" + fdb.tuple.pack((2**56 - 1, 0)), 2**56 - 1),
        (b"\x02oops\x00" + fdb.tuple.pack((2**60, 0)), None),
        (b"\x02oops\x00" + fdb.tuple.pack(("late", 0)), None),
        (b"\x02oops\x00", None),
    ],
)
def test_when_what_cannot_be_read_was_pushed(data, pushed_at):
    """The time is read from behind the text, where it is there; else it is not known."""
    assert JsonCodec().pushed_at(data) == pushed_at


class _Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "value",
    [
        'a\u2028"\\\n\x00é😀',
        _Text("b"),
        1e300,
        -0.0,
        10**30,
        True,
        None,
        [],
        {_Text("k"): (1, [{}])},
    ],
)
def test_the_text_is_what_json_writes(value):
    """The encoder in C that is kept writes what ``json.dumps`` does."""
    expected = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    assert fdb.tuple.unpack(JsonCodec().encode(value, 0, 0))[0] == expected


@pytest.mark.parametrize("value", [float("nan"), [float("-inf")], {1}, [b"x"], {"a": object()}])
def test_what_json_lacks_is_refused_as_json_does(value):
    """With the same error, so that the user reads the same reason."""
    errors = []
    for encode in (
        lambda: JsonCodec().encode(value, 0, 0),
        lambda: json.dumps(value, allow_nan=False),
    ):
        with pytest.raises((ValueError, TypeError)) as caught:
            encode()
        errors.append((caught.type, str(caught.value)))
    assert errors[0] == errors[1]
