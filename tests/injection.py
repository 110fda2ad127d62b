"""Faults of the engine, and a clock that is ahead, during a block or a function."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from django.conf import settings
from django.test import override_settings

from fdbqueue import conf
from fdbqueue.service import clock
from tests.faulty_database import TIMED_OUT, UNKNOWN_RESULT, FaultyDatabase


@contextlib.contextmanager
def faulty() -> Iterator[FaultyDatabase]:
    """The same queues, through an engine that can fail; ``fdbqueue.queue()`` has it inside."""
    options = {"database": conf.database()}
    setting = {**settings.FDBQUEUE, "ENGINE": "tests.faulty_database", "OPTIONS": options}
    with override_settings(**{conf.SETTING: setting}):
        yield conf.database()


@contextlib.contextmanager
def unknown_outcome(*, took_effect: bool, stays_unknown: bool = False) -> Iterator[FaultyDatabase]:
    """Leave the outcome of the next commit unknown, as a lost connection does.

    Args:
        took_effect: Whether the commit takes effect.
        stays_unknown: Whether the outcome cannot be found out.

    Raises:
        AssertionError: At the end, if there was no such commit: the test tested nothing.
    """
    with faulty() as database:
        code = TIMED_OUT if stays_unknown else UNKNOWN_RESULT
        database.fail_commits(took_effect=took_effect, code=code)
        yield database
        assert database.happened, "nothing was committed, so no outcome was unknown"


@contextlib.contextmanager
def engine_unavailable() -> Iterator[FaultyDatabase]:
    """Make the engine unavailable: every operation raises ``EngineUnavailable``."""
    with faulty() as database:
        database.is_available = False
        yield database


@contextlib.contextmanager
def time_ahead(seconds: float) -> Iterator[None]:
    """Set the clock of the queues ahead, in this process; no popper that waits is woken."""
    clock.set_ahead(int(seconds * 1_000_000))
    try:
        yield
    finally:
        clock.set_ahead(-int(seconds * 1_000_000))
