"""Results of operations: how many items were pushed, acknowledged or removed, and which were not.

The responses that show items and queues are in :mod:`fdbqueue.api.outputs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rest_framework import serializers

from fdbqueue.service import Held, Item


class PushedOutput(serializers.Serializer[Any]):
    """The result of pushing many items."""

    pushed = serializers.IntegerField(
        min_value=0, help_text="The number of pushed items: all but those that were there already."
    )
    ids = serializers.ListField(
        child=serializers.CharField(),
        help_text="The ids of all items, in order; where one was there already, its id.",
    )
    existing = serializers.ListField(
        child=serializers.IntegerField(min_value=0),
        required=False,
        help_text=(
            "Present only if the request has unique keys: the positions in `items`, from 0 on, of "
            "those that were not pushed, because an item has their key."
        ),
    )


class LostOutput(serializers.Serializer[Any]):
    """The leases that were no longer held."""

    lost = serializers.IntegerField(
        min_value=0, help_text="The number of leases that were no longer held."
    )
    lost_leases = serializers.ListField(
        child=serializers.CharField(), help_text="The tokens of those leases, each once."
    )


class AckedOutput(LostOutput):
    """The result of acknowledging leases."""

    acked = serializers.IntegerField(min_value=0, help_text="The number of removed items.")


class NackedOutput(LostOutput):
    """The result of giving up leases."""

    nacked = serializers.IntegerField(min_value=0, help_text="The number of nacked items.")


class ExtendedOutput(LostOutput):
    """The result of extending leases."""

    extended = serializers.IntegerField(min_value=0, help_text="The number of extended leases.")


class BuriedOutput(serializers.Serializer[Any]):
    """The result of burying an item."""

    buried = serializers.IntegerField(help_text="The number of items: 1.")


class RemovedOutput(serializers.Serializer[Any]):
    """The result of removing an item."""

    removed = serializers.IntegerField(help_text="The number of items: 1.")


class _BoundedOutput(serializers.Serializer[Any]):
    """The result of a request that does a part of the work."""

    more = serializers.BooleanField(
        help_text="Whether it ended at its limit or its time, so that there may be more to do."
    )


class RedrivenOutput(_BoundedOutput):
    """The result of requeuing dead letters."""

    redriven = serializers.IntegerField(min_value=0, help_text="The number of requeued items.")


class PurgedOutput(_BoundedOutput):
    """The result of removing the items in a state."""

    purged = serializers.IntegerField(min_value=0, help_text="The number of removed items.")


class ResumedOutput(serializers.Serializer[Any]):
    """The result of resuming a queue."""

    resumed = serializers.BooleanField(help_text="Whether the queue was paused.")


def pushed(found: Sequence[Item], *, keyed: bool) -> dict[str, Any]:
    """Return the JSON of the result of pushing many items, some of them perhaps ``keyed``."""
    ids = [one.id for one in found]
    if not keyed:
        return {"pushed": len(ids), "ids": ids}
    existing = [position for position, one in enumerate(found) if one.existing]
    return {"pushed": len(ids) - len(existing), "ids": ids, "existing": existing}


def held(done: str, found: Held | None) -> dict[str, Any]:
    """Return the JSON of an operation on leases; ``found`` is None if it was one lease."""
    count, lost = (1, ()) if found is None else (int(found), found.lost)
    return {done: count, "lost": len(lost), "lost_leases": list(lost)}
