"""Serializer fields: strict JSON numbers and texts, and the parts of an item.

A field has a ``schema`` if it is not that of the Django REST framework's field that it inherits
from: :mod:`fdbqueue.api.schema` reads it.
"""

from __future__ import annotations

import datetime
import math
import re
from types import MappingProxyType
from typing import Any

from rest_framework import serializers

from fdbqueue import conf
from fdbqueue.service import MAX_SECONDS, MAX_UNIQUE_BYTES, PATTERN, Codec

_COUNT = re.compile(r"[0-9]{1,9}")
#: RFC 3339, with an optional offset, so that the error can say that it is missing.
_MOMENT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9])"
    r"(?:(\.[0-9]{1,6})[0-9]*)?(Z|[+-][0-9]{2}:[0-9]{2})?"
)
_NUMBER = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?")


class AnyJSONField(serializers.JSONField):
    """Any JSON, unchanged: the queue checks it."""

    def to_internal_value(self, data: Any) -> Any:
        """Return the data."""
        return data


class PriorityField(AnyJSONField):
    """An item's priority; a foreign one that JSON has no number for is a string."""

    schema = MappingProxyType({"oneOf": [{"type": "number"}, {"type": "string"}]})

    @staticmethod
    def shown(priority: Any, _codec: Codec) -> Any:
        """Return a finite number as it is, anything else as text."""
        finite = not isinstance(priority, float) or math.isfinite(priority)
        return priority if finite else str(priority)


class PriorityInputField(AnyJSONField):
    """The priority of a push; the queue checks it."""

    schema = MappingProxyType({"type": "number"})


class CountField(serializers.IntegerField):
    """A number of items as a JSON integer: not a string, a boolean, or ``5.0``."""

    def to_internal_value(self, data: Any) -> int:
        """Return the number.

        Raises:
            ValidationError: It is not an integer.
        """
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail("invalid")
        return data


class FlagField(serializers.BooleanField):
    """True or false as JSON has them: not a number or a string."""

    def to_internal_value(self, data: Any) -> bool:
        """Return the flag.

        Raises:
            ValidationError: It is neither.
        """
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class LimitField(CountField):
    """A number of items up to the setting's ``MAX_LIMIT``."""

    default_error_messages = {"over": "Ensure this value is less than or equal to {most}."}  # noqa: RUF012  # as DRF declares it

    def __init__(self, **options: Any) -> None:
        super().__init__(min_value=1, max_value=conf.MAX_ITEMS_A_REQUEST, **options)

    @property
    def schema(self) -> dict[str, Any]:
        """The schema, with the setting's limit."""
        return {"type": "integer", "minimum": 1, "maximum": conf.api().max_limit}

    def get_default(self) -> int:
        """Return the default, or the maximum if that is less."""
        return min(super().get_default() or 1, conf.api().max_limit)

    def to_internal_value(self, data: Any) -> int:
        """Return the number.

        Raises:
            ValidationError: It is not an integer, or above the limit.
        """
        count = super().to_internal_value(data)
        if count > conf.api().max_limit:
            self.fail("over", most=conf.api().max_limit)
        return count


class SecondsField(serializers.Field[Any, Any, Any, Any]):
    """A number of seconds as a JSON number; the queue checks the range."""

    @property
    def schema(self) -> dict[str, Any]:
        """The schema."""
        return {"type": "number", "minimum": 0, "maximum": MAX_SECONDS}

    default_error_messages = {"invalid": "A number of seconds is required."}  # noqa: RUF012  # as DRF declares it

    def to_internal_value(self, data: Any) -> int | float:
        """Return the number.

        Raises:
            ValidationError: It is not a number of seconds from 0 to ten years.
        """
        is_number = isinstance(data, int | float) and not isinstance(data, bool)
        if not is_number or not 0 <= data <= MAX_SECONDS:
            self.fail("invalid")
        return data


class WaitField(SecondsField):
    """A number of seconds up to the setting's ``MAX_WAIT_SECONDS``."""

    @property
    def schema(self) -> dict[str, Any]:
        """The schema, with the setting's limit."""
        return {**super().schema, "maximum": conf.api().max_wait_seconds}

    default_error_messages = {"over": "Ensure this value is less than or equal to {most}."}  # noqa: RUF012  # as DRF declares it

    def to_internal_value(self, data: Any) -> int | float:
        """Return the number.

        Raises:
            ValidationError: It is not a number of seconds, or above the limit.
        """
        seconds = super().to_internal_value(data)
        if seconds > conf.api().max_wait_seconds:
            self.fail("over", most=conf.api().max_wait_seconds)
        return seconds


