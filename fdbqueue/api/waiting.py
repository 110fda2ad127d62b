"""How many requests of this process may wait for items, and how many of one user.

A request that waits holds a thread of the server. If all threads wait, the server answers nobody,
not even a load balancer that asks whether it is healthy. So ``MAX_WAITING`` of the setting is to be
half of a process's threads. A request beyond takes what there is and is answered at once, with a
``Retry-After`` if there is nothing. Nothing is saved under its idempotency key then: sent again, it
may wait.

A place is given back however the request ends. A forked child begins with all places free, because
the threads that held them are its parent's.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

from fdbqueue import conf
from fdbqueue.access import identity
from fdbqueue.locks import RLock

#: After how many seconds a request that found no place may ask again.
RETRY_AFTER_SECONDS = 5


class Places:
    """The places of the requests that wait."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin with all places free."""
        self._lock = RLock()
        self._users: dict[object, str] = {}

    @property
    def taken(self) -> int:
        """How many requests wait."""
        return len(self._users)

    @contextlib.contextmanager
    def one(self, user: Any) -> Iterator[bool]:
        """Hold a place while the body runs, and tell it whether there was one."""
        place = object()
        try:
            yield self._take(place, identity(user))
        finally:
            self._users.pop(place, None)

    def _take(self, place: object, user: str) -> bool:
        options = conf.api()
        most, of_user = options.max_waiting, options.max_waiting_per_user
        with self._lock:
            users = [*self._users.values()]
            if len(users) >= most or (of_user is not None and users.count(user) >= of_user):
                return False
            self._users[place] = user
            return True


places = Places()
os.register_at_fork(after_in_child=places.forget)


class Wait:
    """How long a request waits: while its client is there, or for one look at the queue.

    Args:
        is_there: Tells whether the client is still connected.
        has_place: Whether it may wait.
    """

    def __init__(self, is_there: Callable[[], bool], *, has_place: bool) -> None:
        self._is_there = is_there
        self._has_place = has_place
        self._looks = itertools.count()

    def goes_on(self) -> bool:
        """Tell whether to look for items, again or for the first time."""
        return self._is_there() and (self._has_place or next(self._looks) == 0)

    @property
    def retry_after(self) -> int:
        """After how many seconds a request that found nothing may ask again; 0 for at once."""
        return 0 if self._has_place else RETRY_AFTER_SECONDS


@contextlib.contextmanager
def waits(user: Any, seconds: float, is_there: Callable[[], bool]) -> Iterator[Wait]:
    """Hold a place while the body takes items, if it is to wait for these.

    Args:
        user: The user of the request.
        seconds: How long it is to wait; 0 needs no place.
        is_there: Tells whether its client is still connected.
    """
    if not seconds:
        yield Wait(is_there, has_place=True)
        return
    with places.one(user) as has_place:
        yield Wait(is_there, has_place=has_place)
