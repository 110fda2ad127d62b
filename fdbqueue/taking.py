"""Pop and lease from several queues of the setting at once.

Each function does what the method of the same verb does on the object that
:func:`fdbqueue.several` returns; :class:`fdbqueue.service.SeveralQueues` says what is guaranteed.
``QueueNotFound`` and ``InvalidInput``, for the names, mean that nothing was taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fdbqueue.conf import several
from fdbqueue.service import Item

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from fdbqueue.service.several import (
        LeaseInKeywords,
        LeaseKeywords,
        LeaseManyInKeywords,
        PopInKeywords,
        PopKeywords,
        PopManyInKeywords,
    )


def pop_from(
    names: Iterable[str], *, fair: bool | None = None, **options: Unpack[PopInKeywords]
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
    names: Iterable[str],
    count: int,
    *,
    fair: bool | None = None,
    **options: Unpack[PopManyInKeywords],
) -> list[Item]:
    """Take up to ``count`` items, all from the first of several queues that has any."""
    return several(names, fair=fair).pop_many(count, **options)


def lease_from(
    names: Iterable[str], *, fair: bool | None = None, **options: Unpack[LeaseInKeywords]
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
    names: Iterable[str],
    count: int,
    *,
    fair: bool | None = None,
    **options: Unpack[LeaseManyInKeywords],
) -> list[Item]:
    """Lease up to ``count`` items, all of the first of several queues that has any."""
    return several(names, fair=fair).lease_many(count, **options)


async def apop_from(
    names: Iterable[str], *, fair: bool | None = None, **options: Unpack[PopKeywords]
) -> Item | None:
    """Take an item, as :func:`pop_from` does."""
    return await several(names, fair=fair).apop(**options)


async def apop_many_from(
    names: Iterable[str], count: int, *, fair: bool | None = None, **options: Unpack[PopKeywords]
) -> list[Item]:
    """Take items, as :func:`pop_many_from` does."""
    return await several(names, fair=fair).apop_many(count, **options)


async def alease_from(
    names: Iterable[str], *, fair: bool | None = None, **options: Unpack[LeaseKeywords]
) -> Item | None:
    """Lease an item, as :func:`lease_from` does."""
    return await several(names, fair=fair).alease(**options)


async def alease_many_from(
    names: Iterable[str], count: int, *, fair: bool | None = None, **options: Unpack[LeaseKeywords]
) -> list[Item]:
    """Lease items, as :func:`lease_many_from` does."""
    return await several(names, fair=fair).alease_many(count, **options)
