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
    from fdbqueue import service
    from fdbqueue.conf import family, several
    from fdbqueue.on_commit import push_batch_on_commit, push_on_commit
    from fdbqueue.service import Item, transactional
    from fdbqueue.taking import (
        alease_from,
        alease_many_from,
        apop_from,
        apop_many_from,
        lease_from,
        lease_many_from,
        pop_from,
        pop_many_from,
    )

__all__ = [
    "FdbQueueError",
    "Item",
    "alease_from",
    "alease_many_from",
    "apop_from",
    "apop_many_from",
    "family",
    "lease_from",
    "lease_many_from",
    "pop_from",
    "pop_many_from",
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
    "alease_from": "fdbqueue.taking",
    "alease_many_from": "fdbqueue.taking",
    "apop_from": "fdbqueue.taking",
    "apop_many_from": "fdbqueue.taking",
    "lease_from": "fdbqueue.taking",
    "lease_many_from": "fdbqueue.taking",
    "pop_from": "fdbqueue.taking",
    "pop_many_from": "fdbqueue.taking",
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


def __getattr__(name: str) -> Any:
    if name == "service":
        return importlib.import_module("fdbqueue.service")
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
