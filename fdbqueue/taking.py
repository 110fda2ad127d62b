"""Pop and lease from several queues of the setting at once.

Each function does what the method of the same verb does on the object that
:func:`fdbqueue.several` returns; :class:`fdbqueue.service.SeveralQueues` says what is guaranteed.
``QueueNotFound`` and ``InvalidInput``, for the names, mean that nothing was taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypedDict

from fdbqueue.conf import several
from fdbqueue.engines.protocols import Transaction
from fdbqueue.service import Duration, End, IdempotencyKey, Item

if TYPE_CHECKING:
    from typing_extensions import Unpack


class _Pop(TypedDict, total=False):
    end: End
    wait: float | None
    once: IdempotencyKey | str | None


class _PopIn(_Pop, total=False):
    tr: Transaction | None


class _PopManyIn(_PopIn, total=False):
    waits_while: Callable[[], bool] | None


class _Lease(_Pop, total=False):
    seconds: Duration
    worker: str | None


class _LeaseIn(_Lease, total=False):
    tr: Transaction | None


class _LeaseManyIn(_LeaseIn, total=False):
    waits_while: Callable[[], bool] | None


def pop_from(
    names: Iterable[str], *, fair: bool | None = None, **options: Unpack[_PopIn]
) -> Item | None:
    """Take an item from the first of several queues that has one, None if none has.

    Args:
        names: 1 to 1,000 names of queues, and patterns of names such as ``mail-*``.
        fair: Whether to take from the queues in turn, instead of from the first that has items;
            None for True if one of the names is a pattern.
        options: ``end``, ``wait``, ``once`` and ``tr``, as for ``SeveralQueues.pop``.
    """
    return several(names, fair=fair).pop(**options)


def pop_many_from(
    names: Iterable[str], count: int, *, fair: bool | None = None, **options: Unpack[_PopManyIn]
) -> list[Item]:
    """Take up to ``count`` items, all from the first of several queues that has any."""
    return several(names, fair=fair).pop_many(count, **options)


def lease_from(
    names: Iterable[str], *, fair: bool | None = None, **options: Unpack[_LeaseIn]
) -> Item | None:
    """Lease an item of the first of several queues that has one, None if none has.

    Args:
        names: 1 to 1,000 names of queues, and patterns of names such as ``mail-*``.
        fair: Whether to take from the queues in turn, instead of from the first that has items;
            None for True if one of the names is a pattern.
        options: ``seconds``, 60 by default; ``end``, ``wait``, ``once`` and ``tr``.
    """
    return several(names, fair=fair).lease(**options)


def lease_many_from(
    names: Iterable[str], count: int, *, fair: bool | None = None, **options: Unpack[_LeaseManyIn]
) -> list[Item]:
    """Lease up to ``count`` items, all of the first of several queues that has any."""
    return several(names, fair=fair).lease_many(count, **options)


async def apop_from(
    names: Iterable[str], *, fair: bool | None = None, **options: Unpack[_Pop]
) -> Item | None:
    """Take an item, as :func:`pop_from` does."""
    return await several(names, fair=fair).apop(**options)


async def apop_many_from(
    names: Iterable[str], count: int, *, fair: bool | None = None, **options: Unpack[_Pop]
) -> list[Item]:
    """Take items, as :func:`pop_many_from` does."""
    return await several(names, fair=fair).apop_many(count, **options)


async def alease_from(
    names: Iterable[str], *, fair: bool | None = None, **options: Unpack[_Lease]
) -> Item | None:
    """Lease an item, as :func:`lease_from` does."""
    return await several(names, fair=fair).alease(**options)


async def alease_many_from(
    names: Iterable[str], count: int, *, fair: bool | None = None, **options: Unpack[_Lease]
) -> list[Item]:
    """Lease items, as :func:`lease_many_from` does."""
    return await several(names, fair=fair).alease_many(count, **options)
