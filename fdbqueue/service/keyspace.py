r"""Keys: the only place where they are built or parsed.

The layouts are those of FoundationDB's recipes, byte for byte, directly under the queue's
subspace, so that a queue written by a recipe is a queue here:

    priority queue   subspace[priority][count][random] = value     recipe "Priority Queues"
    FIFO queue       subspace[index][random] = value               recipe "Queues"

``count`` starts at 0 for each priority, ``index`` at 1, and ``random`` is 20 bytes; all as
in the recipes. An item's id is what follows the subspace's prefix, in URL-safe base64: a
place in this queue, meaningless in any other.
"""

from __future__ import annotations

import base64
import os
from typing import NamedTuple, cast

from fdb.subspace_impl import Subspace

from fdbqueue.exceptions import InvalidInput
from fdbqueue.service import tuples
from fdbqueue.service.items import Priority

RANDOM_BYTES = 20
MAX_KEY_BYTES = 10_000

#: A number, a count, and the random bytes with what encodes them.
_SUFFIX_BYTES = 48
#: Starts the id of a key that is no item's, so that what is shown can be looked at.
_FOREIGN = "~"

Bounds = tuple[bytes, bytes]


class Position(NamedTuple):
    """Where an item is: its priority (None in a FIFO queue), then its place among equals."""

    priority: Priority | None
    sequence: int


def random_suffix() -> bytes:
    """Return the bytes that tell items pushed at the same moment apart."""
    return os.urandom(RANDOM_BYTES)


class ItemKeys:
    """The keys of one queue's items.

    Args:
        subspace: The queue's own subspace.
    """

    #: The index of the first item of an empty queue, or of an unused priority.
    first_index: int

    def __init__(self, subspace: Subspace) -> None:
        self.subspace = subspace
        self._prefix: bytes = subspace.key()

    @property
    def size_bytes(self) -> int:
        """About how long a key is."""
        return len(self._prefix) + _SUFFIX_BYTES

    def bounds(self) -> Bounds:
        """Return the range of all items."""
        return _bounds(self.subspace)

    def level(self, priority: Priority | None) -> Bounds:
        """Return the range of the items that a push of this priority is put behind."""
        raise NotImplementedError

    def between(self, low: Priority | None, high: Priority | None) -> Bounds:
        """Return the range of the items with priorities from ``low`` to ``high``."""
        raise NotImplementedError

    def key(self, priority: Priority | None, index: int, random: bytes) -> bytes:
        """Return the key of an item."""
        raise NotImplementedError

    def position(self, key: bytes) -> Position:
        """Return where a key is.

        Raises:
            ValueError: It is not the key of an item.
        """
        raise NotImplementedError

    def id_of(self, key: bytes) -> str:
        """Return the id of the item at a key; one of a foreign key says that it is."""
        try:
            self.position(key)
        except (ValueError, TypeError):
            return _FOREIGN + self.item_id(key)
        return self.item_id(key)

    def item_id(self, key: bytes) -> str:
        """Return the id of the item at a key that is known to be an item's."""
        return base64.urlsafe_b64encode(key[len(self._prefix) :]).rstrip(b"=").decode()

    def key_of(self, item_id: str) -> bytes:
        """Return the key of the item with an id, which need not exist.

        Raises:
            InvalidInput: It is the id of no item of such a queue.
        """
        foreign = item_id.startswith(_FOREIGN)
        try:
            text = item_id.removeprefix(_FOREIGN).encode("ascii")
            suffix = base64.b64decode(text + b"=" * (-len(text) % 4), b"-_", validate=True)
            key = self._prefix + suffix
            if not foreign:
                self.position(key)
        except (ValueError, TypeError) as error:
            raise InvalidInput(id=item_id, reason="it is no item's id in this queue") from error
        begin, end = self.bounds()
        if not begin <= key < end or len(key) > MAX_KEY_BYTES:
            raise InvalidInput(id=item_id, reason="it is no place in this queue")
        return key

    def _unpack(self, key: bytes, length: int) -> tuple[object, ...]:
        if not key.startswith(self._prefix):
            raise ValueError("the key is outside the queue's subspace")
        elements = tuples.unpack(key[len(self._prefix) :])
        if len(elements) != length:
            raise ValueError(f"the key has {len(elements)} elements, not {length}")
        return elements


class PriorityKeys(ItemKeys):
    """``subspace[priority][count][random]``."""

    first_index = 0

    def level(self, priority: Priority | None) -> Bounds:
        """Return the range of one priority."""
        return _bounds(self.subspace[priority])

    def between(self, low: Priority | None, high: Priority | None) -> Bounds:
        """Return the range of the priorities from ``low`` to ``high``, None for no bound."""
        begin, end = self.bounds()
        if low is not None:
            begin = self.level(low)[0]
        if high is not None:
            end = self.level(high)[1]
        return begin, end

    def key(self, priority: Priority | None, index: int, random: bytes) -> bytes:
        """Return the key of an item."""
        return self.subspace.pack((priority, index, random))

    def position(self, key: bytes) -> Position:
        """Return the priority and the count of a key."""
        priority, index, _ = self._unpack(key, 3)
        if not _is_number(priority) or not isinstance(index, int) or isinstance(index, bool):
            raise TypeError("the key is not (number, count, random)")
        return Position(cast("Priority", priority), index)


class FifoKeys(ItemKeys):
    """``subspace[index][random]``."""

    first_index = 1

    def level(self, priority: Priority | None) -> Bounds:
        """Return the range of all items: there are no priorities."""
        assert priority is None
        return self.bounds()

    def between(self, low: Priority | None, high: Priority | None) -> Bounds:
        """Return the range of all items: there are no priorities."""
        assert low is None
        assert high is None
        return self.bounds()

    def key(self, priority: Priority | None, index: int, random: bytes) -> bytes:
        """Return the key of an item."""
        assert priority is None
        return self.subspace.pack((index, random))

    def position(self, key: bytes) -> Position:
        """Return the index of a key."""
        index, _ = self._unpack(key, 2)
        if not isinstance(index, int) or isinstance(index, bool):
            raise TypeError("the key is not (index, random)")
        return Position(None, index)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _bounds(subspace: Subspace) -> Bounds:
    found = subspace.range()
    return found.start, found.stop
