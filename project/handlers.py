"""Functions for ``queue_work``."""

from __future__ import annotations

import logging

from fdbqueue import Item

logger = logging.getLogger(__name__)


def deliver(item: Item) -> None:
    """Log an item of the queue ``mail``, in place of delivering it."""
    logger.info("an item was delivered", extra={"item": item.id, "attempts": item.attempts})
