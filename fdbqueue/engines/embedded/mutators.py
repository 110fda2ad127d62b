"""The writing half of the transaction API: each call becomes one write of the attempt."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from fdbqueue.engines.embedded.attempt import Attempt
from fdbqueue.engines.embedded.errors import FDBError
from fdbqueue.engines.embedded.futures import Value
from fdbqueue.engines.embedded.limits import KEYS_END
from fdbqueue.engines.embedded.options import OptionValues
from fdbqueue.engines.embedded.ranges import after
from fdbqueue.engines.embedded.selectors import as_key, as_value, first_after_prefix


class Writes:
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
        self._write(Attempt.set, as_key(key), as_value(value))

    def clear(self, key: Any) -> None:
        """Clear a key, or the key a selector stands for."""
        self._write(Attempt.clear, self._key_of(key))

    def clear_range(self, begin: Any, end: Any) -> None:
        """Clear the keys of ``[begin, end)``; None stands for either end."""
        begin = b"" if begin is None else begin
        end = KEYS_END if end is None else end
        self._write(Attempt.clear_range, self._key_of(begin), self._key_of(end))

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

    def add(self, key: Any, param: Any) -> None:
        """Add a little-endian integer to the value when the commit is applied."""
        self._write(Attempt.mutate, as_key(key), as_value(param), "add")

    def bit_and(self, key: Any, param: Any) -> None:
        """Keep the value's bits that are set in ``param``."""
        self._write(Attempt.mutate, as_key(key), as_value(param), "bit_and")

    def bit_or(self, key: Any, param: Any) -> None:
        """Set the value's bits that are set in ``param``."""
        self._write(Attempt.mutate, as_key(key), as_value(param), "bit_or")

    def bit_xor(self, key: Any, param: Any) -> None:
        """Flip the value's bits that are set in ``param``."""
        self._write(Attempt.mutate, as_key(key), as_value(param), "bit_xor")

    def max(self, key: Any, param: Any) -> None:
        """Keep the larger little-endian integer."""
        self._write(Attempt.mutate, as_key(key), as_value(param), "max")

    def min(self, key: Any, param: Any) -> None:
        """Keep the smaller little-endian integer."""
        self._write(Attempt.mutate, as_key(key), as_value(param), "min")

    def byte_max(self, key: Any, param: Any) -> None:
        """Keep the string that sorts last."""
        self._write(Attempt.mutate, as_key(key), as_value(param), "byte_max")

    def byte_min(self, key: Any, param: Any) -> None:
        """Keep the string that sorts first."""
        self._write(Attempt.mutate, as_key(key), as_value(param), "byte_min")

    def append_if_fits(self, key: Any, param: Any) -> None:
        """Append to the value, unless it would grow over the limit."""
        self._write(Attempt.mutate, as_key(key), as_value(param), "append_if_fits")

    def compare_and_clear(self, key: Any, param: Any) -> None:
        """Clear the key if it holds ``param`` when the commit is applied."""
        self._write(Attempt.mutate, as_key(key), as_value(param), "compare_and_clear")

    def set_versionstamped_key(self, key: Any, value: Any) -> None:
        """Set a key that holds the commit's stamp, at the offset in its last four bytes."""
        self._write(Attempt.set_versionstamped_key, as_key(key), as_value(value))

    def set_versionstamped_value(self, key: Any, param: Any) -> None:
        """Set a value that holds the commit's stamp, at the offset in its last four bytes."""
        self._write(Attempt.set_versionstamped_value, as_key(key), as_value(param))

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

    def _write(self, apply: Callable[..., None], *arguments: Any) -> None:
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
