"""What goes in: a serializer for the body or the query of each address."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from fdbqueue import conf
from fdbqueue.api import pagination
from fdbqueue.api.fields import (
    AnyJSONField,
    CursorField,
    LeaseField,
    LimitField,
    MomentField,
    PriorityInputField,
    QueryLimitField,
    QueryNumberField,
    SecondsField,
    TextField,
    WaitField,
)
from fdbqueue.service.storage import store
from fdbqueue.service.storage.reader import ENDS

STATES = ("ready", *store.STATES)

#: So many unknown keys are named, at most.
_SHOWN = 20
_END_HELP = "The lowest priority and the earliest pushed, or the other end of the same order."


class Input(serializers.Serializer[Any]):
    """A body or a query; keys that mean nothing here are refused."""

    def to_internal_value(self, data: Any) -> Any:
        """Return the checked data.

        Raises:
            ValidationError: It is no object, has an unknown key, or a field is wrong.
        """
        if not isinstance(data, Mapping):
            raise serializers.ValidationError(["A JSON object is needed."])
        unknown = heapq.nsmallest(_SHOWN, data.keys() - self.fields.keys())
        if unknown:
            raise serializers.ValidationError({name: ["It is unknown here."] for name in unknown})
        return super().to_internal_value(data)


class NoParameters(Input):
    """The query of an address that takes none."""


class QueuesQuery(Input):
    """Which page of the queues."""

    cursor = CursorField(
        required=False,
        max_length=1_000,
        help_text="Where the page starts: the `cursor` of the page before.",
    )
    limit = QueryLimitField(default=100, help_text="The most queues to show.")


class PushBody(Input):
    """One item to push."""

    value = AnyJSONField(
        allow_null=True,
        help_text="Any JSON; a base64 string for a queue of bytes. Integers are exact.",
    )
    priority = PriorityInputField(
        allow_null=True,
        required=False,
        help_text="A number of the queue's priority type, 0 unless given; none for a FIFO queue.",
    )
    delay = SecondsField(
        required=False, help_text="For how many seconds to hide it, up to ten years."
    )
    not_before = MomentField(
        required=False, help_text="When to show it, in place of a delay: RFC 3339 with an offset."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Return the checked data.

        Raises:
            ValidationError: It has both a delay and a moment.
        """
        if "delay" in attrs and "not_before" in attrs:
            raise serializers.ValidationError({"not_before": ["It is given beside a delay."]})
        return attrs


class _Limited:
    """A list of as many members as the setting allows; longer ones are not looked into."""

    def to_internal_value(self, data: Any) -> Any:
        """Return the checked members.

        Raises:
            ValidationError: They are too many, or something is wrong with one.
        """
        most = conf.api().max_limit
        if isinstance(data, list) and len(data) > most:
            raise serializers.ValidationError([f"Ensure there are no more than {most} items."])
        return super().to_internal_value(data)  # type: ignore[misc]  # of a list's class


class Pushes(_Limited, serializers.ListSerializer[Any]):
    """The items of one push."""


class LeaseList(_Limited, serializers.ListField):
    """The tokens of leases."""


class PushManyBody(Input):
    """Many items to push, in one transaction."""

    items = Pushes(child=PushBody(), allow_empty=False, max_length=1_000)


class PopBody(Input):
    """How many items to take, from where, and how long to wait for one."""

    end = serializers.ChoiceField(choices=ENDS, default="min", help_text=_END_HELP)
    limit = LimitField(default=1, help_text="The most items to take.")
    wait = WaitField(
        default=0, help_text="For how many seconds to wait for an item where there is none."
    )


class LeaseBody(PopBody):
    """The same, and for how long."""

    seconds = SecondsField(default=60, help_text="How long the lease lasts, up to ten years.")


class _One(Input):
    """Which lease is meant."""

    lease = LeaseField()


class _Many(Input):
    """Which leases are meant."""

    leases = LeaseList(
        child=LeaseField(), allow_empty=False, max_length=1_000, help_text="Their tokens."
    )


class _GivenUp(Input):
    """What becomes of what is given up."""

    delay = SecondsField(required=False, help_text="For how many seconds to keep it hidden.")
    reason = TextField(
        required=False,
        allow_blank=True,
        max_length=1_000,
        help_text="What the dead letter says, if it dies.",
    )


class _Extended(Input):
    """For how long a lease shall last."""

    seconds = SecondsField(default=60, help_text="How long, from now on.")


class AckBody(_One):
    """Which lease is done."""


class AckManyBody(_Many):
    """Which leases are done."""


class NackBody(_One, _GivenUp):
    """Which lease is given up, and what becomes of the item."""


class NackManyBody(_Many, _GivenUp):
    """Which leases are given up, and what becomes of the items."""


class ExtendBody(_One, _Extended):
    """Which lease shall last longer."""


class ExtendManyBody(_Many, _Extended):
    """Which leases shall last longer."""


class PeekQuery(Input):
    """How many to show, from which end."""

    end = serializers.ChoiceField(choices=ENDS, default="min", help_text=_END_HELP)
    limit = QueryLimitField(default=1, help_text="The most items to show.")


class ItemsQuery(Input):
    """Which page of the items."""

    cursor = CursorField(
        required=False,
        max_length=pagination.MAX_CURSOR_CHARACTERS,
        help_text="Where the page starts: the `cursor` of the page before, of the same queue.",
    )
    end = serializers.ChoiceField(choices=ENDS, default="min", help_text=_END_HELP)
    limit = QueryLimitField(default=100, help_text="The most items to show.")
    state = serializers.ChoiceField(choices=STATES, default="ready", help_text="Which items.")
    min_priority = QueryNumberField(
        required=False, help_text="The lowest priority to show, itself included."
    )
    max_priority = QueryNumberField(
        required=False, help_text="The highest priority to show, itself included."
    )
