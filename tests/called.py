"""A command called in this process, for what it prints."""

from __future__ import annotations

import io

from django.core.management import call_command


def called(*arguments: str) -> str:
    """Call a command, and return what it printed."""
    out = io.StringIO()
    call_command(*arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()
