"""What finds the readings of queues, imported only in a process that shows pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from django.utils.module_loading import import_string

_paths: list[str] = []


def register(path: str) -> None:
    """Register a function of another app, by its dotted path, in the app's ``AppConfig.ready``.

    It is called with the name of a queue, for each page of it, and returns its
    :class:`~fdbqueue.pages.readings.Reading`, None for a queue that is not the app's. So it must
    not read anything of the queue.
    """
    if path not in _paths:
        _paths.append(path)


def finders() -> Iterator[Callable[[str], Any]]:
    """Yield the functions that are registered, the first first."""
    for path in _paths:
        yield import_string(path)
