"""The tasks that the tests of the pages enqueue."""

from __future__ import annotations

from typing import Any

from fdbqueue.tasks import task


class Refused(ValueError):
    """The carrier has refused a letter."""


@task
def send(recipient: str, **options: Any) -> dict[str, Any]:
    """Return what was sent."""
    return {"sent": recipient, **options}


@task(max_attempts=2, backoff=lambda _error, _result: 0.0)
def refuse(recipient: str) -> None:
    """Fail, twice."""
    raise Refused(f"no <b>route</b> to {recipient}")


@task(backoff=None)
def lose(recipient: str) -> None:
    """Fail once, in another way."""
    raise LookupError(recipient)


@task(backoff=lambda _error, _result: 3_600.0)
def wait(recipient: str) -> None:
    """Fail, and wait for an hour."""
    raise TimeoutError(recipient)


@task(takes_context=True, max_attempts=2, backoff=lambda _error, _result: 0.0)
def hesitate(context: Any, recipient: str) -> str:
    """Fail once, then return to whom it went."""
    if context.attempt == 1:
        raise TimeoutError(recipient)
    return recipient


@task
def long(size: int) -> str:
    """Return a long text."""
    return "x" * size
