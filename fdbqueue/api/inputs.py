"""Request bodies and queries: a serializer for each.

The fields of a body are the arguments of the queue's method, so a new argument is one field here.
The values of items are converted by the queue's codec: nothing here depends on which it is.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from rest_framework import serializers

from fdbqueue import conf
from fdbqueue.api import pagination
from fdbqueue.api.fields import (
    AnyJSONField,
    CursorField,
    FlagField,
    IdField,
    LeaseField,
    LimitField,
    MomentField,
    NameField,
    PriorityInputField,
    QueryLimitField,
    QueryNumberField,
    SecondsField,
    TextField,
    UniqueField,
    WaitField,
)
from fdbqueue.exceptions import InvalidValue, message_of
from fdbqueue.service import (
    CODECS,
    ENDS,
    ITEM_STATES,
    LEASE_SECONDS,
    MAX_WORKER_CHARACTERS,
    ORDERS,
    UNIQUE_WHILE,
    Push,
    Queue,
)

#: How the JSON of a value is made, for each codec that the setting may name.
VALUE_HELP = "; ".join(
    f"with the codec `{name}`, {codec.in_json}" for name, codec in CODECS.items()
)

#: At most this many patterns name the queues of one request.
MAX_PATTERNS = 100
#: At most this many unknown keys are named.
_SHOWN = 20
_END_HELP = "`min`: lowest priority, first pushed first. `max`: the same order from the other end."


class Input(serializers.Serializer[Any]):
    """A body or a query; unknown keys are refused."""

    #: The JSON Schema of what is refused though each field is valid.
    refused: ClassVar[Mapping[str, Any] | None] = None

    def to_internal_value(self, data: Any) -> Any:
        """Return the checked data.

        Raises:
            ValidationError: It is not an object, has an unknown key, or a field is invalid.
        """
        if not isinstance(data, Mapping):
            raise serializers.ValidationError(["A JSON object is required."])
        unknown = heapq.nsmallest(_SHOWN, data.keys() - self.fields.keys())
        if unknown:
            raise serializers.ValidationError({name: ["Unknown key."] for name in unknown})
        return super().to_internal_value(data)


class NoParameters(Input):
    """The query of an address that has no parameters."""


class QueuesQuery(Input):
    """Which page of the queues to list."""

    cursor = CursorField(
        required=False,
        max_length=1_000,
        help_text="Where the page starts: the `cursor` of the previous page.",
    )
    limit = QueryLimitField(default=100, help_text="The maximum number of queues to return.")


def _reason(**options: Any) -> TextField:
    """Return the field of a reason, which the service keeps 1,000 characters of."""
    return TextField(allow_blank=True, max_length=1_000, **options)


def _ids(**options: Any) -> LimitedList:
    """Return the field of the ids of items, as many as one request may name."""
    return LimitedList(child=IdField(), max_length=conf.MAX_ITEMS_A_REQUEST, **options)


class PauseBody(Input):
    """Why the queue is paused."""

    reason = _reason(
        required=False,
        help_text="The reason that is shown with the queue; without one a paused queue keeps "
        "its own.",
    )


class ResumeBody(Input):
    """Nothing: resuming a queue has no options."""


class PushBody(Input):
    """One item to push."""

    refused = MappingProxyType({"required": ["delay", "not_before"]})

    value = AnyJSONField(
        allow_null=True,
        help_text=f"The value to push: {VALUE_HELP}.",
    )
    priority = PriorityInputField(
        allow_null=True,
        required=False,
        help_text="A number of the queue's priority type; 0 by default. Not for a FIFO queue.",
    )
    delay = SecondsField(
        required=False, help_text="Hide the item for this many seconds, at most ten years."
    )
    not_before = MomentField(
        required=False,
        help_text=(
            "Hide the item until then, in place of `delay`: RFC 3339 with an offset, at most ten "
            "years ahead."
        ),
    )
    unique = UniqueField(
        required=False,
        help_text=(
            "A key of at most 1,000 bytes in UTF-8, which at most one item of the queue has at a "
            "time: if an item has it, nothing is pushed."
        ),
    )
    unique_while = serializers.ChoiceField(
        choices=UNIQUE_WHILE,
        required=False,
        help_text=(
            "How long the item has its unique key. `pending`, the default: until it is popped, "
            "acknowledged, dead or removed. `ready`: until it is popped or leased."
        ),
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Return the checked data.

        Raises:
            ValidationError: It has both a delay and a time.
        """
        if "delay" in attrs and "not_before" in attrs:
            raise serializers.ValidationError(
                {"not_before": ["Use only one of `delay` and `not_before`."]}
            )
        return attrs


