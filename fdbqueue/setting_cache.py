"""Cache an object that is made from a setting, until the setting is replaced."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class SettingCache(Generic[T]):
    """Make an object from a setting once, and again when the setting is replaced.

    Args:
        read: Returns the current setting.
        make: Makes the object from the setting; called by one thread at a time.
    """

    def __init__(self, read: Callable[[], Any], make: Callable[[Any], T]) -> None:
        self._read = read
        self._make = make
        self._lock = threading.RLock()
        #: The setting and the object made from it, replaced together.
        self._entry: tuple[Any, T] | None = None

    @property
    def cached(self) -> T | None:
        """The object made last, None after :meth:`clear`."""
        entry = self._entry
        return None if entry is None else entry[1]

    def get(self) -> T:
        """Return the object of the current setting.

        Raises:
            Exception: Raised by ``make``, which is called again the next time.
        """
        setting = self._read()
        entry = self._entry
        if entry is not None and entry[0] is setting:
            return entry[1]
        with self._lock:
            entry = self._entry
            if entry is None or entry[0] is not setting:
                entry = setting, self._make(setting)
                self._entry = entry
            return entry[1]

    def clear(self) -> None:
        """Make a new object the next time, even if the setting is the same."""
        self._entry = None
