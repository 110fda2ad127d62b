"""Responses: a serializer for each shape of JSON that the API returns.

A field is declared once: its ``source`` names the attribute it shows, and its class how. What an
action may return has an ``example``, for the schema.
"""

from __future__ import annotations

import base64
import datetime
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from rest_framework import serializers

from fdbqueue.api.fields import AnyJSONField, PriorityField
from fdbqueue.api.inputs import VALUE_HELP
from fdbqueue.columns.queue_rows import (
    QueueRow,
    begin_counts,
    begin_first,
    begin_last,
    begin_oldest,
    begin_pauses,
    fill,
)
from fdbqueue.service import (
    CODECS,
    ITEM_STATES,
    KINDS,
    Codec,
    Failure,
    Held,
    Item,
    Pause,
    Queue,
    QueueOptions,
    Undecodable,
)
from fdbqueue.service.options import ALLOWED, Choice, RateText, texts_of

#: What a field returns in place of a value to leave out its key.
_LEFT_OUT = object()
#: The options of a queue, as an example shows them.
_DEFAULTS = QueueOptions().shown("priority")


class Output(serializers.Serializer[Any]):
    """A JSON object whose keys are the declared fields.

    Faster than DRF's own, because a response may have a thousand items: a field shows a value by
    its method ``shown``, or as it is.
    """

    @classmethod
    def shown(cls, instance: Any, codec: Codec) -> Any:
        """Return the JSON of an object, null for None; ``codec`` is the queue's."""
        if instance is None:
            return None
        keys = {}
        for name, read, show in _readers(cls):
            value = read(instance) if show is None else show(read(instance), codec)
            if value is not _LEFT_OUT:
                keys[name] = value
        return keys


_Reader = tuple[str, Callable[[Any], Any], Callable[[Any, Codec], Any] | None]


@functools.cache
def _readers(kind: type[Output]) -> list[_Reader]:
    """Return for each field its name, what reads its attribute, and what shows the value."""
    fields = kind._declared_fields.items()  # noqa: SLF001  # an instance would copy them
    return [
        (name, operator.attrgetter(field.source or name), getattr(field, "shown", None))
        for name, field in fields
    ]


class TimeField(serializers.DateTimeField):
    """A moment in UTC, in ISO 8601."""

    @staticmethod
    def shown(moment: datetime.datetime | None, _codec: Codec) -> str | None:
        """Return the moment as text."""
        return None if moment is None else moment.isoformat().replace("+00:00", "Z")


class ValueField(AnyJSONField):
    """The value of an item."""

    @staticmethod
    def shown(value: Any, codec: Codec) -> Any:
        """Return the JSON of a value, null if it cannot be decoded."""
        return None if isinstance(value, Undecodable) else codec.to_json(value)


class UndecodableOutput(serializers.Serializer[Any]):
    """The stored bytes of an item that cannot be decoded."""

    base64 = serializers.CharField(help_text="The bytes.")
    reason = serializers.CharField(help_text="Why they cannot be decoded.")

    @staticmethod
    def shown(value: Any, _codec: Codec) -> Any:
        """Return the bytes and the reason; the key is left out if the value was decoded."""
        if not isinstance(value, Undecodable):
            return _LEFT_OUT
        return {"base64": base64.b64encode(value.raw).decode(), "reason": value.reason}


class FailureOutput(Output):
    """One failed attempt at an item."""

    attempt = serializers.IntegerField(min_value=1, help_text="Which attempt, the first being 1.")
    at = TimeField(help_text="When it failed, in UTC.")
    worker = serializers.CharField(
        allow_null=True, help_text="Who held the lease, by the name that it gave; null for none."
    )
    reason = serializers.CharField(help_text="Why it failed.")


class FailureList(serializers.ListSerializer[Any]):
    """The failed attempts at an item."""

    @staticmethod
    def shown(found: Sequence[Failure], codec: Codec) -> Any:
        """Return the JSON of the failures; the key is left out if there are none."""
        return [FailureOutput.shown(one, codec) for one in found] or _LEFT_OUT


