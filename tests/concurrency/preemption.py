"""Threads that are preempted at random lines of the package, to bring races out."""

from __future__ import annotations

import contextlib
import linecache
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import fdbqueue

_PACKAGE = str(Path(fdbqueue.__file__).parent)
#: Long enough for all other threads to run.
_MAX_SLEEP_SECONDS = 0.002


@contextlib.contextmanager
def preempted(
    seed: object, rate: float, part: str = "service", *, passes_with: bool = False
) -> Iterator[None]:
    """Let every thread that starts in here sleep at random lines of a part of the package.

    Args:
        seed: Makes the same choices, as far as threads run alike.
        rate: At which part of the lines.
        part: A folder of the package.
        passes_with: Whether no thread sleeps at the beginning of a ``with`` block, because another
            may raise something there: see :func:`raising_at`.
    """
    folder = f"{_PACKAGE}/{part}/"
    dice = random.Random(str(seed))

    def at_line(frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
        if event == "line" and dice.random() < rate and not (passes_with and _begins_with(frame)):
            time.sleep(dice.random() * _MAX_SLEEP_SECONDS)
        return at_line

    def at_call(frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        return at_line if frame.f_code.co_filename.startswith(folder) else None

    before = threading.gettrace()
    threading.settrace(at_call)
    try:
        yield
    finally:
        threading.settrace(before)  # None is what it is by default
        sys.settrace(None)


def raising_at(
    line: int, error: BaseException, *, passes_with: bool = False
) -> tuple[Callable[..., Any], Callable[[], int]]:
    """Return a trace function that raises once, at the n-th line run of the service.

    And what tells how many lines were run. With ``passes_with`` it raises at the line behind, if
    that line begins a ``with`` block: Python traces this line again when the block has ended, and
    what is raised there keeps it from releasing its lock. No signal comes in between.
    """
    folder = f"{_PACKAGE}/service/"
    count = 0
    has_raised = False

    def at_line(frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
        nonlocal count, has_raised
        if event == "line" and frame.f_code.co_filename.startswith(folder):
            count += 1
            if has_raised or not 0 < line <= count:
                return at_line
            if not (passes_with and _begins_with(frame)):
                has_raised = True
                raise error
        return at_line

    return at_line, lambda: count


def holding_at(
    line: int, held: threading.Event, go_on: threading.Event
) -> tuple[Callable[..., Any], Callable[[], int]]:
    """Return a trace function that holds its thread up once, at the n-th line of the service.

    And what tells how many lines were run. It sets one event there, and waits for the other.
    """
    folder = f"{_PACKAGE}/service/"
    count = 0

    def at_line(frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        nonlocal count
        if not frame.f_code.co_filename.startswith(folder):
            return None
        if event == "line":
            count += 1
            if count == line:
                held.set()
                go_on.wait(60)
        return at_line

    return at_line, lambda: count


def _begins_with(frame: FrameType) -> bool:
    """Tell whether the line that a frame is at begins a ``with`` block, or has just ended it."""
    text = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    return text.lstrip().startswith("with ")
