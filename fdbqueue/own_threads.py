"""The threads of this package: what starts them, and what ends if one of them dies.

Each is an :class:`OwnThread`. What it runs handles the errors that it expects. One that ends by any
other, as by a ``MemoryError`` or a defect of ours, has *died*: whoever relies on it would wait for
ever, and a lease that it was to extend would expire. So its worker ends. In this order:

1. *The thread* tells the :class:`WorkerThreads` that it belongs to; a thread that several share,
   such as one of an engine, those of all workers that are at work in this process. It tries again
   while memory is short.
2. *The worker's caller*, whichever of its waits it is in, raises :class:`ThreadDied`, within two
   seconds. From then on nothing is leased, and nobody waits for what still runs.
3. It waits up to five seconds for what its threads lease or acknowledge just then.
4. It gives back all that the worker holds: what is done is acknowledged, what waits is requeued as
   it was, and what runs is given up, so that other workers take it at once.
5. The command ends with exit code 1, by an exception that only a defect raises. A parent starts
   another process.

What is left behind by

- *a handler or a task that still runs*: it goes on to its end or to that of its process; its lease
  is given back by then, so its end is refused as that of a lease that was lost;
- *an engine that does not answer*: leases that expire. A second signal ends that wait, too;
- *a second death, or one while the worker ends anyway*: nothing more, the first is raised;
- *a shared thread that dies where no worker is at work*: Python reports it, and who needs the
  thread next starts another;
- *a fork*: the child has none of these threads.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fdbqueue.exceptions import type_name
from fdbqueue.logs import get_logger

if TYPE_CHECKING:
    from typing_extensions import Self

logger = get_logger(__name__)

#: How long a thread that dies pauses before it tells so again, as memory was too short.
_PAUSES_SECONDS = (0.0, 0.01, 0.1, 1.0, 5.0)


class ThreadDied(RuntimeError):
    """A thread of a worker has ended by an exception, which is the cause."""


class WorkerThreads:
    """The threads of one worker: it ends if one of them dies. Entered while it is at work.

    Attributes:
        death: What the worker raises, once one of them has died.
        on_death: Called then, in the thread that dies.
    """

    def __init__(self) -> None:
        self.death: ThreadDied | None = None
        self.on_death: Callable[[], object] = lambda: None

    def __enter__(self) -> Self:
        _at_work.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        _at_work.discard(self)

    def check(self) -> None:
        """Raise what the worker ends by, if one of its threads has died."""
        if self.death is not None:
            raise self.death

    def tell(self, thread: str, error: BaseException) -> None:
        """End the worker, because a thread has died."""
        if self.death is None:
            death = ThreadDied(f"The thread {thread} has ended by {type_name(error)}")
            death.__cause__ = error
            self.death = death
        self.on_death()


#: The threads of the workers that are at work in this process.
_at_work: weakref.WeakSet[WorkerThreads] = weakref.WeakSet()


class OwnThread(threading.Thread):
    """A thread that tells of its death.

    Args:
        target: What it runs.
        name: Its name.
        args: The arguments.
        owner: The threads of the worker that it belongs to; None if several share it.
        daemon: Whether the process may end before it.
    """

    def __init__(
        self,
        target: Callable[..., object],
        *,
        name: str,
        args: tuple[Any, ...] = (),
        owner: WorkerThreads | None = None,
        daemon: bool = True,
    ) -> None:
        super().__init__(target=target, name=name, args=args, daemon=daemon)
        self._owner = owner

    def start(self) -> None:
        """Start it; what a signal handler raises meanwhile is raised as it is.

        ``Thread.start`` loses an exception that comes when the thread has begun just then: it
        raises ``KeyError`` in its place. The thread runs all the same.
        """
        try:
            super().start()
        except KeyError as error:
            raise error.__context__ or error from None

    def run(self) -> None:
        """Call the target; if it raises, tell who relies on it."""
        try:
            super().run()
        except BaseException as error:
            if not self._tell(error):
                raise

    def _tell(self, error: BaseException) -> bool:
        """Tell who relies on this thread; false if nobody does."""
        for pause in _PAUSES_SECONDS:
            time.sleep(pause)
            try:
                told = [*_at_work] if self._owner is None else [self._owner]
                for one in told:
                    one.tell(self.name, error)
                logger.error("a thread has died", exc_info=error)  # a record has its name
            except MemoryError:
                continue
            return bool(told)
        return False


class OwnTimer(OwnThread):
    """A thread that does something after a time, unless it is cancelled before.

    Args:
        seconds: The time.
        target: What it does.
        name, args: As of an :class:`OwnThread`.
    """

    def __init__(
        self,
        seconds: float,
        target: Callable[..., object],
        *,
        name: str,
        args: tuple[Any, ...] = (),
    ) -> None:
        super().__init__(target, name=name, args=args)
        self._seconds = seconds
        self._is_over = threading.Event()

    def cancel(self) -> None:
        """Do nothing, if the time is not over yet."""
        self._is_over.set()

    def run(self) -> None:
        """Wait, and call the target."""
        if not self._is_over.wait(self._seconds):
            super().run()
