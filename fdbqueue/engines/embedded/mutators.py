"""The writing half of the transaction API: each call becomes one write of the attempt."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from fdbqueue.engines.embedded.atomic_operations import AtomicOperations
from fdbqueue.engines.embedded.attempt import Attempt
from fdbqueue.engines.embedded.errors import FDBError
from fdbqueue.engines.embedded.futures import Value
from fdbqueue.engines.embedded.limits import KEYS_END
from fdbqueue.engines.embedded.options import OptionValues
from fdbqueue.engines.embedded.ranges import after
from fdbqueue.engines.embedded.selectors import as_key, as_value, first_after_prefix


class Writes(AtomicOperations):
    """Write through a transaction; what is wrong with a write, its next read or commit says."""

    _lock: threading.RLock
    _attempt: Attempt
    #: What was wrong with a write; those after it have no effect.
    _deferred: FDBError | None
    option_values: OptionValues

    def get_key(self, key_selector: Any) -> Value:
        """Resolve a selector; see :class:`Reads`."""
        raise NotImplementedError

    def _check_not_committing(self) -> None:
        raise NotImplementedError

    def set(self, key: Any, value: Any) -> None:
        """Set a key."""
        self.write(Attempt.set, as_key(key), as_value(value))

    def clear(self, key: Any) -> None:
        """Clear a key, or the key a selector stands for."""
        self.write(Attempt.clear, self._key_of(key))

    def clear_range(self, begin: Any, end: Any) -> None:
        """Clear the keys of ``[begin, end)``; None stands for either end."""
        begin = b"" if begin is None else begin
        end = KEYS_END if end is None else end
        self.write(Attempt.clear_range, self._key_of(begin), self._key_of(end))

    def clear_range_startswith(self, prefix: Any) -> None:
        """Clear the keys that start with ``prefix``."""
        prefix = as_key(prefix)
        self.clear_range(prefix, first_after_prefix(prefix))

    def __setitem__(self, key: Any, value: Any) -> None:
        self.set(key, value)

    def __delitem__(self, key: Any) -> None:
        if isinstance(key, slice):
            self.clear_range(key.start, key.stop)
        else:
            self.clear(key)

    def add_read_conflict_range(self, begin: Any, end: Any) -> None:
        """Conflict as if ``[begin, end)`` had been read.

        Raises:
            FDBError: 2005 when the range is inverted.
        """
        self._conflict(Attempt.depend_on, as_key(begin), as_key(end))

    def add_read_conflict_key(self, key: Any) -> None:
        """Conflict as if the key had been read."""
        self.add_read_conflict_range(key, after(as_key(key)))

    def add_write_conflict_range(self, begin: Any, end: Any) -> None:
        """Make others conflict as if ``[begin, end)`` had been written.

        Raises:
            FDBError: 2005 when the range is inverted.
        """
        self._conflict(Attempt.written, as_key(begin), as_key(end))

    def add_write_conflict_key(self, key: Any) -> None:
        """Make others conflict as if the key had been written."""
        self.add_write_conflict_range(key, after(as_key(key)))

    def _key_of(self, key: Any) -> bytes:
        if hasattr(key, "or_equal"):
            key = self.get_key(key)
        return as_key(key)

    def write(self, apply: Callable[..., None], *arguments: Any) -> None:
        """Apply a write, and keep its error for the next read or the commit."""
        with self._lock:
            if self._deferred is not None:
                return
            conflicts = not self.option_values.skip_next_write_conflict
            self.option_values.skip_next_write_conflict = False
            try:
                self._check_not_committing()
                apply(self._attempt, conflicts, *arguments)
            except FDBError as error:
                self._deferred = error

    def _conflict(
        self, apply: Callable[[Attempt, bytes, bytes], None], begin: bytes, end: bytes
    ) -> None:
        if begin > end:
            raise FDBError(2005)
        with self._lock:
            if self._deferred is None:
                try:
                    self._check_not_committing()
                    if end > self.option_values.keys_end:
                        raise FDBError(2004)
                    if begin < end:
                        apply(self._attempt, begin, end)
                except FDBError as error:
                    self._deferred = error
