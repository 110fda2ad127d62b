"""Where Ctrl-C is deferred, and where it is allowed."""

from __future__ import annotations

import contextlib
import signal

import pytest

from fdbqueue.management.exit_codes import Interrupted
from fdbqueue.management.signals import defer_interrupts


def test_interrupts_are_deferred():
    """Ctrl-C waits for a block that allows it; a second one does not wait."""
    with defer_interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(Interrupted), interrupts.allowed():
            pytest.fail("it was not deferred")
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_interrupts_are_allowed():
    """Ctrl-C stops at once a block that allows it."""
    with defer_interrupts() as interrupts, pytest.raises(Interrupted), interrupts.allowed():
        signal.raise_signal(signal.SIGINT)


def test_an_ignored_signal_stays_ignored():
    """Where Ctrl-C is ignored, as behind ``nohup``, nothing changes that."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with defer_interrupts() as interrupts, interrupts.allowed():
            signal.raise_signal(signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_second_termination():
    """It is deferred as the first was, unless it is to count as a second Ctrl-C."""
    with defer_interrupts(terminations=True) as interrupts:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert interrupts.is_terminated
    with defer_interrupts(terminations=True, second_terminations=True):
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)


def signalled(times):
    """Send a signal some number of times."""
    for _ in range(times):
        signal.raise_signal(signal.SIGINT)


def test_a_second_one_right_behind_the_first():
    """It is not taken for the first one, which is just leaving the block that allows it."""
    behind = contextlib.ExitStack()
    behind.callback(signalled, 1)
    raises = pytest.raises(KeyboardInterrupt)
    with defer_interrupts() as interrupts, raises, interrupts.allowed(), behind:
        signalled(1)
