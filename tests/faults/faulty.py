"""A database whose commits fail at random: before, after or long before they take effect.

It goes around any database object, the embedded engine's or one of FoundationDB's binding,
and raises the engine's own errors. What happens to a commit:

    before   it does not take effect: 1020, 1007, 1009, and 1021 or 1039, which do not say so
    after    it takes effect, and 1021 or 1039 does not say so
    late     1039 is raised while it is still under way: it takes effect, or is refused,
             when the next attempt starts, when that one is about to commit, or when one
             has been committed

After 1021 a commit is never under way any more, so there is no late 1021. A 1039 comes from
a client that changes to another version of its library; the old one's commit may be under
way, and to cancel its transaction does not take it back. A test may ask for 1031 at any of
these moments, too: it ends the call, and leaves open what becomes of its commit.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.wrapped import WrappedTransaction

_CHANGED, _TIMED_OUT = 1039, 1031
#: not_committed and transaction_too_old: how a late commit is refused.
_REFUSED = frozenset({1020, 1007})


class Fault(NamedTuple):
    """What a commit raises, and when it takes effect, if ever."""

    code: int
    moment: str


BEFORE = [Fault(code, "before") for code in (1020, 1007, 1009, 1021, _CHANGED)]
AFTER = [Fault(code, "after") for code in (1021, _CHANGED)]
LATE = [Fault(_CHANGED, moment) for moment in ("late: first", "late: meanwhile", "late: last")]


class Faulty:
    """A database object around another, some of whose commits fail.

    Args:
        database: Anything with ``create_transaction()``.
        error: The engine's class of errors, called with a code.
        seed: Of the dice; with one thread, the same seed is the same faults.
        rate: The share of commits that fail.
        faults: What is drawn from.

    Attributes:
        happened: How often each fault was raised, and how late commits ended: under
            ``"landed"`` and ``"refused"``.
    """

    def __init__(
        self,
        database: Any,
        error: type[Exception],
        *,
        seed: int,
        rate: float = 0.3,
        faults: Sequence[Fault] = (*BEFORE, *AFTER, *LATE),
    ) -> None:
        self.happened: Counter[Any] = Counter()
        self.error = error
        self._database = database
        self._dice = random.Random(seed)
        self._under_way = threading.local()
        self._rate = rate
        self._faults = faults
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def __getitem__(self, key: Any) -> Any:
        return self._database[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._database[key] = value

    def __delitem__(self, key: Any) -> None:
        del self._database[key]

    def create_transaction(self) -> FaultyTransaction:
        """Return a transaction whose commit may fail."""
        self.land("late: first")
        return FaultyTransaction(self)

    def begin(self) -> Any:
        """Return a transaction of the database itself; its pauses are short."""
        transaction = self._database.create_transaction()
        transaction.options.set_max_retry_delay(3)
        return transaction

    def draw(self) -> Fault | None:
        """Return what shall happen to a commit, None for nothing."""
        with self._lock:
            if self._dice.random() >= self._rate:
                return None
            return self._dice.choice(self._faults)

    def count(self, what: Any) -> None:
        """Count something that happened."""
        with self._lock:
            self.happened[what] += 1

    def leave_under_way(self, transaction: Any, moment: str) -> None:
        """Keep a transaction of this thread, to be committed at a later moment.

        A commit reads at a version that it has from its start.
        """
        transaction.get_read_version().wait()
        self._kept().append((moment, transaction))

    def is_under_way(self, transaction: Any) -> bool:
        """Whether this thread has left a transaction under way."""
        return any(kept is transaction for _, kept in self._kept())

    def land(self, *moments: str) -> None:
        """Let what this thread left under way for these moments take effect, or be refused."""
        kept, self._under_way.kept = self._kept(), []
        for moment, transaction in kept:
            if moment not in moments:
                self._under_way.kept.append((moment, transaction))
                continue
            try:
                transaction.commit().wait()
            except self.error as error:
                if error.code not in _REFUSED:  # an FDBError's
                    raise
                self.count("refused")
            else:
                self.count("landed")

    def _kept(self) -> list[tuple[str, Any]]:
        kept: list[tuple[str, Any]] = self._under_way.__dict__.setdefault("kept", [])
        return kept


class FaultyTransaction(WrappedTransaction):
    """A transaction whose commit may fail; all else is the transaction's own."""

    def __init__(self, faulty: Faulty) -> None:
        self._faulty = faulty
        super().__init__(faulty.begin())

    def commit(self) -> _Commit:
        """Commit or fail; the future tells which."""
        self._faulty.land("late: meanwhile")
        return _Commit(self._faulty, self._transaction, self._faulty.draw())

    def cancel(self) -> None:
        """Cancel what can be."""
        if not self._faulty.is_under_way(self._transaction):
            self._transaction.cancel()

    def on_error(self, error: Any) -> Any:
        """Prepare the next attempt as the engine does; after 1039, as its newer client does."""
        if (
            self._faulty.is_under_way(self._transaction)
            and getattr(error, "code", error) == _TIMED_OUT
        ):
            raise self._faulty.error(
                _TIMED_OUT
            )  # as the engine, which would end the commit as well
        if getattr(error, "code", error) != _CHANGED:
            return self._transaction.on_error(error)
        self._transaction = self._faulty.begin()
        self._faulty.land("late: first")
        return _Done()


class _Commit:
    """The future of a commit that a fault may befall."""

    def __init__(self, faulty: Faulty, transaction: Any, fault: Fault | None) -> None:
        self._faulty = faulty
        self._transaction = transaction  # held until its future is read
        self._fault = fault
        takes_effect = fault is None or fault.moment == "after"
        self._future = transaction.commit() if takes_effect else None

    def wait(self) -> None:
        """Return once it is committed; raise the fault, or what the engine raises itself."""
        if self._future is not None:
            self._future.wait()
            self._faulty.land("late: last")
        if self._fault is None:
            return
        if self._fault.moment.startswith("late"):
            self._faulty.leave_under_way(self._transaction, self._fault.moment)
        self._faulty.count(self._fault)
        raise self._faulty.error(self._fault.code)


class _Done:
    """The future of what is done."""

    def wait(self) -> None:
        """Return at once."""
