"""Many alike cases in one test, which lists every case that fails.

A parameter is a test: it has fixtures, a report and a name of its own. Inputs that are all refused
the same way, or addresses that all answer alike, need none of these, and are cases.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

_SHOWN_CHARACTERS = 200


def cases(names: str | tuple[str, ...], values: Iterable[Any]) -> Callable[[Any], Any]:
    """Run a test for each of these values, with the same fixtures; it fails if any case does.

    It takes what ``pytest.mark.parametrize`` takes. A case must not depend on another, so a test
    says what changed, not what is there.
    """
    names = (names,) if isinstance(names, str) else names
    given = [dict(zip(names, _of(value, len(names)), strict=True)) for value in values]

    def decorate(test: Any) -> Any:
        one, inner = getattr(test, "of_cases", (test, [{}]))
        all_given = [{**other, **mine} for mine in given for other in inner]

        @functools.wraps(test)
        def run_all(*args: Any, **fixtures: Any) -> None:
            _run_all(functools.partial(one, *args, **fixtures), all_given)

        left = inspect.signature(test)
        taken = [each for name, each in left.parameters.items() if name not in names]
        vars(run_all).update(
            of_cases=(one, all_given), __signature__=left.replace(parameters=taken)
        )
        return run_all

    return decorate


def _run_all(test: Callable[..., None], given: list[dict[str, Any]]) -> None:
    failed: list[tuple[dict[str, Any], BaseException]] = []
    for case in given:
        try:
            test(**case)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  # each is told of
            failed.append((case, error))
    if failed:
        heading = f"{len(failed)} of {len(given)} cases failed; the first is above"
        lines = [f"{_shown(case)}: {error}" for case, error in failed]
        raise AssertionError("\n".join([heading, *lines])) from failed[0][1]


def _of(value: Any, count: int) -> tuple[Any, ...]:
    """Return what a case has for each name."""
    if isinstance(value, type(pytest.param())):
        return tuple(value.values)
    return (value,) if count == 1 else tuple(value)


def _shown(case: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}"[:_SHOWN_CHARACTERS] for name, value in case.items())
