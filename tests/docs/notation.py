"""What the documentation shows of an output, and whether an output is that.

``...`` stands for any text, a moment for any moment, an id or token for any other, and one
or more spaces for any number of spaces.
"""

from __future__ import annotations

import re

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)?")
#: Twenty or more characters of URL-safe base64, letters of both cases or digits among them.
_TOKEN = re.compile(r"(?<![\w-])(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{20,}={0,2}(?![\w-])")
_PORT = re.compile(r"127\.0\.0\.1:\d+")


def _plain(text: str) -> str:
    text = _PORT.sub("127.0.0.1:8000", text)
    text = _TOKEN.sub("<token>", _MOMENT.sub("<moment>", text))
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())


def is_as_shown(printed: str, shown: str) -> bool:
    """Tell whether a program printed what the documentation shows."""
    parts = _plain(shown).split("...")
    pattern = ".*".join(map(re.escape, parts))
    return bool(re.fullmatch(pattern, _plain(printed), re.DOTALL))
