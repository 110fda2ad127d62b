"""Threads of a process that do one thing together: one of them does it for all who wait.

Whoever finds nobody at work leads: it takes steps, each for as many as it can, until its own
turn is served, and hands the work on to the next who waits. Alone, a thread does all of its
work itself, with no other thread and no wait.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence

from fdbqueue.exceptions import OutcomeUnknown
from fdbqueue.service.items import Item
from fdbqueue.service.wants import Served, Want


class Waiter(Want):
    """Somebody who waits for items; its thread sleeps on its lock."""

    __slots__ = ("error", "is_done", "items", "leads", "lock")

    def __init__(self, want: Want) -> None:
        super().__init__(want.end, want.count, want.effect, want.call, leases=want.leases)
        self.items: list[Item] = []
        self.error: Exception | None = None
        self.is_done = False
        self.leads = False
        self.lock = threading.Lock()
        self.lock.acquire()

    def finish(self, result: list[Item] | Exception) -> None:
        """Give the items, or the error, and let the thread go on."""
        if isinstance(result, Exception):
            self.error = result
        else:
            self.items = result
        self.is_done = True
        self.lock.release()


class Line:
    """Those who wait, in the order they came; the subclass says what a step does for them."""

    def __init__(self) -> None:
        self._forget_waiting()

    def _forget_waiting(self) -> None:
        """Start anew, in a forked process: those who waited are in the other one."""
        self._mutex = threading.Lock()
        self._waiting: dict[Waiter, None] = {}
        self._is_led = False
        #: Those that a transaction under way may be taking for.
        self._batch: Sequence[Waiter] = ()
        #: Whether one is under way, and what it did once it is committed.
        self._is_at_work = False
        self._committed: Served | None = None

    def take(self, want: Want) -> list[Item]:
        """Take items, together with all others in this process who want some now.

        An interrupt goes through, and has an attribute ``outcome_known``: False when items
        may have been taken that nobody has now.

        Raises:
            CorruptItem: One of them cannot be decoded; all stay where they are.
            OutcomeUnknown: It is not known whether they were taken.
        """
        waiter = Waiter(want)
        try:
            with self._mutex:
                self._waiting[waiter] = None
                waiter.leads = not self._is_led
                self._is_led = True
            if not waiter.leads:
                waiter.lock.acquire()
            if not waiter.is_done:
                self._lead(waiter)
            self._hand_on(waiter)
        except BaseException as interrupt:
            self._leave(waiter, interrupt)
            raise
        if waiter.error is not None:
            raise waiter.error
        return waiter.items

    def _begin_work(self, *, at_work: bool = True) -> None:
        """Note that a transaction begins, or that none is under way; none is committed yet."""
        self._committed, self._is_at_work = None, at_work

    def _step(self) -> None:
        """Serve some of those who wait."""
        raise NotImplementedError

    def _lead(self, own: Waiter) -> None:
        try:
            while not own.is_done:
                self._batch = ()
                self._begin_work(at_work=False)
                self._step()
        except Exception as error:  # noqa: BLE001  # each who waited raises it
            self._fail(error, own)

    def _hand_on(self, own: Waiter) -> None:
        """Let the next who waits lead, if that is for this waiter to do."""
        with self._mutex:
            if not own.leads:
                return
            self._batch = ()
            following = next(iter(self._waiting), None)
            # No call from here to the release: an interrupt cannot come in between.
            own.leads = False
            if following is None:
                self._is_led = False
            else:
                following.leads = True
                following.lock.release()

    def _fail(self, error: Exception, own: Waiter) -> None:
        """Give those whose step failed the error: each one of its own."""
        for waiter in {own, *self._batch}:
            if not waiter.is_done:
                self._finish(waiter, error if waiter is own else copy.copy(error))

    def _leave(self, own: Waiter, interrupt: BaseException) -> None:
        """Stop waiting, or leading, after an interrupt, and say whether that lost items."""
        with self._mutex:
            is_known = own in self._waiting and own not in self._batch
            self._waiting.pop(own, None)
            leads = own.leads  # from here on nobody makes it lead
        if leads:
            is_known = self._abandon(own, interrupt)
        interrupt.outcome_known = is_known  # type: ignore[attr-defined]
        self._hand_on(own)

    def _abandon(self, own: Waiter, interrupt: BaseException) -> bool:
        """Give the others what was taken for them; tell whether the own outcome is known."""
        if self._committed is not None:
            self._settle(self._committed)
            return not own.is_done
        is_known: bool = getattr(interrupt, "outcome_known", not self._is_at_work)
        if not is_known:
            for waiter in self._batch:
                if not waiter.is_done and waiter is not own:
                    reason = "the thread in charge was stopped"
                    self._finish(waiter, OutcomeUnknown(reason=reason))
        return is_known and not own.is_done

    def _gather(self, early: Sequence[Waiter]) -> tuple[Sequence[Waiter], int]:
        """Return all who wait now, and how many of them, the first, were early."""
        with self._mutex:
            prompt = {waiter: None for waiter in early if waiter in self._waiting}
            self._batch = [*prompt, *(one for one in self._waiting if one not in prompt)]
            return self._batch, len(prompt)

    def _settle(self, served: Served) -> None:
        """Give those who were served what they got."""
        self._committed = served
        for waiter, result in served.results:
            if not waiter.is_done:
                self._finish(waiter, result)
        self._begin_work(at_work=False)

    def _finish(self, waiter: Waiter, result: list[Item] | Exception) -> None:
        with self._mutex:
            self._waiting.pop(waiter, None)
        waiter.finish(result)
