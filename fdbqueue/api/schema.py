"""The OpenAPI schema, if the project has installed drf-spectacular.

It has for each action what :mod:`fdbqueue.api.actions` says is declared of it, and what all actions
have: headers and errors. What the schema says beyond the serializers is here, so the API itself
does not need that package.
"""

from __future__ import annotations

import functools
from typing import Any

from drf_spectacular.extensions import (
    OpenApiSerializerExtension,
    OpenApiSerializerFieldExtension,
    OpenApiViewExtension,
)
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
    OpenApiResponse,
    PolymorphicProxySerializer,
    extend_schema,
    extend_schema_serializer,
)

from fdbqueue import access
from fdbqueue.api import errors, fields, outputs
from fdbqueue.api.actions import Action, Shapes, declarations
from fdbqueue.api.inputs import Input
from fdbqueue.api.pagination import MAX_CURSOR_CHARACTERS
from fdbqueue.exceptions import IdempotencyKeyReused, LeaseLost

extend_schema_serializer(many=False)(outputs.QueuePageOutput)

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


def _header(name: str, description: str, *statuses: int, kind: Any = OpenApiTypes.STR) -> Any:
    """Return a header of the responses with some statuses."""
    return OpenApiParameter(
        name, kind, OpenApiParameter.HEADER, description=description, response=[*statuses]
    )


_REPLAYED = _header(
    "Idempotent-Replayed",
    "Present only if an earlier request with the same key had this response.",
    *(200, 201),
    kind={"type": "string", "enum": ["true"]},
)
_LOCATION = _header("Location", "Where the item is; absent if many were pushed.", 201)
_ETAG = _header("ETag", "Identifies these bytes; send it back as If-None-Match.", 200, 304)
_RETRY_AFTER = functools.partial(
    _header, "Retry-After", "Try again after this many seconds.", kind=OpenApiTypes.INT
)
#: What responses of each operation have.
_HEADERS = (_header("X-Request-ID", "The request's id, which logs have, too.", 200, 201, 503),)
_KNOWN = OpenApiParameter(
    "If-None-Match",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="ETags of responses that the client has: if this would be one of them, it is 304.",
)

#: What operations do, by the permission that they need.
_GROUPS = {
    access.VIEW: "Look",
    access.PUSH: "Push",
    access.POP: "Pop",
    access.LEASE: "Lease",
    access.MANAGE: "Manage",
}

#: The description of each error status.
_ERRORS = {
    400: "The input is not valid; nothing was changed.",
    401: "Credentials are missing or wrong.",
    403: "The user may not do this to this queue.",
    404: "There is no such queue, or no such item in the queue.",
    406: "The client accepts no format of responses that there is.",
    409: "The state of the queue does not allow the request; nothing was changed.",
    413: "The body, a value or the batch is too large; nothing was changed.",
    414: "The address, including its query, is too long.",
    415: "The body is not JSON, or it is compressed.",
    422: "The idempotency key was used for another request; nothing was changed.",
    429: "The user has sent too many requests.",
    503: "The database did not respond in time.",
}
#: Those that each action may answer with.
_ALWAYS = (400, 401, 403, 406, 414, 429, 503)
#: Those of actions with a body, and those of actions with an idempotency key.
_OF_BODIES, _OF_KEYS = (413, 415), (409, 422)

#: Examples of errors that have more keys than the common ones.
_EXAMPLES: dict[int, dict[str, Any]] = {
    400: {
        "code": "invalid_input",
        "message": "The input is not valid; nothing was changed",
        "fields": {"items.3.value": "This field is required."},
    },
    409: {
        "code": "lease_lost",
        "message": str(LeaseLost()),
        "queue": "quakes",
        "lease": outputs.LeasedItemOutput.example["lease"],
    },
    422: {
        "code": "idempotency_key_reused",
        "message": str(IdempotencyKeyReused()),
        "queue": "quakes",
    },
}


class QueueViewSetSchema(OpenApiViewExtension):
    """The schema of the viewset."""

    target_class = "fdbqueue.api.viewsets.QueueViewSet"

    def view_replacement(self) -> Any:
        """Return the viewset with its descriptions."""
        viewset: Any = self.target_class
        described = {one.name: _described(viewset, one) for one in declarations(viewset)}
        return type("QueueViewSet", (viewset,), {"__doc__": viewset.__doc__, **described})


def _described(viewset: Any, one: Action) -> Any:
    """Return a copy of an action's method with its description, which the method does not get."""
    method = getattr(viewset, one.name)

    @functools.wraps(method)
    def described(*args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs)

    described.kwargs = dict(getattr(method, "kwargs", {}))  # type: ignore[attr-defined]  # if Django REST framework has a schema
    extend_schema(
        operation_id=f"queues_{one.name}",
        summary=one.summary,
        tags=[_GROUPS[one.permission]],
        parameters=_parameters(one),
        request=_shape((one.body, one.many) if one.body and one.many else one.body, "Body"),
        responses={**_answers(one), **_errors(one)},
        examples=_examples(one),
    )(described)
    return described if one.body is None else _needs_body(described)


