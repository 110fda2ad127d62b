"""What a benchmark is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from benchmarks.measure import Line
from benchmarks.plan import ENGINES, Plan


class Benchmark(NamedTuple):
    """Some lines of the report, measured together.

    ``run`` says in its docstring what they are. ``engines`` are those on which there is
    something to measure. One that is long runs when it is named, and not with all.
    """

    name: str
    run: Callable[[Plan], Iterator[Line]]
    engines: tuple[str, ...] = ENGINES
    is_long: bool = False

    def __str__(self) -> str:
        (title, *_) = (self.run.__doc__ or "").splitlines()
        limits = [] if self.engines == ENGINES else [f"{self.engines[0]} alone"]
        limits += ["when named"] if self.is_long else []
        return f"{self.name:16} {title}" + (f" ({', '.join(limits)})" if limits else "")
