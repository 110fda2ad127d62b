"""A worker process's sign of life, and its end when the code has changed."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.utils import autoreload

from fdbqueue.management.exit_codes import Interrupted, usage_error

if TYPE_CHECKING:
    from typing_extensions import Self

logger = logging.getLogger(__name__)

_BEAT_SECONDS = 1.0
_GRACEFUL = (Interrupted, KeyboardInterrupt, SystemExit)


class Heartbeat:
    """A file that is touched while a worker is alive, and removed at its graceful end.

    Args:
        path: The file's path; None for no file.
    """

    def __init__(self, path: str | None) -> None:
        self._path = None if path is None else Path(path)
        self._next_at = 0.0

    def __enter__(self) -> Self:
        if self._path is not None:
            try:
                self._path.touch()
            except OSError as error:
                message = f"--heartbeat-file {str(self._path)!r} cannot be written: "
                raise usage_error(f"{message}{error.strerror}.") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        is_graceful = kind is None or issubclass(kind, _GRACEFUL)
        if self._path is not None and is_graceful:
            with contextlib.suppress(OSError):
                self._path.unlink()

    def beat(self) -> None:
        """Touch the file, at most once a second."""
        if self._path is None or time.monotonic() < self._next_at:
            return
        self._next_at = time.monotonic() + _BEAT_SECONDS
        try:
            self._path.touch()
        except OSError as error:
            facts = {"path": str(self._path), "reason": error.strerror}
            logger.warning("the heartbeat file cannot be touched", extra=facts)


class Reload:
    """Stop a worker when the code has changed, as Django's autoreload sees it.

    Args:
        is_wanted: Whether to look at the code at all.

    Attributes:
        has_changed: Whether the code has changed.
    """

    def __init__(self, *, is_wanted: bool) -> None:
        self._is_wanted = is_wanted
        self._stop: Callable[[], None] = lambda: None
        self.has_changed = False

    def __enter__(self) -> Self:
        if self._is_wanted:
            autoreload.file_changed.connect(self._changed)
            run, main = autoreload.get_reloader().run, threading.main_thread()
            threading.Thread(
                target=run, args=(main,), name="fdbqueue-tasks-reload", daemon=True
            ).start()
        return self

    def __exit__(self, *_: object) -> None:
        autoreload.file_changed.disconnect(self._changed)

    def stops(self, stop: Callable[[], None]) -> None:
        """Say how to stop the worker."""
        self._stop = stop
        if self.has_changed:
            stop()

    def _changed(self, *_: Any, **__: Any) -> bool:
        """Stop the worker; returns True, so that Django does not end the process."""
        self.has_changed = True
        self._stop()
        return True
