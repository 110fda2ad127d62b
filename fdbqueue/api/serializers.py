"""What goes in and what comes out: a serializer for each, none for both."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from fdbqueue.api.fields import (
    AnyJSONField,
    CountField,
    PriorityField,
    QueryCountField,
    QueryNumberField,
    ValueField,
)
from fdbqueue.api.values import encode
from fdbqueue.service import Item, Undecodable

#: One request pushes, pops or shows no more items than this.
MAX_ITEMS = 1_000

_ENDS = ("min", "max")


class Input(serializers.Serializer[Any]):
    """A body or a query; keys that mean nothing here are refused."""

    def to_internal_value(self, data: Any) -> Any:
        """Return the checked data.

        Raises:
            ValidationError: It is no object, has an unknown key, or a field is wrong.
        """
        if not isinstance(data, Mapping):
            raise serializers.ValidationError(["A JSON object is needed."])
        unknown = sorted(data.keys() - self.fields.keys())
        if unknown:
            raise serializers.ValidationError({name: ["It is unknown here."] for name in unknown})
        return super().to_internal_value(data)


class NoParameters(Input):
    """The query of an address that takes none."""


class QueuesQuery(Input):
    """Which page of the queues: those whose names sort after one."""

    after = serializers.CharField(
        default="", allow_blank=True, trim_whitespace=False, max_length=100
    )
    limit = QueryCountField(min_value=1, max_value=MAX_ITEMS, default=MAX_ITEMS)


class PushBody(Input):
    """One item to push."""

    value = AnyJSONField(allow_null=True)
    priority = AnyJSONField(allow_null=True, required=False)


class PushManyBody(Input):
    """Many items to push."""

    items: serializers.ListSerializer[Any] = serializers.ListSerializer(
        child=PushBody(), allow_empty=False, max_length=MAX_ITEMS
    )


class PopBody(Input):
    """How many to pop, and from where."""

    end = serializers.ChoiceField(choices=_ENDS, default="min")
    limit = CountField(min_value=1, max_value=MAX_ITEMS, default=1)


class PeekQuery(Input):
    """How many to show, from which end."""

    end = serializers.ChoiceField(choices=_ENDS, default="min")
    limit = QueryCountField(min_value=1, max_value=MAX_ITEMS, default=1)


class ItemsQuery(Input):
    """Which page of the items."""

    cursor = serializers.CharField(required=False, trim_whitespace=False)
    end = serializers.ChoiceField(choices=_ENDS, default="min")
    limit = QueryCountField(min_value=1, max_value=MAX_ITEMS, default=100)
    min_priority = QueryNumberField(required=False)
    max_priority = QueryNumberField(required=False)


class ItemOutput(serializers.Serializer[Any]):
    """An item; the context has the ``codec`` of its queue."""

    id = serializers.CharField()
    priority = PriorityField()
    value = ValueField()
    pushed_at = serializers.DateTimeField(format="iso-8601", default_timezone=datetime.timezone.utc)
    attempts = serializers.IntegerField()

    def to_representation(self, instance: Item) -> dict[str, Any]:
        """Return the five keys, and ``undecodable`` where the value cannot be read."""
        if not isinstance(instance.value, Undecodable):
            return super().to_representation(instance)
        unread = Item(None, instance.priority, instance.id, instance.pushed_at, instance.attempts)
        raw, reason = instance.value.raw, instance.value.reason
        return {
            **super().to_representation(unread),
            "undecodable": {"base64": encode(raw), "reason": reason},
        }


class QueueOutput(serializers.Serializer[Any]):
    """A queue as it is configured."""

    name = serializers.CharField()
    kind = serializers.CharField()
    codec = serializers.CharField(source="codec.name")
    priority_type = serializers.CharField()
