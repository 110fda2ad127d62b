"""What comes out: a serializer for each shape of an answer."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from rest_framework import serializers

from fdbqueue.api.fields import AnyJSONField, PriorityField
from fdbqueue.api.inputs import STATES
from fdbqueue.api.values import encode, to_json
from fdbqueue.service import Counts, Held, Item, Queue, Undecodable


class UndecodableOutput(serializers.Serializer[Any]):
    """What is stored in the place of an item that cannot be read."""

    base64 = serializers.CharField(help_text="The bytes.")
    reason = serializers.CharField(help_text="Why they cannot be read.")


class ItemOutput(serializers.Serializer[Any]):
    """An item of a queue."""

    # The context has the ``codec`` of the queue.

    id = serializers.CharField(help_text="Names the item in its queue.")
    priority = PriorityField(
        allow_null=True, help_text="Of the queue's priority type; null in a FIFO queue."
    )
    value = AnyJSONField(allow_null=True, help_text="What was pushed; base64 in a queue of bytes.")
    pushed_at = serializers.DateTimeField(
        allow_null=True, help_text="In UTC; null where the codec keeps no such record."
    )
    attempts = serializers.IntegerField(
        min_value=0, help_text="How often it was leased and given up."
    )
    size = serializers.IntegerField(min_value=0, help_text="The bytes of the stored value.")
    state = serializers.ChoiceField(choices=STATES)
    until = serializers.DateTimeField(
        allow_null=True, help_text="When the lease or the delay is over."
    )
    reason = serializers.CharField(allow_null=True, help_text="Why it is dead.")
    undecodable = UndecodableOutput(
        required=False, help_text="Only there when the stored value cannot be read."
    )

    def to_representation(self, instance: Item) -> dict[str, Any]:
        """Return the item's keys; by hand, for a thousand items are one answer."""
        value = instance.value
        is_sound = not isinstance(value, Undecodable)
        shown = {
            "id": instance.id,
            "priority": PriorityField.shown(instance.priority),
            "value": to_json(value, self.context["codec"]) if is_sound else None,
            "pushed_at": _text(instance.pushed_at),
            "attempts": instance.attempts,
            "size": instance.size_bytes,
            "state": instance.state,
            "until": _text(instance.until),
            "reason": instance.reason,
        }
        if isinstance(value, Undecodable):
            shown["undecodable"] = {"base64": encode(value.raw), "reason": value.reason}
        return shown


class LeasedItemOutput(ItemOutput):
    """An item, and the token to acknowledge, give up or extend its lease with."""

    lease = serializers.CharField(help_text="The token of the lease; keep it to yourself.")

    def to_representation(self, instance: Item) -> dict[str, Any]:
        """Return the item's keys and its lease."""
        return {**super().to_representation(instance), "lease": instance.lease}


class ItemsOutput(serializers.Serializer[Any]):
    """Items, in order."""

    items = ItemOutput(many=True)


class LeasedItemsOutput(serializers.Serializer[Any]):
    """Leased items, in order."""

    items = LeasedItemOutput(many=True)


class ItemPageOutput(ItemsOutput):
    """A page of items, and where the next one starts."""

    cursor = serializers.CharField(
        allow_null=True, help_text="Of the next page; null when there is none."
    )


class PushedOutput(serializers.Serializer[Any]):
    """What a push of many items did."""

    pushed = serializers.IntegerField(min_value=1, help_text="How many: all of them.")
    ids = serializers.ListField(child=serializers.CharField(), help_text="Theirs, in order.")


class LostOutput(serializers.Serializer[Any]):
    """Which leases were not held any more."""

    lost = serializers.IntegerField(
        min_value=0, help_text="How many leases were not held any more."
    )
    lost_leases = serializers.ListField(
        child=serializers.CharField(), help_text="Their tokens, each once."
    )


class AckedOutput(LostOutput):
    """What became of leases that are done."""

    acked = serializers.IntegerField(min_value=0, help_text="How many items are gone for good.")


class NackedOutput(LostOutput):
    """What became of leases that were given up."""

    nacked = serializers.IntegerField(min_value=0, help_text="How many were given up.")


