"""Background tasks and queues for Django, in one local file or on FoundationDB.

    quakes = fdbqueue.queue("quakes")
    quakes.push({"place": "Hualian"}, priority=6.4)
    quakes.pop_max()

Importing this package reads no settings and needs no client library.

Raises:
    ImportError: This Python is too old.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if sys.version_info < (3, 10):  # noqa: UP036  # a checkout on the path was not installed by pip
    raise ImportError(
        "fdbqueue needs Python 3.10 or newer; this is Python %d.%d." % sys.version_info[:2]  # noqa: UP031
    )

from fdbqueue.exceptions import FdbQueueError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Unpack

    from fdbqueue import service
    from fdbqueue.conf import family, several
    from fdbqueue.on_commit import push_batch_on_commit, push_on_commit
    from fdbqueue.service import Item, LeaseInKeywords, PopInKeywords, transactional

__all__ = [
    "FdbQueueError",
    "Item",
    "family",
    "lease_from",
    "pop_from",
    "push_batch_on_commit",
    "push_on_commit",
    "queue",
    "service",
    "several",
    "transactional",
]

#: Public names, and the modules they are imported from when they are asked for.
_LAZY = {
    "Item": "fdbqueue.service",
    "family": "fdbqueue.conf",
    "several": "fdbqueue.conf",
    "push_batch_on_commit": "fdbqueue.on_commit",
    "push_on_commit": "fdbqueue.on_commit",
    "transactional": "fdbqueue.service",
}


def queue(name: str) -> service.Queue:
    """Return the queue with a name, as the ``FDBQUEUE`` setting describes it.

    Cheap: nothing is read or opened before the queue is used.

    Raises:
        QueueNotFound: The setting has no such queue, and no pattern that fits the name; the error
            says which name is most like it.
        ConfigurationError: The setting is wrong.
    """
    from fdbqueue import conf

    return conf.queue(name)


def pop_from(
    names: Iterable[str], *, fair: bool | None = None, **options: Unpack[PopInKeywords]
) -> Item | None:
    """Take an item from the first of several queues that has one, None if none has.

    ``fdbqueue.several(names, fair=fair)`` has the other verbs, and says what is guaranteed.

    Args:
        names: 1 to 1,000 names of queues, and patterns of names such as ``mail-*``.
        fair: Whether to take from the queues in turn, instead of from the first that has items;
            None for True if one of the names is a pattern.
        options: ``end``, ``wait``, ``once`` and ``tr``, as for ``SeveralQueues.pop``.

    Raises:
        QueueNotFound, InvalidInput: The names are wrong; nothing was taken.
    """
    from fdbqueue import conf

    return conf.several(names, fair=fair).pop(**options)


def lease_from(
    names: Iterable[str], *, fair: bool | None = None, **options: Unpack[LeaseInKeywords]
) -> Item | None:
    """Lease an item of the first of several queues that has one, as :func:`pop_from` takes one.

    ``options`` are ``seconds``, 60 by default; ``worker``, ``end``, ``wait``, ``once`` and ``tr``.
    """
    from fdbqueue import conf

    return conf.several(names, fair=fair).lease(**options)


def __getattr__(name: str) -> Any:
    if name == "service":
        return importlib.import_module("fdbqueue.service")
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
