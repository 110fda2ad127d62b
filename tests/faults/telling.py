"""What a call tells its caller, held against what the database holds.

``tell`` puts the end of a call in one of three words; ``MAY_HOLD`` says how often the call may
then have taken effect. ``Tripwire`` lets one step of a call fail, after its first commit has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fdbqueue.exceptions import EngineUnavailable, FdbQueueError, OutcomeUnknown
from fdbqueue.service.transactions import error_code
from tests.faults.faulty import Fault, Faulty

DONE, NOTHING, UNKNOWN = "done", "nothing", "unknown"
#: How often a call of which this was told may have taken effect.
MAY_HOLD = {DONE: {1}, NOTHING: {0}, UNKNOWN: {0, 1}}


class Alarm(Exception):
    """What a signal handler raises."""


def tell(call: Callable[[], object]) -> str:
    """Make a call, and return what its caller is told."""
    try:
        call()
    except BaseException as error:  # noqa: BLE001  # interrupts tell something, too
        return _told_by(error)
    return DONE


def _told_by(error: BaseException) -> str:
    known = getattr(error, "outcome_known", None)
    if known is None:  # an error of ours says it by its class
        known = isinstance(error, FdbQueueError) or error_code(error) is not None
    assert not (known and isinstance(error, OutcomeUnknown))
    return NOTHING if known else UNKNOWN


class FailingOnce(Faulty):
    """A database whose first commit fails, and no other.

    Args:
        database: Anything with ``create_transaction()``.
        error: The engine's class of errors.
        fault: What befalls the commit, None for nothing.
    """

    def __init__(self, database: Any, error: type[Exception], fault: Fault | None) -> None:
        super().__init__(database, error, seed=1)
        self._fault = fault

    def draw(self) -> Fault | None:
        """Return the fault, once."""
        fault, self._fault = self._fault, None
        return fault

    def land_all(self) -> None:
        """Let what is still under way take effect or be refused."""
        self.land("late: first", "late: meanwhile", "late: last")


class Tripwire:
    """A database whose first commit fails, and one step after that.

    Steps are calls into the database, its transactions and their futures.

    Args:
        database: Anything with ``create_transaction()``.
        error: The engine's class of errors.
        fault: What befalls the first commit.
        trip: What the step raises, by the time it is to be raised: ``"before"`` it is done,
            or ``"after"``.
        step: Which step, from 0 on.
    """

    def __init__(
        self, database: Any, error: type[Exception], fault: Fault, trip: Trip, step: int
    ) -> None:
        self._faulty = FailingOnce(database, error, fault)
        self._trip = trip
        self._left = step
        self._is_armed = False
        self.has_tripped = False

    def create_transaction(self) -> Any:
        """Return a transaction with the wire on it."""
        return _Transaction(self, self.do("create", self._faulty.create_transaction))

    def land_all(self) -> None:
        """Let what is still under way take effect or be refused."""
        self._faulty.land_all()

    def arm(self) -> None:
        """Begin to count steps."""
        self._is_armed = True

    def do(self, name: str, action: Callable[[], Any]) -> Any:
        """Take a step."""
        if not self._is_armed:
            return action()
        self._left -= 1
        if self._left != -1:
            return action()
        self.has_tripped = True
        if name == "commit" and self._trip.refuses:
            raise self._trip.error(self._faulty)
        if self._trip.moment == "after":
            action()
        raise self._trip.error(self._faulty)


class Trip:
    """An error to raise at a step.

    Args:
        moment: ``"before"`` the step is done, or ``"after"``.
        error: What it raises: an exception, or the code of an engine's error.
        refuses: Whether a commit that raises it says by it that nothing was written.
    """

    def __init__(self, moment: str, error: Any, *, refuses: bool = False) -> None:
        self.moment = moment
        self.refuses = refuses
        self._error = error

    def __repr__(self) -> str:
        return f"{self._error!r} {self.moment}"

    def error(self, faulty: Faulty) -> BaseException:
        """Return the error, a new one each time."""
        if isinstance(self._error, int):
            return faulty.error(self._error)
        made: BaseException = self._error()
        return made


TRIPS = [
    Trip(moment, error, refuses=error in {EngineUnavailable, 1020, 2101})
    for moment in ("before", "after")
    for error in (EngineUnavailable, 1020, 1021, 1031, 1039, 2101, Alarm, KeyboardInterrupt)
]


class _Transaction:
    """A transaction with the wire on it."""

    def __init__(self, wire: Tripwire, transaction: Any) -> None:
        self._wire = wire
        self._transaction = transaction

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transaction, name)

    def __getitem__(self, key: Any) -> Any:
        return self._wire.do("read", lambda: self._transaction[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        self._transaction[key] = value

    def get_read_version(self) -> Any:
        return self._wire.do("version", self._transaction.get_read_version)

    def get_versionstamp(self) -> Any:
        stamp = self._transaction.get_versionstamp()
        return _Future(self._wire, "stamp", lambda: stamp)

    def cancel(self) -> None:
        self._transaction.cancel()

    def on_error(self, error: Any) -> Any:
        return self._wire.do("on_error", lambda: self._transaction.on_error(error))

    def commit(self) -> Any:
        return _Future(self._wire, "commit", self._transaction.commit)


class _Future:
    """The future of a commit, or of its stamp, with the wire on it.

    A commit begins when it is waited for: one that trips before has not been sent.
    """

    def __init__(self, wire: Tripwire, name: str, begin: Callable[[], Any]) -> None:
        self._wire, self._name, self._begin = wire, name, begin

    def wait(self) -> Any:
        try:
            return self._wire.do(self._name, lambda: self._begin().wait())
        except BaseException:
            self._wire.arm()
            raise
