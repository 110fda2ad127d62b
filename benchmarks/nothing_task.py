"""A task that does nothing; imported once Django is set up."""

from __future__ import annotations

from typing import Any

from django_tasks import task


@task()
def nothing(value: Any) -> None:
    """Take the value, and do nothing with it."""
