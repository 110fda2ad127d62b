"""What a worker works on."""

from __future__ import annotations

from typing import Any, Protocol

from fdbqueue.exceptions import CorruptItem
from fdbqueue.service.items import Item


class Source(Protocol):
    """What a worker asks of a queue, of several, or of what stands before them.

    Attributes:
        acks_with_leases: Whether ``lease_many`` takes ``ack``, items that are done.
    """

    acks_with_leases: bool

    def lease_many(self, *args: Any, **options: Any) -> list[Item]:
        """Lease items, and acknowledge others in the same transaction."""

    def ack(self, *args: Any, **options: Any) -> None:
        """Remove an item for good."""

    def nack(self, *args: Any, **options: Any) -> None:
        """Give an item up."""

    def extend(self, *args: Any, **options: Any) -> Any:
        """Extend the lease of an item."""

    def bury_corrupt(self, error: CorruptItem) -> bool:
        """Move the item that an error names to the dead letters; tell whether it was there."""

    def wait_for_items(self, seconds: float) -> bool:
        """Wait until there may be an item to take; tell whether so."""
