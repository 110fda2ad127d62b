"""Functions for ``queue_drain --handler``."""

from __future__ import annotations

import logging

from fdbqueue import Item

logger = logging.getLogger(__name__)


def deliver(item: Item) -> None:
    """Do with an item of the queue ``mail`` what the demo can: tell of it."""
    logger.info("an item was delivered", extra={"item": item.id, "attempts": item.attempts})