class _LimitedMembers:
    """A list with at most ``MAX_LIMIT`` members; the members of longer ones are not checked."""

    def to_internal_value(self, data: Any) -> Any:
        """Return the checked members.

        Raises:
            ValidationError: There are too many, or one is invalid.
        """
        most = conf.api().max_limit
        if isinstance(data, list) and len(data) > most:
            raise serializers.ValidationError([f"Ensure there are no more than {most} items."])
        return super().to_internal_value(data)  # type: ignore[misc]  # of a list's class


class Pushes(_LimitedMembers, serializers.ListSerializer[Any]):
    """The items of one push."""


class LimitedList(_LimitedMembers, serializers.ListField):
    """The tokens of leases, or the ids of items."""


class PushManyBody(Input):
    """Many items to push, in one transaction."""

    items = Pushes(child=PushBody(), allow_empty=False, max_length=conf.MAX_ITEMS_A_REQUEST)


class PopBody(Input):
    """How many items to pop, from which end, and how long to wait."""

    end = serializers.ChoiceField(choices=ENDS, default="min", help_text=_END_HELP)
    limit = LimitField(default=1, help_text="The maximum number of items to take.")
    wait = WaitField(default=0, help_text="Wait up to this many seconds if there is no item.")


class LeaseBody(PopBody):
    """How many items to lease, and for how long."""

    seconds = SecondsField(
        default=LEASE_SECONDS, help_text="How long the lease lasts, in seconds, at most ten years."
    )
    worker = TextField(
        required=False,
        max_length=MAX_WORKER_CHARACTERS,
        help_text="Who leases: printable characters, shown as long as the lease is held.",
    )


class NameList(LimitedList):
    """Names of queues, and patterns: each pattern is compared with every name there is."""

    def to_internal_value(self, data: Any) -> Any:
        """Return the checked names.

        Raises:
            ValidationError: There are too many names or patterns, or one is invalid.
        """
        names = super().to_internal_value(data)
        if sum("*" in name for name in names) > MAX_PATTERNS:
            raise serializers.ValidationError(
                [f"Ensure there are no more than {MAX_PATTERNS} patterns."]
            )
        return names


class _Several(Input):
    """From which queues to take."""

    queues = NameList(
        child=NameField(max_length=100),
        allow_empty=False,
        max_length=conf.MAX_ITEMS_A_REQUEST,
        help_text=(
            f"Names of queues, and at most {MAX_PATTERNS} patterns with `*`: the first that has "
            "items gives, or with a pattern each in turn."
        ),
    )
    fair = FlagField(
        default=None,
        allow_null=True,
        help_text=(
            "Take from the queues in turn, not from the first that has items. By default they take "
            "turns if one of the names is a pattern."
        ),
    )


class PopFromBody(_Several, PopBody):
    """From which queues to pop, how many items, from which end, and how long to wait."""


class LeaseFromBody(_Several, LeaseBody):
    """From which queues to lease, how many items, and for how long."""


class _One(Input):
    """One lease."""

    lease = LeaseField()


class _Many(Input):
    """Many leases."""

    leases = LimitedList(
        child=LeaseField(),
        allow_empty=False,
        max_length=conf.MAX_ITEMS_A_REQUEST,
        help_text="The tokens of the leases.",
    )


class _GivenUp(Input):
    """When a nacked item is ready again, and why it was nacked."""

    delay = SecondsField(required=False, help_text="Hide the item for this many seconds.")
    reason = _reason(
        required=False,
        help_text="The reason that the dead letter shows, if the item becomes one.",
    )


class _Extended(Input):
    """How long a lease lasts from now on."""

    seconds = SecondsField(
        default=LEASE_SECONDS, help_text="How long the lease lasts from now on, in seconds."
    )


class AckBody(_One):
    """The lease to acknowledge."""


class AckManyBody(_Many):
    """The leases to acknowledge."""


class NackBody(_One, _GivenUp):
    """The lease to give up, and what happens to its item."""


class NackManyBody(_Many, _GivenUp):
    """The leases to give up, and what happens to their items."""


class ExtendBody(_One, _Extended):
    """The lease to extend."""


class ExtendManyBody(_Many, _Extended):
    """The leases to extend."""


class BuryBody(Input):
    """The ready item to make a dead letter, and why."""

    id = IdField()
    reason = _reason(
        default="buried",
        help_text="The reason that the dead letter shows.",
    )


class RedriveBody(Input):
    """Which dead letters to redrive."""

    ids = _ids(
        allow_null=True, default=None, help_text="The ids of the dead letters; null for all."
    )
    reason = _reason(
        allow_null=True,
        default=None,
        help_text="Only dead letters of this reason, as `dead-reasons` names it; null for all.",
    )
    limit = LimitField(
        default=conf.MAX_ITEMS_A_REQUEST,
        help_text="The maximum number of dead letters to redrive, the first ones.",
    )