class MomentField(serializers.DateTimeField):
    """A time in RFC 3339: in ASCII, with seconds and an offset from UTC."""

    default_error_messages = {  # noqa: RUF012  # as DRF declares it
        "invalid": "A time in RFC 3339 is required, such as 2030-01-31T08:30:00Z.",
        "naive": "An offset from UTC is required, or Z.",
    }

    def __init__(self, **options: Any) -> None:
        super().__init__(input_formats=["iso-8601"], **options)

    def to_internal_value(self, data: Any) -> datetime.datetime:
        """Return the time, to the microsecond.

        Raises:
            ValidationError: It is not in this form, or there is no such time.
        """
        match = _MOMENT.fullmatch(data.upper()) if isinstance(data, str) else None
        if match is None:
            self.fail("invalid")
        return super().to_internal_value("".join(part or "" for part in match.groups()))

    def enforce_timezone(self, value: datetime.datetime) -> datetime.datetime:
        """Return the time unchanged.

        Raises:
            ValidationError: It has no offset.
        """
        if value.tzinfo is None:
            self.fail("naive")
        return value


class TextField(serializers.CharField):
    """A JSON string, untrimmed; a number is refused."""

    #: The form of it; JSON strings may have the character NUL, and texts here may not.
    pattern = r"^[^\x00]*$"

    def __init__(self, **options: Any) -> None:
        super().__init__(trim_whitespace=False, **options)

    @property
    def schema(self) -> dict[str, Any]:
        """The schema; if it may be empty, drf-spectacular adds one of its own for that."""
        most, pattern = self.max_length, self.pattern
        return {"type": "string", "minLength": 1, "maxLength": most, "pattern": pattern}

    def to_internal_value(self, data: Any) -> str:
        """Return the text.

        Raises:
            ValidationError: It is not a string.
        """
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class UniqueField(TextField):
    """A unique key; a character has up to four of its bytes."""

    default_error_messages = {  # noqa: RUF012  # as DRF declares it
        "over": "Ensure this field has no more than {most} bytes in UTF-8."
    }

    @property
    def schema(self) -> dict[str, Any]:
        """The schema, of as many characters as the key may have bytes."""
        return {**super().schema, "maxLength": MAX_UNIQUE_BYTES}

    def to_internal_value(self, data: Any) -> str:
        """Return the key.

        Raises:
            ValidationError: It is not a string, or too long in UTF-8.
        """
        text = super().to_internal_value(data)
        if len(text.encode(errors="surrogatepass")) > MAX_UNIQUE_BYTES:
            self.fail("over", most=MAX_UNIQUE_BYTES)
        return text


class CursorField(TextField):
    """A cursor of a list."""

    # A position or a name, a colon, and the signature.
    pattern = r"^[~A-Za-z0-9_.-]+:[A-Za-z0-9_-]+$"


class NameField(TextField):
    """The name of a queue, or a pattern of names."""

    pattern = PATTERN.pattern.join("^$")
    default_error_messages = {  # noqa: RUF012  # as DRF declares it
        "name": "A name is 1 to 100 letters, digits, '_', '-' and '.', the first a letter or "
        "digit; a '*' in it makes it a pattern."
    }

    def to_internal_value(self, data: Any) -> str:
        """Return the name.

        Raises:
            ValidationError: It is not the name of a queue, and not a pattern.
        """
        name = super().to_internal_value(data)
        if not PATTERN.fullmatch(name):
            self.fail("name")
        return name


class IdField(TextField):
    """The id of an item."""

    pattern = r"^[~A-Za-z0-9_-]+$"

    def __init__(self, **options: Any) -> None:
        options.setdefault("help_text", "The item's id.")
        super().__init__(max_length=20_000, **options)


class LeaseField(TextField):
    """The token of a lease."""

    # The item's id, a dot, and the secret.
    pattern = r"^[~A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$"

    def __init__(self, **options: Any) -> None:
        options.setdefault("help_text", "The token of the lease.")
        super().__init__(max_length=20_000, **options)


class QueryLimitField(LimitField):
    """A number of items in a query string, up to the setting's ``MAX_LIMIT``: digits only."""

    def to_internal_value(self, data: Any) -> int:
        """Return the number.

        Raises:
            ValidationError: It is not digits only, or above the limit.
        """
        if not _COUNT.fullmatch(data):
            self.fail("invalid")
        return super().to_internal_value(int(data))


class QueryNumberField(serializers.Field[Any, Any, Any, Any]):
    """A number in a query string, written as in JSON; the queue checks its type."""

    schema = MappingProxyType({"type": "number"})

    default_error_messages = {"invalid": "A valid number is required."}  # noqa: RUF012  # DRF's way

    def to_internal_value(self, data: str) -> int | float:
        """Return an int if there is neither a fraction nor an exponent, else a float.

        Raises:
            ValidationError: It is not a number.
        """
        match = _NUMBER.fullmatch(data)
        if match is None:
            self.fail("invalid")
        return float(data) if match[1] or match[2] else int(data)
