"""Workers that wait: how long their waits last, and whether one sleeps."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from fdbqueue.service.consume import waiting


@pytest.fixture
def is_asleep(monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Tell whether a worker sleeps; nobody looks by himself, which would hide a lost wake-up."""
    monkeypatch.setattr(waiting, "UNWOKEN_LOOK_SECONDS", 3_600.0)
    sleeping: list[Any] = []
    sleep = waiting.ItemWait._sleep

    def noted(self: Any, gate: Any, wake: Any, *rest: Any) -> bool:
        sleeping.append(wake)
        try:
            return sleep(self, gate, wake, *rest)
        finally:
            sleeping.remove(wake)

    monkeypatch.setattr(waiting.ItemWait, "_sleep", noted)
    return lambda: bool(sleeping)


def work_in_thread(worker: Any) -> tuple[threading.Thread, list[BaseException]]:
    """Have a worker work in a thread; return that, and the list to which its error is added."""
    errors: list[BaseException] = []

    def work() -> None:
        try:
            worker.run()
        except BaseException as error:  # noqa: BLE001  # for the test to see
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread, errors