class ItemOutput(Output):
    """An item of a queue."""

    example: ClassVar[Any] = {
        "id": "IcAZmZmZmZmaFAGiw6bVvSlXcb2dMBh3QyQx9sA",
        "priority": 6.4,
        "value": {"id": "us1000chhc", "place": "22km NNE of Hualian, Taiwan"},
        "pushed_at": "2026-11-21T03:12:44.251094Z",
        "attempts": 0,
        "size": 94,
        "state": "ready",
        "until": None,
        "reason": None,
        "died_at": None,
        "worker": None,
    }

    id = serializers.CharField(help_text="Identifies the item in its queue.")
    priority = PriorityField(
        allow_null=True, help_text="Of the queue's priority type; null in a FIFO queue."
    )
    value = ValueField(allow_null=True, help_text=f"What was pushed: {VALUE_HELP}.")
    pushed_at = TimeField(
        allow_null=True, help_text="In UTC; null if the codec does not record it."
    )
    attempts = serializers.IntegerField(
        min_value=0, help_text="How often the item was leased and given up."
    )
    size = serializers.IntegerField(
        source="size_bytes", min_value=0, help_text="The size of the stored value in bytes."
    )
    state = serializers.ChoiceField(choices=ITEM_STATES)
    until = TimeField(allow_null=True, help_text="When the lease or the delay ends.")
    reason = serializers.CharField(allow_null=True, help_text="Why the item is dead.")
    died_at = TimeField(allow_null=True, help_text="When the item died, in UTC.")
    worker = serializers.CharField(
        allow_null=True, help_text="Who holds the lease, by the name that it gave; null for none."
    )
    failures = FailureList(
        child=FailureOutput(),
        required=False,
        help_text=(
            "The last three failed attempts, the latest last. Present only if there are any, and "
            "the item was read by its id or as a dead letter."
        ),
    )
    undecodable = UndecodableOutput(
        source="value",
        required=False,
        help_text="Present only if the stored value cannot be decoded.",
    )


class PushedItemOutput(ItemOutput):
    """An item that was pushed, or that has the unique key of the push."""

    existing = serializers.BooleanField(
        required=False,
        help_text=(
            "Present only if the request has a unique key. True if an item had it: this is that "
            "item, and nothing was pushed."
        ),
    )


class ExistingOutput(Output):
    """An item that has the unique key of a push, for a user who may not view the queue."""

    id = serializers.CharField(help_text="Identifies the item in its queue.")
    existing = serializers.BooleanField(help_text="True: nothing was pushed.")


class LeasedItemOutput(ItemOutput):
    """An item, and the token of its lease."""

    example: ClassVar[Any] = {
        **ItemOutput.example,
        "state": "leased",
        "until": "2026-11-21T03:14:02.118930Z",
        "worker": "mail1:4711",
        "lease": f"{ItemOutput.example['id']}.jMQ2h9o1x4E",
    }

    lease = serializers.CharField(
        help_text="The token to ack, nack or extend the lease with; keep it secret."
    )


class ItemsOutput(serializers.Serializer[Any]):
    """Items, in order."""

    example: ClassVar[Any] = {"items": [ItemOutput.example]}

    items = ItemOutput(many=True)


class LeasedItemsOutput(serializers.Serializer[Any]):
    """Leased items, in order."""

    example: ClassVar[Any] = {"items": [LeasedItemOutput.example]}

    items = LeasedItemOutput(many=True)


class _FromOutput(serializers.Serializer[Any]):
    """The queue that gave."""

    queue = serializers.CharField(
        allow_null=True, help_text="The queue that the items are of; null if there are none."
    )


class PoppedFromOutput(_FromOutput, ItemsOutput):
    """Items of one of several queues, in order, and the name of the queue."""

    example: ClassVar[Any] = {"queue": "quakes", **ItemsOutput.example}


class LeasedFromOutput(_FromOutput, LeasedItemsOutput):
    """Leased items of one of several queues, in order, and the name of the queue."""

    example: ClassVar[Any] = {"queue": "quakes", **LeasedItemsOutput.example}


class ItemPageOutput(ItemsOutput):
    """A page of items, and where the next page starts."""

    example: ClassVar[Any] = {
        **ItemsOutput.example,
        "cursor": f"{ItemOutput.example['id']}:w0dX3cW5rU9sA7bqJx1M4yZ2kT8nL6vE_hG-fPiQoCY",
    }

    cursor = serializers.CharField(
        allow_null=True, help_text="The cursor of the next page; null if there is none."
    )


class DeadReasonOutput(Output):
    """The dead letters of one reason."""

    example: ClassVar[Any] = {"reason": "ConnectionError: timed out", "count": 3}

    reason = serializers.CharField(
        help_text="The first line of the reason, at most 200 characters of it."
    )
    count = serializers.IntegerField(min_value=1)


class DeadReasonsOutput(serializers.Serializer[Any]):
    """The reasons of dead letters, the most frequent first."""

    example: ClassVar[Any] = {"reasons": [DeadReasonOutput.example], "dead": 3}

    reasons = DeadReasonOutput(many=True)
    dead = serializers.IntegerField(
        min_value=0, help_text="The number of dead letters, also of reasons that are not listed."
    )


class CountsOutput(Output):
    """The number of items of a queue in each state."""

    ready = serializers.IntegerField()
    leased = serializers.IntegerField()
    delayed = serializers.IntegerField()
    dead = serializers.IntegerField()


