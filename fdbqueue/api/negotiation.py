"""Choose the media type of a response by the header ``Accept`` (RFC 9110, section 12.5.1).

JSON is always offered, HTML where the project has the browsable API on. An error is
``application/problem+json`` (RFC 9457) for clients whose header names that type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rest_framework.exceptions import NotAcceptable
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

JSON = "application/json"
PROBLEM = "application/problem+json"

_WEIGHT = re.compile(r"q\s*=\s*(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)")
#: How good a range is and how specific: the best offer has the highest of both.
_Rank = tuple[float, int]


class Negotiation(DefaultContentNegotiation):
    """Negotiate by the header ``Accept`` only; ``?format=`` is an unknown parameter."""

    def select_renderer(
        self,
        request: Request,
        renderers: Iterable[BaseRenderer],
        format_suffix: str | None = None,  # noqa: ARG002  # no address has one
    ) -> tuple[BaseRenderer, str]:
        """Return the renderer that the client prefers; the first of equals.

        A client whose header names no type but that of problems gets JSON where there is none.

        Raises:
            NotAcceptable: The client accepts none of them.
        """
        available = list(renderers)
        accept = accept_of(request)
        media = best(accept, [one.media_type for one in available])
        if media is None and not _weights(accept).get(PROBLEM):
            raise NotAcceptable(available_renderers=available)
        chosen = next((one for one in available if one.media_type == media), available[0])
        return chosen, chosen.media_type


def accept_of(request: Request) -> str:
    """Return a request's header ``Accept``."""
    return str(request.META.get("HTTP_ACCEPT", ""))


def wants_problem(accept: str, other: str) -> bool:
    """Tell whether a header names problems, and does not prefer another media type to them."""
    return PROBLEM in _weights(accept) and best(accept, [PROBLEM, other]) == PROBLEM


def best(accept: str, offers: Sequence[str]) -> str | None:
    """Return the offered media type that a header prefers, None if it accepts none.

    The most specific range that includes a type gives its weight; a weight of zero means no. Of
    types with one weight, that with the more specific range is preferred, then the first offered.
    Other parameters are ignored. An empty header accepts anything.
    """
    weights = _weights(accept) or {"*/*": 1.0}
    ranks = {offer: _rank(weights, offer) for offer in offers}
    found = max(offers, key=lambda offer: ranks[offer])
    return found if ranks[found][0] > 0 else None


def _rank(weights: dict[str, float], offer: str) -> _Rank:
    ranges = ("*/*", f"{offer.partition('/')[0]}/*", offer)
    matching = [place for place, one in enumerate(ranges) if one in weights]
    return (weights[ranges[matching[-1]]], matching[-1]) if matching else (0.0, 0)


def _weights(accept: str) -> dict[str, float]:
    """Return the weight of each range in a header, the highest of a range that is there twice."""
    weights: dict[str, float] = {}
    for accepted in filter(None, map(str.strip, accept.lower().split(","))):
        media, *parameters = map(str.strip, accepted.split(";"))
        found = [match for match in map(_WEIGHT.fullmatch, parameters) if match]
        weight = float(found[0][1]) if found else 1.0
        weights[media] = max(weights.get(media, 0.0), weight)
    return weights
