"""The OpenAPI schema, if the project has installed drf-spectacular.

What the schema says beyond the serializers is here, so the API itself does not need that package.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable
from typing import Any, ClassVar

from drf_spectacular.extensions import (
    OpenApiSerializerExtension,
    OpenApiSerializerFieldExtension,
    OpenApiViewExtension,
)
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    OpenApiParameter,
    OpenApiResponse,
    PolymorphicProxySerializer,
    extend_schema,
    extend_schema_serializer,
    extend_schema_view,
)

from fdbqueue import conf
from fdbqueue.api import examples, inputs, outputs
from fdbqueue.api.pagination import MAX_CURSOR_CHARACTERS
from fdbqueue.service import MAX_SECONDS, MAX_UNIQUE_BYTES

extend_schema_serializer(many=False)(outputs.QueuePageOutput)

_PUSH = PolymorphicProxySerializer(
    component_name="Push",
    serializers=[inputs.PushBody, inputs.PushManyBody],
    resource_type_field_name=None,
)
_PUSHED = PolymorphicProxySerializer(
    component_name="Pushed",
    serializers=[outputs.PushedItemOutput, outputs.PushedOutput],
    resource_type_field_name=None,
)
_EXISTING = PolymorphicProxySerializer(
    component_name="Existing",
    serializers=[outputs.PushedItemOutput, outputs.ExistingOutput],
    resource_type_field_name=None,
)
_ACK = PolymorphicProxySerializer(
    component_name="Ack",
    serializers=[inputs.AckBody, inputs.AckManyBody],
    resource_type_field_name=None,
)
_NACK = PolymorphicProxySerializer(
    component_name="Nack",
    serializers=[inputs.NackBody, inputs.NackManyBody],
    resource_type_field_name=None,
)
_EXTEND = PolymorphicProxySerializer(
    component_name="Extend",
    serializers=[inputs.ExtendBody, inputs.ExtendManyBody],
    resource_type_field_name=None,
)
_EXTENDED = PolymorphicProxySerializer(
    component_name="Extended",
    serializers=[outputs.LeasedItemOutput, outputs.ExtendedOutput],
    resource_type_field_name=None,
)

_NAME = OpenApiParameter(
    "name", OpenApiTypes.STR, OpenApiParameter.PATH, description="The queue's name."
)
_ID = OpenApiParameter(
    "id",
    {
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_CURSOR_CHARACTERS,
        "pattern": "^[~A-Za-z0-9_-]+$",
    },
    OpenApiParameter.PATH,
    description="The item's id, in any state.",
)
_KEY = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    OpenApiParameter.HEADER,
    description=(
        "Identifies this request among the user's requests to this queue. Repeating a request "
        "with the same key returns the same response and has no second effect. Keys are kept for "
        "a day, unless the server is configured otherwise."
    ),
)
_REPLAYED = OpenApiParameter(
    "Idempotent-Replayed",
    {"type": "string", "enum": ["true"]},
    OpenApiParameter.HEADER,
    description="Present only if the response is that of an earlier request with the same key.",
    response=[200, 201],
)
_RETRY = OpenApiParameter(
    "Retry-After",
    OpenApiTypes.INT,
    OpenApiParameter.HEADER,
    description="Try again after this many seconds.",
    response=[429, 503],
)

#: A body has at most one of these fields.
_EITHER = frozenset({"delay", "not_before"})
#: JSON strings may have the character NUL; texts here may not.
_NO_NUL = r"^[^\x00]*$"

#: The description of each error status.
_ERRORS = {
    400: "The input is not valid; nothing was changed.",
    401: "Credentials are missing or wrong.",
    403: "The user may not do this to this queue.",
    404: "There is no such queue, or no such item in the queue.",
    406: "The client does not accept JSON, the only format of responses.",
    409: "The state of the queue does not allow the request; nothing was changed.",
    413: "The body, a value or the batch is too large; nothing was changed.",
    414: "The address, including its query, is too long.",
    415: "The body is not JSON, or it is compressed.",
    422: "The idempotency key was used for another request; nothing was changed.",
    429: "The user has sent too many requests.",
    503: "The database did not respond in time.",
}
_ALWAYS = (400, 401, 403, 406, 414, 429, 503)
_WITHOUT_KEY = (404, 413, 415)
_ON_POST = (*_WITHOUT_KEY, 409, 422)


def _errors(codes: Iterable[int]) -> dict[int, OpenApiResponse]:
    return {
        code: OpenApiResponse(
            outputs.ErrorOutput, description=_ERRORS[code], examples=examples.of_error(code)
        )
        for code in sorted({*_ALWAYS, *codes})
    }


def _reads(operation_id: str, answer: Any, *codes: int, **more: Any) -> Any:
    """Describe an action that only reads."""
    parameters = [*more.pop("parameters", ()), _RETRY]
    return extend_schema(
        operation_id=operation_id,
        tags=["queues"],
        parameters=parameters,
        responses={200: answer, **_errors(codes)},
        examples=examples.of_operation(operation_id),
        **more,
    )


def _changes(
    operation_id: str,
    body: Any,
    answer: Any,
    *,
    existing: Any = None,
    keyed: bool = True,
    is_named: bool = True,
) -> list[Any]:
    """Describe an action that changes a queue.

    Args:
        operation_id: Its name.
        body: Its body.
        answer: What it returns.
        existing: What it returns instead if it finds what it was to make.
        keyed: Whether it takes an idempotency key.
        is_named: Whether the address names the queue, and not the body.
    """
    answers = {200: answer} if existing is None else {201: answer, 200: existing}
    named, keys = [_NAME] if is_named else [], [_KEY, _REPLAYED] if keyed else []
    described = extend_schema(
        operation_id=operation_id,
        tags=["queues"],
        parameters=[*named, *keys, _RETRY],
        request=body,
        responses={**answers, **_errors(_ON_POST if keyed else _WITHOUT_KEY)},
        examples=examples.of_operation(operation_id),
    )
    return [described, _needs_body]


def _copied(method: Any) -> Any:
    """Return a copy of a method, so that its description does not become the method's own."""

    @functools.wraps(method)
    def copied(*args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs)

    return copied


