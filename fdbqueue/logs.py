"""Loggers whose handlers may fail: what a line of the log raises ends nothing here.

A handler of a project may raise, because its server is away or its disk is full. The lines stand
between a task's end and its commit, and in threads that extend leases, where an exception would
lose both. So it is reported as Python's own handlers report theirs: on standard error, unless
``logging.raiseExceptions`` is False.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable

_reporter = logging.Handler()


def get_logger(name: str) -> logging.Logger:
    """Return the logger of a module of this package."""
    logger = logging.getLogger(name)
    if not isinstance(logger.handle, functools.partial):
        # an attribute of this logger alone: the project may have set the class of all
        logger.handle = functools.partial(_handle, logger.handle)  # type: ignore[method-assign]
    return logger


def _handle(handle: Callable[[logging.LogRecord], None], record: logging.LogRecord) -> None:
    try:
        handle(record)
    except Exception:  # noqa: BLE001  # whatever a project's filters and handlers raise
        _reporter.handleError(record)
