"""Choose how many items the next transaction takes, from the sizes of the last ones."""

from __future__ import annotations

from fdbqueue.service.limits import BATCH_BYTES
from fdbqueue.service.transactions import error_code

#: The first batch, before the length of the values is known.
_FIRST_ITEMS = 200
#: transaction_too_large and transaction_too_old: fewer items may succeed.
_TOO_MUCH = frozenset({2101, 1007})


class Pace:
    """The number of items in the next batch, chosen so that they take about a megabyte.

    Args:
        most: The most items in a batch.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.count = min(most, _FIRST_ITEMS)

    def took(self, count: int, size_bytes: int) -> None:
        """Note the number of items in a batch, and the length of their stored values."""
        average = max(1, size_bytes // max(1, count))
        self.count = max(1, min(self._most, BATCH_BYTES // average, 10 * self.count))

    def slow_down(self, error: Exception) -> bool:
        """Halve the number after an error that fewer items may avoid; tell whether it is one."""
        if self.count == 1 or error_code(error) not in _TOO_MUCH:
            return False
        self.count //= 2
        return True
