"""Authorizers, as a project may name one."""

from __future__ import annotations


def may_families(_user, permission, name):
    """Allow everything for all queues together, and to view each."""
    return name is None or permission.endswith("view_queue")


def may_members(_user, permission, name):
    """Allow everything for each queue, and to view all."""
    return name is not None or permission.endswith("view_queue")
