"""When Ctrl-C is held back."""

from __future__ import annotations

import signal

import pytest

from fdbqueue.management.exits import Interrupted
from fdbqueue.management.interrupts import held_interrupts


def test_interrupts_are_held():
    """Ctrl-C waits for a place that lets it in, and a second one for nothing."""
    with held_interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(Interrupted), interrupts.let_in():
            pytest.fail("it was let in")
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_interrupts_are_let_in():
    """Ctrl-C stops at once what is done where it is let in."""
    with held_interrupts() as interrupts, pytest.raises(Interrupted), interrupts.let_in():
        signal.raise_signal(signal.SIGINT)


def test_an_ignored_signal_stays_ignored():
    """Where Ctrl-C is ignored, as behind ``nohup``, nothing changes that."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with held_interrupts() as interrupts, interrupts.let_in():
            signal.raise_signal(signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
