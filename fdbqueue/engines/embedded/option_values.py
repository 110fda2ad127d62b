"""The values of the options of transactions, and what a database gives its new ones."""

from __future__ import annotations

from dataclasses import dataclass

from fdbqueue.engines.embedded.limits import KEYS_END, TRANSACTION_SIZE_LIMIT


@dataclass(frozen=True, slots=True)
class Persistent:
    """The options that outlive ``on_error``, and that a database sets as defaults."""

    timeout_ms: int = 0
    retry_limit: int = -1
    max_retry_delay_ms: int = 1000
    size_limit: int = TRANSACTION_SIZE_LIMIT


@dataclass(slots=True)
class OptionValues:
    """The options in force for one transaction."""

    persistent: Persistent
    read_your_writes: bool = True
    snapshot_read_your_writes: int = 1
    skip_next_write_conflict: bool = False
    used_during_commit_protection: bool = True
    bypass_unreadable: bool = False
    keys_end: bytes = KEYS_END
    write_end: bytes = KEYS_END


@dataclass(slots=True)
class DatabaseDefaults:
    """What a new transaction starts with."""

    persistent: Persistent = Persistent()
    snapshot_read_your_writes: int = 1

    def start(self) -> OptionValues:
        """Return a new transaction's options."""
        return OptionValues(self.persistent, True, self.snapshot_read_your_writes)
