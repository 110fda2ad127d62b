"""Entity tags: a GET whose response has not changed is 304, without a body (RFC 9110, 8.8.3).

The tag is a hash of the rendered body, so it is strong: two responses have one tag only if they
are the same byte for byte. It saves the client's bandwidth, not the server's reads.
"""

from __future__ import annotations

import hashlib
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.http import parse_etags

#: The client may keep the response for itself, and must ask before each use.
CACHE_CONTROL = "private, no-cache"

_READS = frozenset({"GET", "HEAD"})


def may_have_tag(request: HttpRequest, response: HttpResponse) -> bool:
    """Tell whether a response may be asked for again: that of a GET that succeeded."""
    return request.method in _READS and response.status_code == 200


def add_tag(request: HttpRequest, response: Any) -> None:
    """Give a rendered response its tag, and make it 304 if the client has that already."""
    tag = f'"{hashlib.blake2b(response.content, digest_size=16).hexdigest()}"'
    response.headers["ETag"] = tag
    response.headers["Cache-Control"] = CACHE_CONTROL
    if _includes(request.headers.get("If-None-Match", ""), tag):
        response.status_code = 304
        response.content = b""
        del response.headers["Content-Type"]


def _includes(header: str, tag: str) -> bool:
    """Tell whether ``If-None-Match`` has a tag, by the weak comparison that it asks for."""
    known = parse_etags(header) if header else []
    return known == ["*"] or tag in {one.removeprefix("W/") for one in known}
