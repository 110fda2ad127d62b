"""Decide what follows when a take conflicts: one policy for one queue and for several.

A take that conflicts tries again. What else it does depends on what it has met:

- *The engine has reservations*: takes reserve its file before they read, for a while and for as
  long as other processes do. Then they do not conflict, and need no help.
- *Pushes, twice in a row*: it takes items ``AS_SEEN`` (:class:`head.Order`).
- *Takes of other processes, twice in a row*: it asks these for help (:mod:`help`); from several
  queues it takes by the one that gave something. For a while others of this process do so at once.
- *A queue with shards*: it takes from another slot, among twice as many as up to that one, so that
  processes that conflict come to take different rows. The one that is nearest to the end comes to
  be there. Nobody asks for help.
- *From the third conflict in a row on* it sleeps first, for longer each time.

What is noted here only decides what is tried, by the monotonic clock and at random. So whatever
ends a thread leaves nothing behind, and a forked process starts again. The numbers are below, with
what was measured of them on a cluster.
"""

from __future__ import annotations

import random
import time
from typing import Any

from fdbqueue.engines.protocols import Database

#: After this many conflicts in a row a take asks for help, or takes what it has seen. So 4 x 16
#: poppers take 12.9 times as many items as by the recipe, and of 16 x 1 the process that does least
#: has 0.78 of the mean.
CONFLICTS = 2
#: For how long a process that had to ask for help asks again without trying first, and one that
#: has met others reserves the file. Of the order of a hundred commits; no other was measured.
_REMEMBERED_SECONDS = 0.25
#: The longest sleep after the first conflict that has one: it doubles with each, up to the second.
#: Without any the recipe's 4 x 16 poppers take 0.30 times as many items as with those that
#: ``on_error`` makes.
_FIRST_SLEEP_SECONDS, _MAX_SLEEP_SECONDS = 0.001, 0.05
#: The slots of a queue with shards; for rounds of many items the skipped rows are fewer than this.
#: With 16 shards 4 x 16 poppers meet less than 0.1 conflicts a pop, 16 x 1 about 0.1.
_SLOTS, _SKIPPED_ITEMS = 32, 128
#: After so many rounds without a conflict, on average, a process tries the slot nearer to the end.
#: Chosen with the slots; no other was measured.
_CALM_ROUNDS = 32


class Contention:
    """What the takes at one end of a queue, or of several, have met in this process.

    Args:
        database: Where they take items.
        choices: Of how many shards a take chooses the best; 0 if there are no shards.

    Attributes:
        has_reservations: Whether the engine has them.
        helped_until: Until when they ask for help without trying first, by the monotonic clock.
        reserved_until: Until when they reserve the engine's file before they read.
        slot: How many runs of rows of each shard they leave to others.
    """

    def __init__(self, database: Database, choices: int = 0) -> None:
        self.has_reservations = getattr(database, "has_reservations", False)
        self._choices = choices
        self.forget()

    def forget(self) -> None:
        """Start again in a forked process."""
        self.helped_until = self.reserved_until = 0.0
        self.slot = 0

    def reserve(self, tr: Any) -> None:
        """Reserve the file, before a transaction reads anything."""
        if tr.reserve():
            self.reserved_until = time.monotonic() + _REMEMBERED_SECONDS

    def after_conflict(self, conflicts: int, *, others: bool, wanted: int = 1) -> int | None:
        """Decide what a take does after a conflict, and sleep if it has to wait before.

        Args:
            conflicts: How many there were in a row.
            others: Whether other processes take items at this end.
            wanted: How many items are wanted.

        Returns:
            How many conflicts in a row pushes may have caused; None to ask others for help.
        """
        if self.has_reservations:
            self.reserved_until = time.monotonic() + _REMEMBERED_SECONDS
            return 0 if others else conflicts
        if self._choices:
            most = max(3, min(_SLOTS, _SKIPPED_ITEMS // wanted))
            self.slot = random.randrange(min(most, 2 * self.slot + 2))
        elif others and conflicts >= CONFLICTS:
            self.helped_until = time.monotonic() + _REMEMBERED_SECONDS
            return None
        if conflicts > CONFLICTS:
            sleep_before_retry(conflicts - CONFLICTS)
        return conflicts

    def note_help(self, *, is_given: bool) -> None:
        """Note whether others have helped: if they have, they are asked again."""
        self.helped_until = time.monotonic() + _REMEMBERED_SECONDS if is_given else 0.0

    def stay_calm(self) -> None:
        """Note a round without a conflict: now and then the slot nearer to the end is tried."""
        self.slot -= self.slot > 0 and not random.randrange(_CALM_ROUNDS)


def sleep_before_retry(number: int) -> None:
    """Sleep before the retry with a number, up to twice as long as before the one before it."""
    longest: float = min(_FIRST_SLEEP_SECONDS * 2**number, _MAX_SLEEP_SECONDS)
    time.sleep(longest * random.random())
