"""The OpenAPI schemas of bodies, queries and fields, beyond what drf-spectacular reads of them."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.extensions import (
    OpenApiSerializerExtension,
    OpenApiSerializerFieldExtension,
)

from fdbqueue import conf
from fdbqueue.service import MAX_SECONDS, MAX_UNIQUE_BYTES

#: JSON strings may have the character NUL; texts here may not.
_NO_NUL = r"^[^\x00]*$"


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
        if self.target.refused is not None:
            schema["not"] = dict(self.target.refused)
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
