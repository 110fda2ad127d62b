"""The options of databases and transactions, under the binding's names."""

from __future__ import annotations

from dataclasses import replace

from fdbqueue.engines.embedded.fdb_errors import FDBError
from fdbqueue.engines.embedded.fdb_limits import SYSTEM_KEYS_END, TRANSACTION_SIZE_LIMIT
from fdbqueue.engines.embedded.transaction_state import OptionValues, TransactionState

_INT_MAX = 2**31 - 1
_MIN_SIZE_LIMIT = 32


def checked(value: int, low: int, high: int = _INT_MAX) -> int:
    """Return an option's integer.

    Raises:
        FDBError: 2006 when it is out of range.
    """
    if not low <= value <= high:
        raise FDBError(2006)
    return value


class DatabaseOptions:
    """``database.options``: defaults for the transactions created from now on."""

    __slots__ = ("_defaults",)

    def __init__(self, defaults: OptionValues) -> None:
        self._defaults = defaults

    def set_transaction_timeout(self, milliseconds: int) -> None:
        """Set how long a transaction may take; 0 for no limit."""
        self._set(timeout_ms=checked(milliseconds, 0))

    def set_transaction_retry_limit(self, retries: int) -> None:
        """Set how often ``on_error`` lets a transaction be run again; -1 for no limit."""
        self._set(retry_limit=checked(retries, -1))

    def set_transaction_max_retry_delay(self, milliseconds: int) -> None:
        """Set the longest pause of ``on_error``."""
        self._set(max_retry_delay_ms=checked(milliseconds, 0))

    def set_transaction_size_limit(self, size: int) -> None:
        """Set how many bytes a transaction may have at most."""
        self._set(size_limit=checked(size, _MIN_SIZE_LIMIT, TRANSACTION_SIZE_LIMIT))

    def set_snapshot_ryw_enable(self) -> None:
        """Let snapshot reads see the transaction's own writes (the default)."""
        self._defaults.snapshot_read_your_writes += 1

    def set_snapshot_ryw_disable(self) -> None:
        """Keep the transaction's own writes from its snapshot reads."""
        self._defaults.snapshot_read_your_writes -= 1

    def _set(self, **changes: int) -> None:
        self._defaults.persistent = replace(self._defaults.persistent, **changes)


class TransactionOptions:
    """``transaction.options``: they hold until the transaction is reset.

    A timeout, a retry limit, a retry delay and a size limit also outlive ``on_error``.
    """

    __slots__ = ("_state",)

    def __init__(self, state: TransactionState) -> None:
        self._state = state

    def set_timeout(self, milliseconds: int) -> None:
        """Fail with 1031 once this much time has passed since creation; 0 for never.

        A commit that timed out may take effect all the same.
        """
        timeout_ms = checked(milliseconds, 0)
        self._state.note_timeout()  # a timeout that has passed cannot be undone
        self._set(timeout_ms=timeout_ms)

    def set_retry_limit(self, retries: int) -> None:
        """Let ``on_error`` fail after this many retries; -1 for no limit."""
        self._set(retry_limit=checked(retries, -1))

    def set_max_retry_delay(self, milliseconds: int) -> None:
        """Set the longest pause of ``on_error``."""
        self._set(max_retry_delay_ms=checked(milliseconds, 0))

    def set_size_limit(self, size: int) -> None:
        """Set how many bytes the transaction may have at most."""
        self._set(size_limit=checked(size, _MIN_SIZE_LIMIT, TRANSACTION_SIZE_LIMIT))

    def set_read_your_writes_disable(self) -> None:
        """Let reads not see the transaction's own writes; 2000 after a read or a write."""
        self._state.disable_read_your_writes()

    def set_snapshot_ryw_enable(self) -> None:
        """Let snapshot reads see the transaction's own writes (the default)."""
        self._state.options.snapshot_read_your_writes += 1

    def set_snapshot_ryw_disable(self) -> None:
        """Keep the transaction's own writes from its snapshot reads."""
        self._state.options.snapshot_read_your_writes -= 1

    def set_next_write_no_write_conflict_range(self) -> None:
        """Let the next write conflict with no other transaction's reads."""
        self._state.options.skip_next_write_conflict = True

    def set_read_system_keys(self) -> None:
        r"""Allow reads of the keys from ``\xff`` on."""
        self._state.options.keys_end = SYSTEM_KEYS_END

    def set_access_system_keys(self) -> None:
        r"""Allow reads and writes of the keys from ``\xff`` on."""
        self._state.options.keys_end = self._state.options.write_end = SYSTEM_KEYS_END

    def _set(self, **changes: int) -> None:
        self._state.set_persistent(replace(self._state.options.persistent, **changes))
