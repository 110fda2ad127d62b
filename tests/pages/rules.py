"""An authorizer, as a project may name one: it lets every user see some queues."""

from __future__ import annotations

from typing import Any

SEEN: set[str] = set()


def may_see(user: Any, permission: str, name: str) -> bool:
    """Tell whether a queue is one of those."""
    return name in SEEN
