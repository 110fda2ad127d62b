"""What a queue is called in the metrics: as in the setting, so that there are only so many."""

from __future__ import annotations

from fdbqueue import conf
from fdbqueue.exceptions import FdbQueueError

#: What queues are called that the setting does not know.
OTHER = "other"


def label_of(name: str) -> str:
    """Return the name of a queue in the setting: its own, or the pattern that it fits."""
    try:
        return conf.catalog().spec(name).name
    except FdbQueueError:
        return OTHER
