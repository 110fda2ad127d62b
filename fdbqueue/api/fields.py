"""Serializer fields for the parts of an item, and for numbers that are only numbers."""

from __future__ import annotations

import math
import re
from typing import Any

from rest_framework import serializers

from fdbqueue.api.values import to_json

_COUNT = re.compile(r"[0-9]{1,9}")
_NUMBER = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?")


class AnyJSONField(serializers.JSONField):
    """Whatever JSON there is, as it is: the queue judges it."""

    def to_internal_value(self, data: Any) -> Any:
        """Return the data."""
        return data


class ValueField(AnyJSONField):
    """An item's value, in JSON; the serializer's context has the queue's ``codec``."""

    def to_representation(self, value: Any) -> Any:
        """Return the JSON for a value."""
        return to_json(value, self.context["codec"])


class PriorityField(AnyJSONField):
    """An item's priority; one written by others that JSON has no number for is a string."""

    def to_representation(self, value: Any) -> Any:
        """Return a finite number as it is, anything else as text."""
        finite = not isinstance(value, float) or math.isfinite(value)
        return value if finite else str(value)


class CountField(serializers.IntegerField):
    """A number of items as a JSON integer: no string, no boolean, no ``5.0``."""

    def to_internal_value(self, data: Any) -> int:
        """Return the number.

        Raises:
            ValidationError: It is no integer.
        """
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail("invalid")
        return data


class QueryCountField(CountField):
    """A number of items in a query string: digits and nothing else."""

    def to_internal_value(self, data: Any) -> int:
        """Return the number.

        Raises:
            ValidationError: It is not written in digits alone.
        """
        if not _COUNT.fullmatch(data):
            self.fail("invalid")
        return int(data)


class QueryNumberField(serializers.Field[Any, Any, Any, Any]):
    """A number in a query string, written as in JSON; the queue judges its type."""

    default_error_messages = {"invalid": "A valid number is required."}  # noqa: RUF012

    def to_internal_value(self, data: str) -> int | float:
        """Return an int where there is neither a fraction nor an exponent, else a float.

        Raises:
            ValidationError: It is no number.
        """
        match = _NUMBER.fullmatch(data)
        if match is None:
            self.fail("invalid")
        return float(data) if match[1] or match[2] else int(data)