class ExtendedOutput(LostOutput):
    """What became of leases that should last longer."""

    extended = serializers.IntegerField(min_value=0, help_text="How many last longer now.")


class CountsOutput(serializers.Serializer[Any]):
    """How many items a queue holds in each state."""

    ready = serializers.IntegerField()
    leased = serializers.IntegerField()
    delayed = serializers.IntegerField()
    dead = serializers.IntegerField()


class QueueOutput(serializers.Serializer[Any]):
    """A queue: how it is set up, and how many items it holds."""

    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=("fifo", "priority"))
    codec = serializers.ChoiceField(choices=("json", "bytes", "tuple"))
    priority_type = serializers.ChoiceField(
        choices=("int", "float"), allow_null=True, help_text="Null for a FIFO queue."
    )
    counts = CountsOutput()


class QueuePageOutput(serializers.Serializer[Any]):
    """A page of the queues, sorted by name, and where the next one starts."""

    queues = QueueOutput(many=True)
    cursor = serializers.CharField(
        allow_null=True,
        help_text="Of the next page, also where this one is short or empty; null on the last.",
    )


class QueueDetailOutput(QueueOutput):
    """A queue, its options, and the items at its two ends."""

    order = serializers.ChoiceField(choices=("count", "commit"))
    contention = serializers.ChoiceField(choices=("strict", "relaxed"))
    max_attempts = serializers.IntegerField(allow_null=True)
    max_value_bytes = serializers.IntegerField()
    oldest = serializers.DateTimeField(
        allow_null=True, help_text="When the oldest ready item was pushed, where that is known."
    )
    first = ItemOutput(allow_null=True, help_text="The item at the min end.")
    last = ItemOutput(allow_null=True, help_text="The item at the max end.")


class ErrorOutput(serializers.Serializer[Any]):
    """What every error says; there may be more keys, which tell the context."""

    code = serializers.CharField(help_text="A permanent name for the error.")
    message = serializers.CharField(help_text="What it means; may change.")


def items(queue: Queue, found: Sequence[Item], kind: type[ItemOutput] = ItemOutput) -> list[Any]:
    """Return the JSON of a queue's items."""
    output = kind(context={"codec": queue.codec.name})
    return [output.to_representation(one) for one in found]


def held(done: str, found: Held | None) -> dict[str, Any]:
    """Return the JSON of how many leases something was done to; None for the only one."""
    count, lost = (1, ()) if found is None else (int(found), found.lost)
    return {done: count, "lost": len(lost), "lost_leases": list(lost)}


def item(queue: Queue, found: Item, kind: type[ItemOutput] = ItemOutput) -> dict[str, Any]:
    """Return the JSON of one of a queue's items."""
    shown: dict[str, Any] = items(queue, [found], kind)[0]
    return shown


def queue_row(queue: Queue, counts: Counts) -> dict[str, Any]:
    """Return the JSON of a queue in a list."""
    return {
        "name": queue.name,
        "kind": queue.kind,
        "codec": queue.codec.name,
        "priority_type": queue.priority_type,
        "counts": {
            "ready": counts.ready,
            "leased": counts.leased,
            "delayed": counts.delayed,
            "dead": counts.dead,
        },
    }


def queue_detail(queue: Queue, tr: Any) -> dict[str, Any]:
    """Return the JSON of a queue with the items at its two ends, all of one moment."""
    first = queue.page(end="min", limit=1, tr=tr).items
    last = queue.page(end="max", limit=1, tr=tr).items
    return {
        **queue_row(queue, queue.counts(tr=tr)),
        "order": queue.options.order,
        "contention": queue.options.contention,
        "max_attempts": queue.options.max_attempts,
        "max_value_bytes": queue.options.max_value_bytes,
        "oldest": _text(queue.oldest(tr=tr)),
        "first": next(iter(items(queue, first)), None),
        "last": next(iter(items(queue, last)), None),
    }


def _text(moment: datetime.datetime | None) -> str | None:
    """Return a UTC moment in ISO 8601."""
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")
