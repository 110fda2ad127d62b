"""How many items to take in the next transaction, from what the last ones took."""

from __future__ import annotations

from fdbqueue.service.limits import BATCH_BYTES
from fdbqueue.service.transactions import error_code

#: Nothing is known yet of how long the values are.
_FIRST_ITEMS = 200
#: transaction_too_large and transaction_too_old: fewer items may do.
_TOO_MUCH = frozenset({2101, 1007})


class Pace:
    """The number of items of the next batch: so many that they take about a megabyte.

    Args:
        most: It is never more.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.count = min(most, _FIRST_ITEMS)

    def took(self, count: int, size_bytes: int) -> None:
        """Note how long the stored values were that a batch took."""
        average = max(1, size_bytes // max(1, count))
        self.count = max(1, min(self._most, BATCH_BYTES // average, 10 * self.count))

    def slow_down(self, error: Exception) -> bool:
        """Take fewer after an error that fewer items may avoid; tell whether that is so."""
        if self.count == 1 or error_code(error) not in _TOO_MUCH:
            return False
        self.count //= 2
        return True
