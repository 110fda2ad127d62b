"""Faults of the engine, and a clock that is ahead, during a block or a function."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from django.conf import settings
from django.test.utils import TestContextDecorator, override_settings

from fdbqueue import conf
from fdbqueue.service import clock
from fdbqueue.testing.faults import TIMED_OUT, UNKNOWN_RESULT, FaultyDatabase


class _Injection(TestContextDecorator):
    """The same queues, through an engine that can fail.

    Raises:
        ConfigurationError: The setting is wrong.
    """

    def __enter__(self) -> FaultyDatabase:  # type: ignore[override]  # Django says: apps
        return self.enable()

    def enable(self) -> FaultyDatabase:
        """Begin, and return the database that fails."""
        options = {"database": conf.database()}
        setting = {**settings.FDBQUEUE, "ENGINE": "fdbqueue.testing.faults", "OPTIONS": options}
        self._override = override_settings(**{conf.SETTING: setting})
        self._override.enable()
        database: FaultyDatabase = conf.database()
        self._inject(database)
        self._database = database
        return database

    def disable(self) -> None:
        """Go back to the setting."""
        self._override.disable()

    def _inject(self, database: FaultyDatabase) -> None:
        raise NotImplementedError


class unknown_outcome(_Injection):  # noqa: N801  # as override_settings
    """Leave the outcome of the next commit unknown, as a lost connection does.

    It affects the next commit that writes something, whichever thread makes it. Call
    ``fdbqueue.queue()`` inside: a queue object made before is not affected.

    If the outcome can be found out, fdbqueue finds it out and your code notices nothing: a
    function under ``transactional`` runs again only if it has to. With ``stays_unknown`` it
    cannot be found out, and the operation raises ``OutcomeUnknown``.

    Args:
        took_effect: Whether the commit takes effect.
        stays_unknown: Whether the outcome cannot be found out.

    On a test case it applies to each test, from before ``setUp`` on.

    Raises:
        AssertionError: At the end, if there was no such commit: the test tested nothing.
    """

    def __init__(self, *, took_effect: bool, stays_unknown: bool = False) -> None:
        super().__init__()
        self._took_effect = took_effect
        self._code = TIMED_OUT if stays_unknown else UNKNOWN_RESULT

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        super().__exit__(exc_type, exc_value, traceback)
        if exc_type is None:
            self._check(self._database)

    def decorate_class(self, cls: type[Any]) -> type[Any]:
        """Decorate a test case: each of its tests must have such a commit."""
        set_up = cls.setUp

        def set_up_and_check(case: Any) -> None:
            case.addCleanup(self._check, self._database)  # the database of this test
            set_up(case)

        cls.setUp = set_up_and_check
        decorated: type[Any] = super().decorate_class(cls)  # which begins first
        return decorated

    def _check(self, database: FaultyDatabase) -> None:
        if not database.happened:
            raise AssertionError("nothing was committed, so no outcome was unknown")

    def _inject(self, database: FaultyDatabase) -> None:
        database.fail_commits(took_effect=self._took_effect, code=self._code)


class engine_unavailable(_Injection):  # noqa: N801  # as override_settings
    """Make the engine unavailable: every operation raises ``EngineUnavailable``.

    Call ``fdbqueue.queue()`` inside: a queue object made before is not affected.
    """

    def _inject(self, database: FaultyDatabase) -> None:
        database.is_available = False


class time_ahead(TestContextDecorator):  # noqa: N801  # as override_settings
    """Set the clock of the queues ahead, in this process.

    Delays and leases that end before the new time expire at the next pop or lease. A popper that
    is waiting is not woken. Nested blocks add up.

    Args:
        seconds: How far ahead; a negative number sets it back.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._ahead_us = int(seconds * 1_000_000)

    def enable(self) -> None:
        """Set the clock ahead."""
        clock.set_ahead(self._ahead_us)

    def disable(self) -> None:
        """Set the clock back."""
        clock.set_ahead(-self._ahead_us)
