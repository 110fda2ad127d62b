"""Errors whose text cannot be had, or is of no use: what they are told as, and what goes on."""

from __future__ import annotations

import asyncio
import pickle
import types

import pytest

from fdbqueue.exceptions import (
    InvalidPriority,
    InvalidValue,
    PushInterrupted,
    message_of,
    path_of,
    text_of_error,
    traceback_of,
)
from fdbqueue.service import FifoQueue, Worker
from fdbqueue.service.codecs import BytesCodec


class Unprintable(ValueError):
    """An error whose text cannot be had, for the reason that it is given."""

    def __str__(self):
        if isinstance(self.args[0], BaseException):
            raise self.args[0]
        return self.args[0]


class Endless(ValueError):
    """An error that has no text but its own."""

    def __str__(self):
        return str(self)


def _make():
    return type("Homeless", (ValueError,), {})


#: An exception class that says no module: what makes it is in none, as code that ``exec`` runs.
Homeless = types.FunctionType(_make.__code__, {"type": type, "ValueError": ValueError})()

ERRORS = {
    "no module": (Homeless("lost"), "Homeless: lost"),
    "text fails": (Unprintable(LookupError("no text")), "Unprintable"),
    "text interrupts": (Unprintable(KeyboardInterrupt()), "Unprintable"),
    "text exits": (Unprintable(SystemExit(3)), "Unprintable"),
    "text is a number": (Unprintable(5), "Unprintable"),
    "text never ends": (Endless(), "Endless"),
    "no text": (ValueError(), "ValueError"),
    "lone surrogate": (ValueError("caf\udce9"), r"ValueError: caf\udce9"),
    "long": (ValueError("\u00e9" * 3_000_000), "ValueError: " + "\u00e9" * 988),
    "long surrogates": (ValueError("\udce9" * 3_000), "ValueError: " + r"\udce9" * 164 + "\\udc"),
    "not an exception": (KeyboardInterrupt("now"), "KeyboardInterrupt: now"),
}
errors = pytest.mark.parametrize(("error", "text"), ERRORS.values(), ids=ERRORS)


@pytest.fixture
def queue(database, subspace):
    """A queue of one item, which dies when it is given up."""
    queue = FifoQueue(database, subspace, max_attempts=1)
    queue.push("x")
    return queue


def dead_of(queue):
    """Return what the only item of a queue died of."""
    assert queue.counts().leased == queue.counts().ready == 0
    (dead,) = queue.page(state="dead").items
    return dead.reason


@errors
def test_a_text_can_always_be_had(error, text):
    """It is what an error says, short and fit for UTF-8, or the name of its type."""
    assert text_of_error(error) == text
    assert len(text.encode()) <= 2_000


@errors
def test_a_message_is_the_text_without_the_type(error, text):
    """Where there is no message, the type says what it was."""
    kind, _, message = text.partition(": ")
    found = message_of(error)
    assert found.startswith(message or kind)
    assert len(found) <= 1_000


def test_an_error_of_ours_shows_what_it_can():
    """A value that cannot be shown, in an error's context, is named by its type."""

    class Shy:
        def __repr__(self):
            raise LookupError

    assert str(InvalidPriority(queue="mail", priority=Shy())).endswith(
        "queue='mail', priority=<Shy>"
    )


@errors
def test_a_block_gives_up_its_item(queue, error, text):
    """Whatever the error, it goes through, and the item is not leased any more."""
    with pytest.raises(type(error)) as caught, queue.leased():
        raise error
    assert caught.value is error
    assert dead_of(queue) == text_of_error(error)


@errors
def test_a_block_in_an_event_loop_gives_up_its_item(queue, error, text):
    """As in any thread."""

    async def work():
        async with queue.aleased():
            raise error

    with pytest.raises(type(error)) as caught:
        asyncio.run(work())
    assert caught.value is error
    assert dead_of(queue) == text_of_error(error)


@errors
def test_a_worker_goes_on(queue, error, text):
    """The item that a function failed on is given up, and counted."""

    def fail(_):
        raise error

    worker = Worker(queue, fail)
    worker.run()
    assert (worker.failed, dead_of(queue)) == (1, text_of_error(error))


def test_a_codec_may_raise_what_it_wants(database, subspace):
    """Of its ValueErrors the text matters, and is not needed."""

    class Picky(BytesCodec):
        def encode(self, value, pushed_at, attempts):
            raise Unprintable(LookupError("no text"))

        def decode(self, data):
            raise Unprintable("no \udce9")

    FifoQueue(database, subspace, codec="bytes").push(b"x")
    queue = FifoQueue(database, subspace, codec=Picky())
    with pytest.raises(InvalidValue) as caught:
        queue.push(b"y")
    assert caught.value.context["reason"] == "Unprintable"
    assert queue.page().items[0].value.reason == r"no \udce9"


def test_an_error_whose_class_has_no_module_is_told_with_its_frames():
    """Python's own function raises for it; its name, its text and where it was raised are told."""
    try:
        raise Homeless("what the reader needs")
    except ValueError as error:
        text, path = traceback_of(error), path_of(type(error))
    assert path == "Homeless"
    assert text.startswith("Traceback (most recent call last):\n")
    assert 'raise Homeless("what the reader needs")' in text
    assert text.endswith("Homeless: what the reader needs\n")


def test_an_error_whose_frames_cannot_be_had_is_told_without():
    """Whatever its own attributes raise."""

    class Hiding(ValueError):
        @property
        def __traceback__(self):
            raise LookupError

    assert traceback_of(Hiding("why")) == f"{__name__}.{Hiding.__qualname__}: why\n"


def test_an_error_of_another_process_says_what_is_known():
    """A pool of processes pickles it: with what is noted on it, not only what it was made of."""
    error = PushInterrupted(queue="mail", pushed=3)
    error.outcome_known = True
    copied = pickle.loads(pickle.dumps(error))
    assert (str(copied), vars(copied)) == (str(error), vars(error))