class PauseOutput(Output):
    """Since when and why a queue is paused."""

    example: ClassVar[Any] = {
        "since": "2026-11-21T03:10:00.530217Z",
        "reason": "deploying 2.4",
        "family": None,
    }

    since = TimeField(help_text="In UTC.")
    reason = serializers.CharField(allow_blank=True, help_text="What was given as the reason.")
    family = serializers.CharField(
        allow_null=True,
        help_text="The pattern that is paused, with all queues that fit it; null if it is this "
        "queue alone.",
    )


class PausedOutput(serializers.Serializer[Any]):
    """The result of pausing a queue."""

    example: ClassVar[Any] = {"paused": PauseOutput.example}

    paused = PauseOutput(help_text="Since when, also if it was paused before, and why.")


class HomeField(serializers.CharField):
    """The queue that one is a part of; the key is left out of others."""

    @staticmethod
    def shown(queue: Queue, _codec: Codec) -> Any:
        """Return the name of its home."""
        return queue.home if queue.is_part else _LEFT_OUT


class QueueOutput(Output):
    """A queue, its settings, and the number of its items."""

    example: ClassVar[Any] = {
        "name": "quakes",
        "kind": "priority",
        "codec": "json",
        "priority_type": "float",
        "counts": {"ready": 1706, "leased": 1, "delayed": 0, "dead": 0},
        "paused": None,
    }

    name = serializers.CharField(source="queue.name")
    home = HomeField(
        source="queue",
        required=False,
        help_text=(
            "Present only if the queue is a part of another one, as that of a key of limited tasks "
            "is: the name of that."
        ),
    )
    kind = serializers.ChoiceField(source="queue.kind", choices=tuple(KINDS))
    codec = serializers.ChoiceField(source="queue.codec.name", choices=texts_of("codec"))
    priority_type = serializers.ChoiceField(
        source="queue.priority_type",
        choices=texts_of("priority_type"),
        allow_null=True,
        help_text="Null for a FIFO queue.",
    )
    counts = CountsOutput()
    paused = PauseOutput(
        source="pause",
        allow_null=True,
        help_text="Since when and why; null for a queue that is not paused.",
    )


class QueuePageOutput(serializers.Serializer[Any]):
    """A page of queues, sorted by name, and where the next page starts."""

    example: ClassVar[Any] = {"queues": [QueueOutput.example], "cursor": None}

    queues = QueueOutput(many=True)
    cursor = serializers.CharField(
        allow_null=True,
        help_text="The cursor of the next page; null on the last. A page may be short, even empty.",
    )


def _option_field(name: str) -> serializers.Field[Any, Any, Any, Any]:
    allowed, source = ALLOWED[name], f"queue.options.{name}"
    if isinstance(allowed, Choice):
        return serializers.ChoiceField(source=source, choices=allowed.texts)
    if isinstance(allowed, RateText):
        return serializers.CharField(source=source, allow_null=True)
    kind = serializers.IntegerField if allowed.kind is int else serializers.FloatField
    return kind(source=source, allow_null=allowed.none_is_valid)


class QueueDetailOutput(QueueOutput):
    """A queue, all its settings, and the items at its two ends."""

    example: ClassVar[Any] = {
        **QueueOutput.example,
        **{name: value for name, value in _DEFAULTS.items() if name not in QueueOutput.example},
        "oldest": ItemOutput.example["pushed_at"],
        "first": ItemOutput.example,
        "last": ItemOutput.example,
    }

    # each option that a list of queues does not show, as if it were declared here
    vars().update(
        (name, _option_field(name))
        for name in ALLOWED
        if name not in QueueOutput._declared_fields  # noqa: SLF001  # as above
    )
    oldest = TimeField(
        allow_null=True, help_text="When the oldest ready item was pushed; null if not known."
    )
    first = ItemOutput(allow_null=True, help_text="The item at the min end.")
    last = ItemOutput(allow_null=True, help_text="The item at the max end.")


