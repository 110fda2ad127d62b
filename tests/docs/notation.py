"""Compare an output with what the documentation shows of it.

``...`` stands for any text, a moment for any moment, an age or a duration for any other, an id
or token for any other, and one or more spaces for any number of spaces. The lines that Django 6
logs of a task are left out.
"""

from __future__ import annotations

import re

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)?")
#: Twenty or more characters of URL-safe base64, digits or twice a change of case among them.
_TOKEN = re.compile(
    r"(?<![\w-])(?=[\w-]*(?:\d|[a-z][A-Z][\w-]*[a-z][A-Z]))(?=[\w-]*[A-Za-z])"
    r"[\w-]{20,}={0,2}(?![\w-])"
)
#: ``12s`` and ``3m``, as the commands print ages; ``24.8 ms``.
_AGE = re.compile(r"(?<![\w.])\d+[smhd](?!\w)|(?<![\w.])\d+\.\d ms\b")
#: What Django 6 logs of a task that begins and one that has succeeded.
_LOGGED = re.compile(r"^Task id=\S+ path=\S+ state=\w+\n", re.MULTILINE)
_PORT = re.compile(r"127\.0\.0\.1:\d+")


def _spaced(text: str) -> str:
    text = _LOGGED.sub("", text)
    text = _PORT.sub("127.0.0.1:8000", text)
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())


def _plain(text: str) -> str:
    return _AGE.sub("<age>", _TOKEN.sub("<token>", _MOMENT.sub("<moment>", text)))


def is_as_shown(printed: str, shown: str) -> bool:
    """Tell whether a program printed what the documentation shows."""
    printed, shown = _spaced(printed), _spaced(shown)
    return _is_kept(printed, shown) or _is_kept(_plain(printed), _plain(shown))


def _is_kept(printed: str, shown: str) -> bool:
    pattern = ".*".join(map(re.escape, shown.split("...")))
    return bool(re.fullmatch(pattern, printed, re.DOTALL))
