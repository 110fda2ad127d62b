"""Decide what follows when a take conflicts: one policy for one queue and for several.

A take that conflicts tries again. What else it does depends on what it has met:

- *The engine has reservations*: takes reserve its file before they read, for a while, and need no
  help.
- *Pushes, twice in a row*: it takes items ``AS_SEEN`` (:class:`head.Order`).
- *Takes of other processes, twice in a row*: it asks these for help (:mod:`help`) if that is
  measured to be faster than to race on; for a while its process's others do so at once.
- *A queue with shards*: it takes from another slot, among twice as many as before, so that
  processes take different rows, and one is nearest to the end.
- *From the third conflict in a row on* it sleeps first, for longer each time.

Whatever ends a thread leaves nothing behind, and a forked process starts again.
"""

from __future__ import annotations

import random
import time
from typing import Any

from fdbqueue.engines.protocols import Database
from fdbqueue.steady import monotonic

#: After so many conflicts in a row a take asks for help, or takes what it has seen; after more it
#: sleeps, too. So 4 x 16 poppers take 12.9 times as many items as by the recipe, and of 16 x 1 the
#: process that does least has 0.78 of the mean.
_ASKS_AFTER = AS_SEEN_AFTER = _SLEEPS_AFTER = 2
#: For how long a process that had to ask for help asks without trying first, and one that has met
#: others reserves the file. Of the order of a hundred commits; no other was measured.
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
#: How much is left of earlier races when one more is measured, and how much a new measurement of
#: help counts.
_KEPT, _WEIGHT = 0.9, 0.2
#: By how much the other way is taken to have become faster each time that one is preferred, so that
#: it is measured again. With a simulated latency of 3.3 ms 16 x 1 poppers take as much as if they
#: always asked, and of 4 x 1 and 2 x 1 the process that does least has 0.85 and 0.77 of the mean,
#: not 0.59 and 0.43.
_HOPE = 0.998
#: Who has waited this long for help takes over, whatever others take, and races: they may be of a
#: version that passes over its request.
MAX_HELP_SECONDS = 1.0


class Contended(Exception):
    """Other processes take items too, and must not serve this request; nothing was done."""


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
        racing_since: When the first conflict was with others of the take that is under way; 0 if
            there was none.
    """

    def __init__(self, database: Database, choices: int = 0) -> None:
        self.has_reservations = getattr(database, "has_reservations", False)
        self._choices = choices
        self.restart_after_fork()

    def restart_after_fork(self) -> None:
        """Start again in a forked process."""
        self.helped_until = self.reserved_until = 0.0
        self.slot = 0
        self.racing_since = 0.0
        self._helped_seconds = 0.0  # how long help takes; as none until it is measured
        self._raced_seconds = self._won = 0.0  # of races, and how many of them were won

    def reserve(self, tr: Any) -> None:
        """Reserve the file, before a transaction reads anything."""
        if tr.reserve():
            self.reserved_until = monotonic() + _REMEMBERED_SECONDS

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
            self.reserved_until = monotonic() + _REMEMBERED_SECONDS
            return 0 if others else conflicts
        if self._choices:
            most = max(3, min(_SLOTS, _SKIPPED_ITEMS // wanted))
            self.slot = random.randrange(min(most, 2 * self.slot + 2))
        elif others:
            now = monotonic()
            self.racing_since = self.racing_since or now
            if conflicts >= _ASKS_AFTER and self._is_help_faster(now):
                self.helped_until = now + _REMEMBERED_SECONDS
                return None
        if conflicts > _SLEEPS_AFTER:
            sleep_before_retry(conflicts - _SLEEPS_AFTER)
        return conflicts

    def _is_help_faster(self, now: float) -> bool:
        raced, helped = now - self.racing_since, self._helped_seconds
        if raced < helped and self._raced_seconds + raced < helped * self._won:
            self._helped_seconds *= _HOPE
            return False
        self._note_race(now, is_won=False)
        return True

    def _note_race(self, now: float, *, is_won: bool) -> None:
        self._raced_seconds = self._raced_seconds * _KEPT + now - self.racing_since
        self._won = self._won * _KEPT + is_won
        self.racing_since = 0.0

    def note_help(self, seconds: float, *, is_given: bool) -> None:
        """Note how long a take by help has lasted, and whether the next one asks, too.

        Not if no process gave any; for another while if help is faster than to race.
        """
        weight = _WEIGHT if self._helped_seconds else 1.0
        self._helped_seconds += weight * (seconds - self._helped_seconds)
        if not is_given:
            self.helped_until = 0.0
            self._won += seconds > MAX_HELP_SECONDS  # without help, so the next take races on
        elif self._won and self._raced_seconds > self._helped_seconds * self._won:
            self._raced_seconds *= _HOPE
            self.helped_until = monotonic() + _REMEMBERED_SECONDS

    def note_commit(self) -> None:
        """Note a round that has committed: now and then the slot nearer to the end is tried."""
        self.slot -= self.slot > 0 and not random.randrange(_CALM_ROUNDS)
        if self.racing_since:
            self._note_race(monotonic(), is_won=True)


def sleep_before_retry(number: int) -> None:
    """Sleep before the retry with a number, up to twice as long as before the one before it."""
    longest: float = min(_FIRST_SLEEP_SECONDS * 2**number, _MAX_SLEEP_SECONDS)
    time.sleep(longest * random.random())
