"""Observers as users write them; only type-checked, never run."""

from __future__ import annotations

from fdbqueue.service import instrumentation


class Watching(instrumentation.Observer):
    """Is told of operations."""

    def operation(self, done: instrumentation.Operation) -> None:
        """Know what the parts are."""
        verb: str = done.verb
        error: BaseException | None = done.error
        _ = verb, error, done.seconds, done.items, done.queue


instrumentation.add(Watching())
instrumentation.remove(Watching)  # type: ignore[arg-type]  # an observer, not its class
