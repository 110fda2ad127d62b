"""Decide what follows when a take conflicts: one policy for one queue and for several.

It takes again (:class:`Race`), but

- *on an engine with reservations* takes reserve its file before they read, for a while;
- *in a queue with shards* it takes from another slot, among twice as many as before, because others
  then take other rows;
- *else, after two in a row*, if other processes take, it asks these for help (:mod:`help`), unless
  to race on is measured to be faster; for a while others ask at once;
- *after two* (with reservations, with pushes) it takes ``AS_SEEN`` (:class:`head.Order`);
- *from the third on*, without reservations, it sleeps first.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from fdbqueue.engines.protocols import Database
from fdbqueue.service.consume.head import Order
from fdbqueue.steady import monotonic

#: After so many conflicts in a row a take asks for help, or takes what it has seen; after more it
#: sleeps, too. So 4 x 16 poppers take 12.9 times as many items as by the recipe, and of 16 x 1 the
#: process that does least has 0.78 of the mean.
_ASKS_AFTER = _AS_SEEN_AFTER = _SLEEPS_AFTER = 2
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
        order: What the first round of a take depends on.
        slot: How many runs of rows of each shard they leave to others.
        helped_until: Until when they ask for help without trying first, by the monotonic clock.
        reserved_until: Until when they reserve the engine's file before they read.
    """

    def __init__(self, database: Database, choices: int = 0) -> None:
        self.has_reservations = getattr(database, "has_reservations", False)
        self.choices = choices
        self.order = Order.AS_SEEN if choices else Order.STRICT
        self.restart_after_fork()

    def restart_after_fork(self) -> None:
        """Start again in a forked process."""
        self.helped_until = self.reserved_until = 0.0
        self.slot = 0
        self._helped_seconds = 0.0  # how long help takes; as none until it is measured
        self._raced_seconds = self._won = 0.0  # of races, and how many of them were won

    def reserve(self, tr: Any) -> None:
        """Reserve the file, before a transaction reads anything."""
        if tr.reserve():
            self.reserve_from_now()

    def reserve_from_now(self) -> None:
        """Let takes reserve the file for a while, because one has met others."""
        self.reserved_until = monotonic() + _REMEMBERED_SECONDS

    def asks(self, raced: float) -> bool:
        """Tell whether a take that has raced for these seconds asks for help; others then do."""
        helped = self._helped_seconds
        if raced < helped and self._raced_seconds + raced < helped * self._won:
            self._helped_seconds *= _HOPE
            return False
        self.note_race(raced, is_won=False)
        self.helped_until = monotonic() + _REMEMBERED_SECONDS
        return True

    def note_race(self, seconds: float, *, is_won: bool) -> None:
        """Note how long a take has raced with others, and whether it has won."""
        self._raced_seconds = self._raced_seconds * _KEPT + seconds
        self._won = self._won * _KEPT + is_won

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

    def try_nearer(self) -> None:
        """Now and then, after a round without a conflict, try the slot nearer to the end."""
        self.slot -= self.slot > 0 and not random.randrange(_CALM_ROUNDS)


class Race:
    """What a take does after its conflicts.

    Args:
        contention: What takes at this end have met.
        waits_too_long: Of a take for all help requests, because nobody serves them: tells whether
            it has waited for so long that it tries until it has won. None for other takes.

    Attributes:
        order: What its next round depends on.
        since: When its first conflict with other processes was; 0 if there was none.
    """

    def __init__(
        self, contention: Contention, waits_too_long: Callable[[], bool] | None = None
    ) -> None:
        self._contention = contention
        self._waits_too_long = waits_too_long
        self._conflicts = 0  # in a row that pushes may have caused
        self.since = 0.0
        self.order = contention.order if waits_too_long is None else Order.AS_SEEN

    def goes_on(self, *, others: bool, wanted: int = 1) -> bool:
        """Decide what follows a conflict, and sleep if the next round has to wait.

        Args:
            others: Whether other processes take items at this end.
            wanted: How many items are wanted.

        Returns:
            Whether the take tries again; else it asks for help, or waits for it as before.
        """
        contention = self._contention
        self._conflicts += 1
        if self._waits_too_long is not None:
            if not self._waits_too_long():
                return False
            sleep_before_retry(self._conflicts)
            return True
        if contention.has_reservations:
            contention.reserve_from_now()
            self._conflicts = 0 if others else self._conflicts
        elif contention.choices:
            most = max(3, min(_SLOTS, _SKIPPED_ITEMS // wanted))
            contention.slot = random.randrange(min(most, 2 * contention.slot + 2))
        elif others:
            now = monotonic()
            self.since = self.since or now
            if self._conflicts >= _ASKS_AFTER and contention.asks(now - self.since):
                return False
        is_new = self._conflicts < _AS_SEEN_AFTER
        self.order = contention.order if is_new else Order.AS_SEEN
        if self._conflicts > _SLEEPS_AFTER and not contention.has_reservations:
            sleep_before_retry(self._conflicts - _SLEEPS_AFTER)
        return True

    def win(self) -> None:
        """Note that the take has committed, or had nothing to commit."""
        if self.since:
            self._contention.note_race(monotonic() - self.since, is_won=True)


def sleep_before_retry(number: int) -> None:
    """Sleep before the retry with a number, up to twice as long as before the one before it."""
    longest: float = min(_FIRST_SLEEP_SECONDS * 2**number, _MAX_SLEEP_SECONDS)
    time.sleep(longest * random.random())