def _seen(method: Any) -> Any:
    """Return a method that no router routes, as one that drf-spectacular describes all the same."""
    seen = _copied(method)
    seen.mapping = {}  # what it tells actions by
    return seen


def _remove(method: Any) -> Any:
    """Return a copy of the method that removes an item, described."""
    responses = {200: outputs.RemovedOutput, **_errors((404,))}
    return extend_schema(
        operation_id="queues_remove",
        tags=["queues"],
        parameters=[_NAME, _ID, _RETRY],
        request=None,
        responses=responses,
        examples=examples.of_operation("queues_remove"),
    )(_copied(method))


def _needs_body(method: Any) -> Any:
    """Mark the body of a method as required, even if all its keys are optional."""

    class NeededBody(method.kwargs["schema"]):  # type: ignore[misc, name-defined]  # the project's
        def _get_request_body(self, direction: Any = "request") -> Any:
            return {**super()._get_request_body(direction), "required": True}

    method.kwargs["schema"] = NeededBody
    return method


class QueueViewSetSchema(OpenApiViewExtension):
    """The schema of the viewset."""

    target_class = "fdbqueue.api.viewsets.QueueViewSet"

    def view_replacement(self) -> Any:
        """Return the viewset with its descriptions."""
        viewset: Any = self.target_class
        routed = {name: _seen(getattr(viewset, name)) for name in viewset.named_in_body}
        # extend_schema_view knows no method that shares its address with another.
        routed["remove"] = _remove(viewset.remove)
        documented = type("QueueViewSet", (viewset,), {"__doc__": viewset.__doc__, **routed})
        return extend_schema_view(
            list=_reads("queues_list", outputs.QueuePageOutput, parameters=[inputs.QueuesQuery]),
            retrieve=_reads("queues_retrieve", outputs.QueueDetailOutput, 404, parameters=[_NAME]),
            pause=_changes("queues_pause", inputs.PauseBody, outputs.PausedOutput, keyed=False),
            resume=_changes("queues_resume", inputs.ResumeBody, outputs.ResumedOutput, keyed=False),
            peek=_reads(
                "queues_peek",
                outputs.ItemsOutput,
                404,
                409,
                parameters=[_NAME, inputs.PeekQuery],
            ),
            items=_reads(
                "queues_items",
                outputs.ItemPageOutput,
                404,
                parameters=[_NAME, inputs.ItemsQuery],
            ),
            item=_reads("queues_item", outputs.ItemOutput, 404, parameters=[_NAME, _ID]),
            push=_changes("queues_push", _PUSH, _PUSHED, existing=_EXISTING),
            pop=_changes("queues_pop", inputs.PopBody, outputs.ItemsOutput),
            lease=_changes("queues_lease", inputs.LeaseBody, outputs.LeasedItemsOutput),
            pop_from=_changes(
                "queues_pop_from", inputs.PopFromBody, outputs.PoppedFromOutput, is_named=False
            ),
            lease_from=_changes(
                "queues_lease_from", inputs.LeaseFromBody, outputs.LeasedFromOutput, is_named=False
            ),
            ack=_changes("queues_ack", _ACK, outputs.AckedOutput),
            nack=_changes("queues_nack", _NACK, outputs.NackedOutput),
            extend=_changes("queues_extend", _EXTEND, _EXTENDED),
            dead_reasons=_reads(
                "queues_dead_reasons",
                outputs.DeadReasonsOutput,
                404,
                parameters=[_NAME, inputs.ReasonsQuery],
            ),
            bury=_changes("queues_bury", inputs.BuryBody, outputs.BuriedOutput, keyed=False),
            redrive=_changes(
                "queues_redrive", inputs.RedriveBody, outputs.RedrivenOutput, keyed=False
            ),
            purge=_changes("queues_purge", inputs.PurgeBody, outputs.PurgedOutput, keyed=False),
        )(documented)


