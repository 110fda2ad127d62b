"""What is made of a setting, for as long as the setting is the same, whoever changes it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Made(Generic[T]):
    """Make something of a setting once, and again when the setting is another object.

    Args:
        read: Returns the setting as it is now.
        make: Makes it of the setting; called by one thread at a time.
    """

    def __init__(self, read: Callable[[], Any], make: Callable[[Any], T]) -> None:
        self._read = read
        self._make = make
        self._making = threading.RLock()
        #: The setting, and what was made of it: never one without the other.
        self._made: tuple[Any, T] | None = None

    @property
    def last(self) -> T | None:
        """What was made last, None where that was forgotten."""
        made = self._made
        return None if made is None else made[1]

    def of_setting(self) -> T:
        """Return what is made of the setting as it is now.

        Raises:
            Exception: What making it raises; it is tried again the next time.
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
        """Make it anew when it is needed, although the setting is the same object."""
        self._made = None
