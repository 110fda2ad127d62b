"""An authorizer, as a project may name one: it lets every user see some queues."""

from __future__ import annotations

from typing import Any

SEEN: set[str] = set()


def may_see(user: Any, permission: str, name: str) -> bool:
    """Tell whether a queue is one of those."""
    return name in SEEN


def may_families(_user, permission, name):
    """Allow everything for families as a whole, and to view each queue."""
    return "*" in name or permission.endswith("view_queue")


def may_members(_user, permission, name):
    """Allow everything for each queue, and to view families."""
    return "*" not in name or permission.endswith("view_queue")