class GiveBackBody(Input):
    """Which leased items to give back: some, or what a worker holds."""

    refused = MappingProxyType(
        {"not": {"anyOf": [{"required": ["ids"]}, {"required": ["worker"]}]}}
    )

    ids = _ids(required=False, help_text="The ids of the items.")
    worker = TextField(
        required=False,
        max_length=MAX_WORKER_CHARACTERS,
        help_text="Only what the worker with this name holds.",
    )
    spend = FlagField(
        default=True,
        help_text="Whether the attempt counts. False for items that nobody has begun with.",
    )
    limit = LimitField(
        default=conf.MAX_ITEMS_A_REQUEST,
        help_text="The maximum number of items to give back, the first ones.",
    )

    def validate(self, attrs: Any) -> Any:
        """Refuse a body that does not say which items.

        Raises:
            ValidationError: It has neither ids nor a worker.
        """
        if not attrs.keys() & {"ids", "worker"}:
            raise serializers.ValidationError("Say which items: ids, or a worker.")
        return attrs


class RunNowBody(Input):
    """Which delayed items to make ready now."""

    ids = _ids(
        allow_null=True,
        default=None,
        help_text="The ids of the items; null for all that are delayed.",
    )
    limit = LimitField(
        default=conf.MAX_ITEMS_A_REQUEST,
        help_text="The maximum number of items to make ready, the first ones.",
    )


class PurgeBody(Input):
    """Which items to remove for good."""

    refused = MappingProxyType(
        {
            "required": ["state", "reason"],
            "properties": {
                "state": {"enum": [state for state in ITEM_STATES if state != "dead"]},
                "reason": {"type": "string"},
            },
        }
    )

    state = serializers.ChoiceField(choices=ITEM_STATES, help_text="The state of the items.")
    reason = _reason(
        allow_null=True,
        default=None,
        help_text="Only dead letters of this reason, as `dead-reasons` names it; null for all. "
        "Only with the state `dead`.",
    )
    limit = LimitField(
        default=conf.MAX_ITEMS_A_REQUEST,
        help_text="The maximum number of items to remove, the first ones.",
    )


class ReasonsQuery(Input):
    """How many reasons to list."""

    limit = QueryLimitField(default=100, help_text="The maximum number of reasons to return.")


class PeekQuery(Input):
    """How many items to show, from which end."""

    end = serializers.ChoiceField(choices=ENDS, default="min", help_text=_END_HELP)
    limit = QueryLimitField(default=1, help_text="The maximum number of items to return.")


class ItemsQuery(Input):
    """Which page of the items to list."""

    cursor = CursorField(
        required=False,
        max_length=pagination.MAX_CURSOR_CHARACTERS,
        help_text="Where the page starts: the `cursor` of the previous page of this list.",
    )
    end = serializers.ChoiceField(choices=ENDS, default="min", help_text=_END_HELP)
    limit = QueryLimitField(default=100, help_text="The maximum number of items to return.")
    state = serializers.ChoiceField(
        choices=ITEM_STATES, default="ready", help_text="The state of the items."
    )
    order = serializers.ChoiceField(
        choices=ORDERS,
        default="place",
        help_text="By their places in the queue, or by time: leased and delayed items by when that "
        "ends, dead letters by when they died. With `end=max` the latest comes first.",
    )
    min_priority = QueryNumberField(
        required=False, help_text="The lowest priority to return, inclusive."
    )
    max_priority = QueryNumberField(
        required=False, help_text="The highest priority to return, inclusive."
    )
    worker = TextField(
        required=False,
        max_length=MAX_WORKER_CHARACTERS,
        help_text="Only items that the worker with this name has leased: needs `state=leased`. Of "
        "each page the others are left out, so that it may have fewer items than `limit`, even "
        "none, and not be the last.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Return the checked data.

        Raises:
            ValidationError: It names a worker of items that have none.
        """
        if "worker" in attrs and attrs["state"] != "leased":
            raise serializers.ValidationError({"worker": ["Only leased items have a worker."]})
        return attrs


def from_json(value: Any, queue: Queue) -> Any:
    """Return the value to push into a queue for a JSON value.

    Raises:
        InvalidValue: The queue's codec has no value for it.
    """
    try:
        return queue.codec.from_json(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidValue(
            queue=queue.name, codec=queue.codec.name, reason=message_of(error)
        ) from error


def pushes_of(queue: Queue, entries: Sequence[Mapping[str, Any]]) -> list[Push]:
    """Return the pushes for the checked entries of a request.

    Args:
        queue: The queue to push to.
        entries: The arguments of each push.

    Raises:
        InvalidValue: The queue's codec has no value for one; the context has its ``index``.
    """
    pushes = []
    for index, entry in enumerate(entries):
        try:
            pushes.append(Push(**{**entry, "value": from_json(entry["value"], queue)}))
        except InvalidValue as error:
            raise InvalidValue(**error.context, index=index) from error
    return pushes