class InputSchema(OpenApiSerializerExtension):
    """The schema of a body or a query: unknown keys are refused."""

    target_class = "fdbqueue.api.inputs.Input"
    match_subclasses = True

    def map_serializer(self, auto_schema: Any, direction: Any) -> Any:
        """Return the serializer's schema, closed."""
        schema = auto_schema._map_serializer(self.target, direction, bypass_extensions=True)  # noqa: SLF001  # as its documentation says
        for name, field in self.target.fields.items():
            if (
                getattr(field, "allow_empty", True) is False
            ):  # a list; drf-spectacular does not say so
                schema["properties"][name].update(minItems=1, maxItems=field.max_length)
        for one, other in itertools.combinations(_EITHER & self.target.fields.keys(), 2):
            schema["not"] = {"required": sorted([one, other])}
        return {**schema, "additionalProperties": False}


class ExistingSchema(OpenApiSerializerExtension):
    """The schema of an item of which only the id is shown: a whole item is not one."""

    target_class = "fdbqueue.api.outputs.ExistingOutput"

    def map_serializer(self, auto_schema: Any, direction: Any) -> Any:
        """Return the serializer's schema, closed."""
        schema = auto_schema._map_serializer(self.target, direction, bypass_extensions=True)  # noqa: SLF001  # as its documentation says
        return {**schema, "additionalProperties": False}


class _FieldSchema(OpenApiSerializerFieldExtension):
    """The schema of a field of :mod:`fdbqueue.api.fields`."""

    match_subclasses = False
    schema: ClassVar[dict[str, Any]]

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> Any:  # noqa: ARG002  # drf-spectacular's signature
        """Return the schema."""
        return dict(self.schema)


class UniqueSchema(_FieldSchema):
    """A unique key; its limit is in bytes, of which a character has up to four."""

    target_class = "fdbqueue.api.fields.UniqueField"
    schema: ClassVar[dict[str, Any]] = {
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_UNIQUE_BYTES,
        "pattern": _NO_NUL,
    }


class CursorSchema(_FieldSchema):
    """A cursor: only characters that an address does not have to escape."""

    target_class = "fdbqueue.api.fields.CursorField"

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> Any:  # noqa: ARG002  # drf-spectacular's signature
        """Return the schema."""
        field = self.target
        most, pattern = field.max_length, field.pattern
        return {"type": "string", "minLength": 1, "maxLength": most, "pattern": pattern}


class LeaseSchema(CursorSchema):
    """The token of a lease."""

    target_class = "fdbqueue.api.fields.LeaseField"


class IdSchema(CursorSchema):
    """The id of an item."""

    target_class = "fdbqueue.api.fields.IdField"


class TextSchema(_FieldSchema):
    """A text."""

    target_class = "fdbqueue.api.fields.TextField"

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> Any:  # noqa: ARG002  # drf-spectacular's signature
        """Return the schema."""
        # If it may be empty, drf-spectacular adds a schema of its own for that.
        most = self.target.max_length
        return {"type": "string", "minLength": 1, "maxLength": most, "pattern": _NO_NUL}


class PrioritySchema(_FieldSchema):
    """The priority of an item in a response."""

    target_class = "fdbqueue.api.fields.PriorityField"
    schema: ClassVar[dict[str, Any]] = {"oneOf": [{"type": "number"}, {"type": "string"}]}


class PriorityInputSchema(_FieldSchema):
    """The priority of an item to push."""

    target_class = "fdbqueue.api.fields.PriorityInputField"
    schema: ClassVar[dict[str, Any]] = {"type": "number"}


class NumberSchema(_FieldSchema):
    """A number in a query string."""

    target_class = "fdbqueue.api.fields.QueryNumberField"
    schema: ClassVar[dict[str, Any]] = {"type": "number"}


class SecondsSchema(_FieldSchema):
    """A number of seconds."""

    target_class = "fdbqueue.api.fields.SecondsField"
    schema: ClassVar[dict[str, Any]] = {"type": "number", "minimum": 0, "maximum": MAX_SECONDS}


class WaitSchema(_FieldSchema):
    """A number of seconds up to the setting's maximum."""

    target_class = "fdbqueue.api.fields.WaitField"

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> Any:  # noqa: ARG002  # drf-spectacular's signature
        """Return the schema."""
        return {"type": "number", "minimum": 0, "maximum": conf.api().max_wait_seconds}


class LimitSchema(_FieldSchema):
    """A number of items up to the setting's maximum."""

    target_class = "fdbqueue.api.fields.LimitField"

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> Any:  # noqa: ARG002  # drf-spectacular's signature
        """Return the schema."""
        return {"type": "integer", "minimum": 1, "maximum": conf.api().max_limit}


class QueryLimitSchema(LimitSchema):
    """A number of items in a query string."""

    target_class = "fdbqueue.api.fields.QueryLimitField"
