"""The shape of errors, for the schema: :mod:`fdbqueue.api.errors` makes them."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

from rest_framework import exceptions as framework
from rest_framework import serializers

from fdbqueue import exceptions
from fdbqueue.api import errors


def _below(kind: type[Any]) -> Iterator[type[Any]]:
    """Yield a class and those that inherit from it in its own module."""
    yield kind
    for one in kind.__subclasses__():
        if one.__module__ == kind.__module__:
            yield from _below(one)


def _codes() -> Iterator[tuple[str, Any]]:
    """Yield the code and the text of each error; the first text of a code counts."""
    yield from errors.OF_THE_ENGINE.items()
    for kind in _below(exceptions.FdbQueueError):
        yield kind.code, str(kind())
    own: tuple[type[framework.APIException], ...]
    own = (*errors.OWN, *_below(framework.APIException))
    for one in own:
        yield one.default_code, one.default_detail


#: Classes that only group others, what only commands raise, and what ``invalid_input`` stands for.
_NEVER_SHOWN = frozenset({"error", "invalid", "push_interrupted", "push_taken"})
#: Each ``code`` and its text; a project's own authentication or throttles may add theirs.
CODES = {code: text for code, text in reversed([*_codes()]) if code not in _NEVER_SHOWN}


class ErrorOutput(serializers.Serializer[Any]):
    """An error; more keys may give its context."""

    code = serializers.ChoiceField(
        choices=sorted(CODES.items(), key=operator.itemgetter(0)),
        help_text="The permanent name of the error.",
    )
    message = serializers.CharField(help_text="What went wrong, for people; the text may change.")


class ProblemOutput(ErrorOutput):
    """An error as problem details (RFC 9457); more keys may give its context."""

    type = serializers.URLField(help_text="The code, as an address of its documentation.")
    title = serializers.CharField(help_text="The code, in words.")
    status = serializers.IntegerField(help_text="The status of the response.")
    detail = serializers.CharField(help_text="The same as `message`.")
    request_id = serializers.CharField(help_text="The same as the header `X-Request-ID`.")