def _shape(kinds: Shapes | None, suffix: str = "Output") -> Any:
    """Return what describes several shapes by the name of the last, or the only one."""
    if not isinstance(kinds, tuple):
        return kinds
    name = kinds[-1].__name__.removesuffix(suffix).removesuffix("Many")
    return PolymorphicProxySerializer(
        component_name=name, serializers=[*kinds], resource_type_field_name=None
    )


def _parameters(one: Action) -> list[Any]:
    found: list[Any] = [place for place in (_NAME, _ID) if place.name in one.places]
    if one.query().fields:
        found.append(one.query)
    if one.method == "GET":
        found += [_KNOWN, _ETAG]
    if one.is_keyed:
        found += [_KEY, _REPLAYED]
    if one.found is not None:
        found.append(_LOCATION)
    if one.body is not None and "wait" in one.body().fields:  # the rate of a queue may be used up
        return [*found, _RETRY_AFTER(200, 429, 503), *_HEADERS]
    return [*found, _RETRY_AFTER(429, 503), *_HEADERS]


def _answers(one: Action) -> dict[int, Any]:
    answer = _shape(one.answer)
    if one.found is not None:
        return {201: answer, 200: _shape(one.found)}
    if one.method == "GET":
        unchanged = OpenApiResponse(description="The client has this response; there is no body.")
        return {200: answer, 304: unchanged}
    return {200: answer}


def _errors(one: Action) -> dict[int, OpenApiResponse]:
    """Return the errors that an action may answer with."""
    codes = {*_ALWAYS}
    if one.name != "list":
        codes.add(404)
    if one.body is not None:
        codes.update(_OF_BODIES)
    if one.is_keyed:
        codes.update(_OF_KEYS)
    if one.conflicts:
        codes.add(409)
    found = {}
    for code in sorted(codes):
        text = _ERRORS[code]
        error = None if code == 409 and one.conflicts else _EXAMPLES.get(code)
        examples = [] if error is None else [_answer(str(error["code"]), error, code)]
        found[code] = OpenApiResponse(errors.ErrorOutput, description=text, examples=examples)
    return found


def _examples(one: Action) -> list[OpenApiExample]:
    """Return the examples of an action's bodies and of its answers."""
    answer = one.answer[0] if isinstance(one.answer, tuple) else one.answer
    example: Any = answer.example  # type: ignore[attr-defined]  # what is answered has one
    answers = {200: example}
    if one.found is not None:
        answers = {201: example, 200: {**example, "existing": True}}
    return [
        *(OpenApiExample(name, body, request_only=True) for name, body in one.examples.items()),
        *(_answer("Response", found, status) for status, found in answers.items()),
    ]


def _answer(name: str, value: Any, status: int) -> OpenApiExample:
    return OpenApiExample(name, value, response_only=True, status_codes=[str(status)])


def _needs_body(method: Any) -> Any:
    """Mark the body of a method as required, even if all its keys are optional."""

    class NeededBody(method.kwargs["schema"]):  # type: ignore[misc, name-defined]  # the project's
        def _get_request_body(self, direction: Any = "request") -> Any:
            return {**super()._get_request_body(direction), "required": True}

    method.kwargs["schema"] = NeededBody
    return method


class InputSchema(OpenApiSerializerExtension):
    """The schema of a body or a query: unknown keys are refused.

    The default of a body's key is said in words: generators of types, such as openapi-typescript,
    take a key with a ``default`` for one that is always there, and then clients have to send it.
    """

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
        if type(self.target) not in _queries():
            for one in schema.get("properties", {}).values():
                if "default" in one:
                    said = f"By default `{one.pop('default')}`."
                    one["description"] = f"{said} {one['description']}"
        if self.target.refused is not None:
            schema["not"] = dict(self.target.refused)
        return {**schema, "additionalProperties": False}


@functools.cache
def _queries() -> frozenset[type[Input]]:
    """Return the shapes of queries."""
    from fdbqueue.api.viewsets import QueueViewSet

    return frozenset(one.query for one in declarations(QueueViewSet))


class ExistingSchema(OpenApiSerializerExtension):
    """The schema of an item of which only the id is shown: a whole item is not one."""

    target_class = "fdbqueue.api.outputs.ExistingOutput"

    def map_serializer(self, auto_schema: Any, direction: Any) -> Any:
        """Return the serializer's schema, closed."""
        schema = auto_schema._map_serializer(self.target, direction, bypass_extensions=True)  # noqa: SLF001  # as its documentation says
        return {**schema, "additionalProperties": False}


class _FieldSchema(OpenApiSerializerFieldExtension):
    """The schema of a field that has its own."""

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> Any:  # noqa: ARG002  # drf-spectacular's signature
        """Return the schema."""
        return dict(self.target.schema)


for _field in vars(fields).values():
    if hasattr(_field, "schema"):
        type(f"{_field.__name__}Schema", (_FieldSchema,), {"target_class": _field})
