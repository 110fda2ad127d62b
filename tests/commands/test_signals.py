"""Where Ctrl-C is deferred, and where it is allowed."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import pytest

from fdbqueue.management.exit_codes import Interrupted
from fdbqueue.management.signals import defer_interrupts, handled


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


def end_of(process):
    """Return how a process has ended: its exit code, or a signal's number below 0."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def test_a_process_that_is_forked_meanwhile():
    """It handles signals as before, also one that comes at once, wherever it was forked."""
    with defer_interrupts(terminations=True, second_terminations=True) as interrupts:
        for block in (contextlib.nullcontext(), interrupts.allowed()):
            with block:
                child = os.fork()
                if child == 0:
                    time.sleep(60)
                    os._exit(1)
                os.kill(child, signal.SIGTERM)
                assert end_of(child) == -signal.SIGTERM
        assert signal.getsignal(signal.SIGTERM) == interrupts.receive
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()


def test_what_else_is_undone_in_a_forked_process():
    """The file descriptor that is told of signals; and a block that ends there undoes no more."""
    readable, wakened = os.pipe()
    os.set_blocking(wakened, False)
    with handled({signal.SIGURG: lambda *_: None}, wakened=wakened):
        child = os.fork()
        if child == 0:
            is_as_before = signal.set_wakeup_fd(-1) == -1
            is_as_before &= signal.getsignal(signal.SIGURG) is signal.SIG_DFL
            os._exit(0 if is_as_before else 1)
        assert end_of(child) == 0
        signal.raise_signal(signal.SIGURG)
        assert os.read(readable, 10) == bytes([signal.SIGURG])
    assert signal.set_wakeup_fd(-1) == -1
    assert signal.getsignal(signal.SIGURG) is signal.SIG_DFL
    for descriptor in (readable, wakened):
        os.close(descriptor)