class PushedOutput(serializers.Serializer[Any]):
    """The result of pushing many items."""

    pushed = serializers.IntegerField(
        min_value=0, help_text="The number of pushed items: all but those that were there already."
    )
    ids = serializers.ListField(
        child=serializers.CharField(),
        help_text="The ids of all items, in order; if one was there already, its id.",
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

    example: ClassVar[Any] = {"acked": 1, "lost": 0, "lost_leases": []}

    acked = serializers.IntegerField(min_value=0, help_text="The number of removed items.")


class NackedOutput(LostOutput):
    """The result of giving up leases."""

    example: ClassVar[Any] = {
        "nacked": 0,
        "lost": 1,
        "lost_leases": [LeasedItemOutput.example["lease"]],
    }

    nacked = serializers.IntegerField(min_value=0, help_text="The number of nacked items.")


class ExtendedOutput(LostOutput):
    """The result of extending leases."""

    extended = serializers.IntegerField(min_value=0, help_text="The number of extended leases.")


class BuriedOutput(serializers.Serializer[Any]):
    """The result of burying an item."""

    example: ClassVar[Any] = {"buried": 1}

    buried = serializers.IntegerField(help_text="The number of items: 1.")


class RemovedOutput(serializers.Serializer[Any]):
    """The result of removing an item."""

    example: ClassVar[Any] = {"removed": 1}

    removed = serializers.IntegerField(help_text="The number of items: 1.")


class _BoundedOutput(serializers.Serializer[Any]):
    """The result of a request that does a part of the work."""

    more = serializers.BooleanField(
        help_text="Whether it ended at its limit or its time, so that there may be more to do."
    )


class RedrivenOutput(_BoundedOutput):
    """The result of requeuing dead letters."""

    example: ClassVar[Any] = {"redriven": 3, "undecodable": 0, "more": False}

    redriven = serializers.IntegerField(min_value=0, help_text="The number of redriven items.")
    undecodable = serializers.IntegerField(
        min_value=0,
        help_text="The number of dead letters that cannot be decoded. They stay dead, unless `ids` "
        "named them: then they block the queue.",
    )


def bounded(name: str, number: str, doing: str) -> type[_BoundedOutput]:
    """Return the shape of the result of a verb that does a part of the work.

    Args:
        name: The name of its class, which the schema has.
        number: The key of how many items there were.
        doing: What was done to which items.
    """
    said = serializers.IntegerField(min_value=0, help_text="The number of items.")
    facts = {"__doc__": f"The result of {doing}.", "example": {number: 3, "more": False}}
    return type(name, (_BoundedOutput,), {**facts, number: said, "__module__": __name__})


class PurgedOutput(_BoundedOutput):
    """The result of removing the items in a state."""

    example: ClassVar[Any] = {"purged": 3, "more": False}

    purged = serializers.IntegerField(min_value=0, help_text="The number of removed items.")


class ResumedOutput(serializers.Serializer[Any]):
    """The result of resuming a queue."""

    example: ClassVar[Any] = {"resumed": True}

    resumed = serializers.BooleanField(help_text="Whether the queue was paused.")


def items(queue: Queue, found: Sequence[Item], kind: type[Output] = ItemOutput) -> list[Any]:
    """Return the JSON of a queue's items."""
    return [kind.shown(one, queue.codec) for one in found]


def dead_reasons(queue: Queue, tr: Any, limit: int) -> dict[str, Any]:
    """Return the JSON of the reasons of a queue's dead letters, all at one read version."""
    found = queue.dead_by_reason(limit=limit, tr=tr)
    shown = [DeadReasonOutput.shown(one, queue.codec) for one in found]
    return {"reasons": shown, "dead": queue.counts(tr=tr).dead}


def item(queue: Queue, found: Item, kind: type[Output] = ItemOutput) -> dict[str, Any]:
    """Return the JSON of one of a queue's items."""
    return items(queue, [found], kind)[0]


def pause(made: Pause) -> dict[str, Any]:
    """Return the JSON of a pause."""
    return PauseOutput.shown(made, CODECS["json"]())  # it has no values


def queue_rows(tr: Any, queues: Sequence[Queue]) -> list[Any]:
    """Return the JSON of queues in a list, all at one read version."""
    rows = [QueueRow(queue) for queue in queues]
    fill(tr, [(begin, rows) for begin in (begin_counts, begin_pauses)])
    return [QueueOutput.shown(row, row.queue.codec) for row in rows]


def queue_detail(queue: Queue, tr: Any) -> dict[str, Any]:
    """Return the JSON of a queue with the items at its two ends, all at one read version."""
    row = QueueRow(queue)
    reads = (begin_first, begin_last, begin_counts, begin_pauses, begin_oldest)
    fill(tr, [(begin, [row]) for begin in reads])
    return QueueDetailOutput.shown(row, queue.codec)


def pushed(found: Sequence[Item], *, is_unique: bool) -> dict[str, Any]:
    """Return the JSON of the result of pushing many items, some perhaps with unique keys."""
    ids = [one.id for one in found]
    if not is_unique:
        return {"pushed": len(ids), "ids": ids}
    existing = [position for position, one in enumerate(found) if one.existing]
    return {"pushed": len(ids) - len(existing), "ids": ids, "existing": existing}


def held(done: str, found: Held | None) -> dict[str, Any]:
    """Return the JSON of an operation on leases; ``found`` is None if it was one lease."""
    count, lost = (1, ()) if found is None else (int(found), found.lost)
    return {done: count, "lost": len(lost), "lost_leases": list(lost)}
