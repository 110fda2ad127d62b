"""Groups of dead letters: those that died of the same reason.

A group is named by the first line of the reason, at most 200 characters of it. The counts by
group are stored (:mod:`fdbqueue.service.storage.counts`): a dead letter must leave the group that
it was counted in, so another rule of naming needs a recount of every queue.
"""

from __future__ import annotations

_MAX_CHARACTERS = 200


def group_of(reason: bytes) -> bytes:
    """Return the name of the group of a stored reason, in UTF-8 as the reason."""
    return _group(reason.decode(errors="replace")).encode()


def group_named(reason: str) -> bytes:
    """Return the name of the group that a reason is in, or that it names."""
    return _group(reason).encode(errors="replace")


def _group(reason: str) -> str:
    return reason.strip().partition("\n")[0].rstrip()[:_MAX_CHARACTERS].rstrip()
