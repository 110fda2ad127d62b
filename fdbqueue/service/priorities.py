"""Check priorities, and convert them to the one type that a queue has.

The FDB tuple layer sorts every integer before every float, whatever their values: 2 comes
before 0.31. So all priorities of a queue have one type, and numbers that fit are converted.
"""

from __future__ import annotations

import math
import numbers
from typing import Any

from fdbqueue.exceptions import InvalidPriority
from fdbqueue.service.items import NOT_GIVEN, Priority

MIN_INTEGER = -(2**63)
MAX_INTEGER = 2**63 - 1


class NoPriorities:
    """Refuse priorities, for a FIFO queue.

    Args:
        queue: The queue's name, for errors.
    """

    name: str | None = None

    def __init__(self, queue: str) -> None:
        self._queue = queue

    def of_push(self, given: Any) -> Priority | None:
        """Return the priority of a push.

        Raises:
            InvalidPriority: A priority is given.
        """
        return self.bound(None if given is NOT_GIVEN else given)

    def bound(self, given: Any) -> Priority | None:
        """Return a bound of a range of priorities.

        Raises:
            InvalidPriority: A priority is given.
        """
        if given is not None:
            raise InvalidPriority(
                queue=self._queue, priority=given, reason="a FIFO queue has no priorities"
            )
        return None


class PriorityType:
    """Convert the priorities of one queue to ``int`` or ``float``.

    Args:
        name: ``"int"`` or ``"float"``, or the type itself.
        queue: The queue's name, for errors.
    """

    def __init__(self, name: str | type, queue: str) -> None:
        self.name: str = name.__name__ if isinstance(name, type) else name
        self._queue = queue

    def of_push(self, given: Any) -> Priority:
        """Return the priority of a push in the queue's type: 0 when none is given.

        Raises:
            InvalidPriority: It does not fit the type, as for :meth:`coerce`.
        """
        return self.coerce(0 if given is NOT_GIVEN else given)

    def bound(self, given: Any) -> Priority | None:
        """Return a bound of a range of priorities in the queue's type, None for no bound.

        Raises:
            InvalidPriority: It does not fit the type, as for :meth:`coerce`.
        """
        return None if given is None else self.coerce(given)

    def coerce(self, priority: Any) -> Priority:
        """Return the priority in the queue's type.

        Raises:
            InvalidPriority: It is a boolean or not a number, not finite, an integer beyond 64
                bits, a fraction in an int queue, or an integer that no float equals.
        """
        if type(priority) is int:
            return self._from_integer(priority)
        if type(priority) is float and self.name == "float" and math.isfinite(priority):
            return priority + 0.0  # the tuple layer sorts -0.0 before 0.0
        if isinstance(priority, bool) or not isinstance(priority, numbers.Real):
            raise self._invalid(priority, "it is not a number")
        if isinstance(priority, numbers.Rational) and priority.denominator == 1:
            return self._from_integer(int(priority.numerator))
        try:
            value = float(priority)
        except OverflowError:
            raise self._invalid(priority, "it is beyond 64 bits") from None
        if not math.isfinite(value):
            raise self._invalid(priority, "it is not finite")
        if self.name == "float":
            return value + 0.0  # the tuple layer sorts -0.0 before 0.0
        if not value.is_integer():
            raise self._invalid(priority, "it is a fraction, and the queue's type is int")
        return int(self._from_integer(int(value)))

    def _from_integer(self, value: int) -> Priority:
        if not MIN_INTEGER <= value <= MAX_INTEGER:
            raise self._invalid(value, "it is beyond 64 bits")
        if self.name == "int":
            return value
        if int(float(value)) != value:
            raise self._invalid(value, "no float equals it, and the queue's type is float")
        return float(value)

    def _invalid(self, priority: Any, reason: str) -> InvalidPriority:
        return InvalidPriority(
            queue=self._queue, priority=priority, priority_type=self.name, reason=reason
        )


Priorities = NoPriorities | PriorityType
