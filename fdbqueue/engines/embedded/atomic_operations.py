"""The atomic operations, under all their names in the binding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fdbqueue.engines.embedded.attempt import Attempt
from fdbqueue.engines.embedded.selectors import as_key, as_value


class AtomicOperations:
    """Write with atomic operations, which databases and transactions have alike.

    The binding has each of them a second time, with ``bit_`` before its name.
    """

    def write(self, apply: Callable[..., None], *arguments: Any) -> None:
        """Carry out a method of :class:`Attempt` with these arguments."""
        raise NotImplementedError

    def add(self, key: Any, param: Any) -> None:
        """Add a little-endian integer to the value when the commit is applied."""
        self.write(Attempt.mutate, as_key(key), as_value(param), "add")

    def bit_and(self, key: Any, param: Any) -> None:
        """Keep the value's bits that are set in ``param``."""
        self.write(Attempt.mutate, as_key(key), as_value(param), "bit_and")

    def bit_or(self, key: Any, param: Any) -> None:
        """Set the value's bits that are set in ``param``."""
        self.write(Attempt.mutate, as_key(key), as_value(param), "bit_or")

    def bit_xor(self, key: Any, param: Any) -> None:
        """Flip the value's bits that are set in ``param``."""
        self.write(Attempt.mutate, as_key(key), as_value(param), "bit_xor")

    def max(self, key: Any, param: Any) -> None:
        """Keep the larger little-endian integer."""
        self.write(Attempt.mutate, as_key(key), as_value(param), "max")

    def min(self, key: Any, param: Any) -> None:
        """Keep the smaller little-endian integer."""
        self.write(Attempt.mutate, as_key(key), as_value(param), "min")

    def byte_max(self, key: Any, param: Any) -> None:
        """Keep the string that sorts last."""
        self.write(Attempt.mutate, as_key(key), as_value(param), "byte_max")

    def byte_min(self, key: Any, param: Any) -> None:
        """Keep the string that sorts first."""
        self.write(Attempt.mutate, as_key(key), as_value(param), "byte_min")

    def append_if_fits(self, key: Any, param: Any) -> None:
        """Append to the value, unless it would grow over the limit."""
        self.write(Attempt.mutate, as_key(key), as_value(param), "append_if_fits")

    def compare_and_clear(self, key: Any, param: Any) -> None:
        """Clear the key if it holds ``param`` when the commit is applied."""
        self.write(Attempt.mutate, as_key(key), as_value(param), "compare_and_clear")

    def set_versionstamped_key(self, key: Any, value: Any) -> None:
        """Set a key that holds the commit's stamp, at the offset in its last four bytes."""
        self.write(Attempt.set_versionstamped_key, as_key(key), as_value(value))

    def set_versionstamped_value(self, key: Any, param: Any) -> None:
        """Set a value that holds the commit's stamp, at the offset in its last four bytes."""
        self.write(Attempt.set_versionstamped_value, as_key(key), as_value(param))

    xor = bit_xor
    bit_add = add
    bit_bit_and = bit_and
    bit_bit_or = bit_or
    bit_bit_xor = bit_xor
    bit_max = max  # noqa: A003  # the method above is meant
    bit_min = min  # noqa: A003  # the method above is meant
    bit_byte_max = byte_max
    bit_byte_min = byte_min
    bit_append_if_fits = append_if_fits
    bit_compare_and_clear = compare_and_clear
    bit_set_versionstamped_key = set_versionstamped_key
    bit_set_versionstamped_value = set_versionstamped_value


# The binding has these as well, for getattr(): they are words of Python.
setattr(AtomicOperations, "and", AtomicOperations.bit_and)
setattr(AtomicOperations, "or", AtomicOperations.bit_or)
