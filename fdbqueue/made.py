"""Objects made from a setting, cached until the setting is replaced."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Made(Generic[T]):
    """Make an object from a setting once, and again when the setting is replaced.

    Args:
        read: Returns the current setting.
        make: Makes the object from the setting; called by one thread at a time.
    """

    def __init__(self, read: Callable[[], Any], make: Callable[[Any], T]) -> None:
        self._read = read
        self._make = make
        self._making = threading.RLock()
        #: The setting and the object made from it, replaced together.
        self._made: tuple[Any, T] | None = None

    @property
    def last(self) -> T | None:
        """The object made last, None if it was forgotten."""
        made = self._made
        return None if made is None else made[1]

    def of_setting(self) -> T:
        """Return the object of the current setting.

        Raises:
            Exception: Raised by ``make``, which is called again the next time.
        """
        setting = self._read()
        made = self._made
        if made is not None and made[0] is setting:
            return made[1]
        with self._making:
            made = self._made
            if made is None or made[0] is not setting:
                made = setting, self._make(setting)
                self._made = made
            return made[1]

    def forget(self) -> None:
        """Make a new object the next time, even if the setting is the same."""
        self._made = None
