"""Run functions in transactions, again after conflicts, each exactly once.

Only the thread of a call of :func:`run` acts for it:

1. **An attempt** runs the function in a transaction. If it wrote something, it also writes a
   receipt, a number that no other attempt has, to its *slot*: a key that only this call uses
   meanwhile, and on which it depends. When its commit begins, it is unsettled.
2. **The commit ends.** It returned: its result is the call's. The engine refused it: nothing
   happened; 1 follows, or the error is raised. Anything else leaves it unsettled.
3. **While an attempt is unsettled, the function does not run.** The next transaction reads the
   slot. If that holds the attempt's number, it took effect. Else it has not, so far: after 1021 it
   never will; after 1039 a *fence* is committed first, which changes the slot alone, so that the
   attempt conflicts. If the receipt may have been swept: ``OutcomeUnknown``.
4. **The call ends.** While an attempt is unsettled, errors of the engine and of fdbqueue become
   ``OutcomeUnknown``; others, maybe a signal handler's, pass with ``outcome_known`` false. Its slot
   is not used again.

A crash leaves the attempt with its receipt, or neither. After a pause 3 goes on, by the database's
versions. A signal handler's call within one, and a fork in the function, have slots of their own.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import os
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import fdb.tuple
from fdb.subspace_impl import Subspace

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.exceptions import (
    BatchTooLarge,
    EngineError,
    FdbQueueError,
    OutcomeUnknown,
    class_name,
)
from fdbqueue.logs import get_logger
from fdbqueue.service import instrumentation
from fdbqueue.steady import monotonic

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

logger = get_logger(__name__)

#: Where the receipts of a database are kept unless a ``Catalog`` says otherwise.
DEFAULT_SUBSPACE = Subspace(("fdbqueue", "receipt"))

#: The least age of what may be swept: its owner may yet want to know.
MIN_SWEPT_SECONDS = 600

_STAMP_BYTES = 10
_NUMBER_BYTES = 8
#: Versions advance by about a million a second, and by a hundred million when a cluster recovers.
VERSIONS_PER_SECOND = 1_000_000
#: A receipt that is younger by the database's versions is not swept.
MIN_SWEPT_VERSIONS = MIN_SWEPT_SECONDS * VERSIONS_PER_SECOND

#: Retries that took longer are worth a line in the log.
_LONG_SECONDS = 1.0

#: How long a transaction may take, how much of that makes a function too long by itself, and how
#: many times it may be.
_TRANSACTION_SECONDS, _TOO_LONG_SECONDS, _MAX_TOO_LONG = 5, 4.0, 2

_NOT_COMMITTED = 1020
#: transaction_too_old
_TOO_OLD = 1007
#: commit_unknown_result: it may have taken effect, and is not under way any more.
_UNKNOWN_RESULT = 1021
#: cluster_version_changed: it may have taken effect, or may do so yet.
_VERSION_CHANGED = 1039
#: What a commit is refused with for certain: the retryable codes but those two, and io_error,
#: which the embedded engine raises where nothing was written.
_REFUSED = frozenset({1007, 1009, 1020, 1037, 1038, 1042, 1051, 1078, 1079, 1213, 1510})
#: The client's own checks come before anything is sent; but for future_not_set, which the
#: binding may give after an interrupt, and used_during_commit.
_CHECKS = frozenset(range(2000, 3000)) - {2015, 2017}

#: The client's special keys that tell what a transaction has written so far.
_WRITTEN = b"\xff\xff/transaction/write_conflict_range/"


_places: weakref.WeakKeyDictionary[Any, Subspace] = weakref.WeakKeyDictionary()
_numbers = itertools.count(1)


class StoredReceipt(NamedTuple):
    """What a slot holds: which attempt wrote it, and its commit's versionstamp."""

    number: int
    stamp: bytes


def keep_receipts_at(database: Database, subspace: Subspace) -> None:
    """Keep the receipts of operations on a database in a subspace."""
    _places[database] = subspace


def receipts_of(database: Database) -> Subspace:
    """Return the subspace in which a database's receipts are kept."""
    try:
        return _places.get(database, DEFAULT_SUBSPACE)
    except TypeError:  # an engine's database of a class without weak references
        return DEFAULT_SUBSPACE


class _Slots:
    """The free receipt slots of this process.

    A slot is the packed tuple of the client's name and a number: the end of its key. There are as
    many as operations were ever under way at once, and one for each call whose outcome stayed
    unknown. Those of ended processes stay until they are swept.
    """

    __slots__ = ("_client", "_numbers", "free")

    def __init__(self) -> None:
        self._client = os.urandom(16)
        self.free: deque[bytes] = deque()
        self._numbers = itertools.count()

    def new(self) -> bytes:
        return fdb.tuple.pack((self._client, next(self._numbers)))


_slots = _Slots()


def _forget_slots() -> None:
    global _slots  # noqa: PLW0603  # a forked process is another client
    _slots = _Slots()


os.register_at_fork(after_in_child=_forget_slots)


class Receipt:
    """One slot, for the attempts of one call.

    Attributes:
        slots: Those of its process, which a process that was forked from it does not use.
        slot: Which of them it is.
    """

    __slots__ = ("_key", "slot", "slots")

    def __init__(self, database: Database) -> None:
        self.slots = _slots
        try:
            self.slot = self.slots.free.pop()
        except IndexError:
            self.slot = self.slots.new()
        self._key: bytes = receipts_of(database).rawPrefix + self.slot

    def write(self, tr: Transaction) -> int:
        """Let a transaction leave a receipt, and return its number."""
        number = next(_numbers)
        tr.add_read_conflict_key(self._key)
        tr.set_versionstamped_value(
            self._key, bytes(_STAMP_BYTES) + number.to_bytes(_NUMBER_BYTES, "big") + bytes(4)
        )
        return number

    def read(self, tr: Transaction) -> StoredReceipt | None:
        """Return what the slot holds; the transaction then depends on it."""
        value = tr[self._key]
        return _found(bytes(value)) if value.present() else None


def _found(value: bytes) -> StoredReceipt | None:
    if len(value) != _STAMP_BYTES + _NUMBER_BYTES:
        return None
    return StoredReceipt(int.from_bytes(value[_STAMP_BYTES:], "big"), value[:_STAMP_BYTES])


def receipt_version(value: bytes) -> int:
    """Return the version of the commit that wrote a receipt, from the stored value."""
    return int.from_bytes(value[:8], "big")


class Conflict(Exception):
    """The transaction conflicted, and the caller wanted to know."""


def run(
    database: Database,
    function: Callable[[Transaction], T],
    *,
    wrote: Callable[[T], bool] | bool | None = None,
    read_only: bool = False,
    retries_conflicts: bool = True,
    may_be_long: bool = False,
) -> T:
    """Run a function in a transaction of its own, again after each conflict, and commit.

    Exactly once: what the function wrote takes effect once, also where a commit's outcome
    is unknown. The function may run several times and must have no effect but through its
    transaction. A transaction that writes nothing leaves no receipt; writes that are all
    made with ``set_next_write_no_write_conflict_range`` do not count as such.

    An error that goes through, the function's own or one raised by a signal handler, has an
    attribute ``outcome_known``: True where nothing was written, False where a commit was or
    may be under way, or where a call within said so.

    Args:
        database: Anything with ``create_transaction()``.
        function: Called with the transaction.
        wrote: Whether the function writes anything, or what tells that from its result; None
            asks the transaction.
        read_only: Whether the function never writes anything: the same as ``wrote=False``.
        retries_conflicts: False raises :class:`Conflict` after one (1020) instead.
        may_be_long: Whether a user wrote what the function does, so it may be too long for a
            transaction; it may be, too, if ``wrote`` says nothing.

    Returns:
        What the run that was committed returned.

    Raises:
        OutcomeUnknown: It is not known whether the commit took effect: a timeout (1031),
            the retry limit, or an engine that does not answer came before that could be
            found out; or versions moved on by ten minutes' worth meanwhile.
        BatchTooLarge: The function may be too long, and has taken the five seconds of a transaction
            by itself, twice; nothing was written.
        FDBError: The engine's own, where trying again would not help; nothing was written.
    """
    wrote = False if read_only else wrote
    may_be_long = may_be_long or wrote is None
    return _Run(database, function, wrote, retries_conflicts, may_be_long=may_be_long).run()[0]


def run_stamped(
    database: Database,
    function: Callable[[Transaction], T],
    *,
    wrote: Callable[[T], bool] | bool,
    stamped: bool = True,
) -> tuple[T, bytes]:
    """Do as :func:`run` does, and return the versionstamp too, empty where it wrote nothing.

    It is empty, too, where ``stamped`` is false.
    """
    return _Run(database, function, wrote, True, stamped=stamped).run()


class _Run(Generic[T]):
    """One call of :func:`run`: its attempts, and the one whose outcome is not known."""

    def __init__(
        self,
        database: Database,
        function: Callable[[Transaction], T],
        wrote: Callable[[T], bool] | bool | None,
        retries_conflicts: bool,
        *,
        stamped: bool = False,
        may_be_long: bool = False,
    ) -> None:
        self._database = database
        self._function = function
        self._wrote = wrote
        self._retries_conflicts = retries_conflicts
        self._stamped = stamped
        self._may_be_long = may_be_long
        self._receipt: Receipt | None = None
        #: The attempt whose commit has begun, and is not known to have come to nothing.
        self._unsettled: tuple[int, T] | None = None
        #: What its commit ended with, None while it has not; and a version from before it.
        self._fdb_code: int | None = None
        self._since: int | None = None
        self._retries = 0
        self._failed_at = 0.0
        #: How long the function took in this attempt, and in how many it took too long.
        self._took = 0.0
        self._too_long = 0

    def run(self) -> tuple[T, bytes]:
        """Attempt it until one takes effect, and return its result and its stamp."""
        tr = None
        try:
            if self._wrote is not False:
                # Before anything is read: the call that had the slot last has committed by then.
                self._receipt = Receipt(self._database)
            tr = self._database.create_transaction()
            while True:
                try:
                    self._took = 0.0
                    found = None if self._unsettled is None else self._settle(tr)
                    if found is None:
                        result = self._timed(tr) if self._may_be_long else self._function(tr)
                        found = result, self._commit(tr, result)
                    break
                except Exception as error:
                    code = error_code(error)
                    if code is None:
                        raise
                    tr = self._prepare(tr, error, code)
            if self._retries:
                self._log_retries()
            self._release()
            return found
        except BaseException as error:
            raised = self._with_outcome(error, tr)
            if raised is error:
                del raised  # an error that its own frames refer to keeps all of them
                raise
            try:
                raise raised from error
            finally:
                del raised
        finally:
            if self._unsettled is None:
                self._release()

    def _timed(self, tr: Transaction) -> T:
        """Return what the function returns, and note how long it takes.

        That is not done for the verbs' own functions, which are bounded: if one of these takes
        long, the process or the engine stood still, and that passes.
        """
        began = monotonic()
        try:
            return self._function(tr)
        finally:
            self._took = monotonic() - began

    def _check_length(self, error: Exception) -> None:
        """End a call whose function has been too long for a transaction too often."""
        self._too_long += self._took > _TOO_LONG_SECONDS
        if self._too_long >= _MAX_TOO_LONG:
            seconds = round(self._took, 1)
            raise BatchTooLarge(seconds=seconds, limit_seconds=_TRANSACTION_SECONDS) from error

    def _release(self) -> None:
        """Let another call have the slot; an interrupt may leave it unused, never to two."""
        receipt, self._receipt = self._receipt, None
        if receipt is not None:
            receipt.slots.free.append(receipt.slot)

    def _commit(self, tr: Transaction, result: T) -> bytes:
        """Commit what the function did, with a receipt if it wrote; return the stamp."""
        wrote = self._wrote
        if wrote is None:
            wrote = _has_written(tr)
        elif not isinstance(wrote, bool):
            wrote = wrote(result)
        if not wrote:
            tr.commit().wait()
            return b""
        if self._receipt is None or self._receipt.slots is not _slots:  # forked meanwhile
            self._receipt = Receipt(self._database)
        number = self._receipt.write(tr)
        stamp = tr.get_versionstamp() if self._stamped else None
        self._fdb_code = None
        self._unsettled = number, result
        try:
            tr.commit().wait()
        except Exception as error:
            self._judge(tr, error)
            raise
        return b"" if stamp is None else bytes(stamp.wait())

    def _judge(self, tr: Transaction, error: Exception) -> None:
        """Take note of what an error of a commit says about it."""
        code = error_code(error)
        if isinstance(error, EngineError) or code in _REFUSED or code in _CHECKS:
            self._unsettled = None
        elif code is not None:
            self._fdb_code = code
            self._since = _version_of(tr)

    def _settle(self, tr: Transaction) -> tuple[T, bytes] | None:
        """Find out about the unsettled attempt: return its result and stamp if it took effect.

        Otherwise it never will, and nothing is unsettled any more.

        Raises:
            OutcomeUnknown: Its receipt may have been swept.
        """
        assert self._unsettled is not None
        assert self._receipt is not None
        number, result = self._unsettled
        is_over = self._fdb_code == _UNKNOWN_RESULT
        look = tr if is_over else self._database.create_transaction()
        found = self._receipt.read(look)
        if found is not None and found.number == number:
            return result, found.stamp
        if found is None and self._may_be_swept(look):
            raise OutcomeUnknown(reason="its receipt may have been swept")
        if not is_over:
            self._receipt.write(look)
            look.commit().wait()
        self._unsettled = None
        return None

    def _may_be_swept(self, tr: Transaction) -> bool:
        """Tell whether a receipt that is not there may have been."""
        if self._since is None:
            return True
        version: int = tr.get_read_version().wait()
        return version - self._since >= MIN_SWEPT_VERSIONS

    def _prepare(self, tr: Transaction, error: Exception, code: int) -> Any:
        """Return the transaction for what comes next, or raise what ends the call."""
        instrumentation.engine_error(code)
        if not self._retries:
            self._failed_at = monotonic()
        self._retries += 1
        if code == _NOT_COMMITTED and not self._retries_conflicts and self._unsettled is None:
            raise Conflict from error
        if code == _TOO_OLD:
            self._check_length(error)
        if code == _VERSION_CHANGED:  # a client of one version does not retry it by itself
            tr.cancel()
            return self._database.create_transaction()
        tr.on_error(code).wait()
        return tr

    def _with_outcome(self, error: BaseException, tr: Transaction | None) -> BaseException:
        """Cancel the transaction; return the error to raise, with ``outcome_known`` set.

        ``OutcomeUnknown`` replaces an error of the engine or of fdbqueue while an attempt is
        unsettled.
        """
        if tr is not None:
            tr.cancel()
        code = error_code(error)
        is_known = self._unsettled is None
        is_ours = code is not None or isinstance(error, FdbQueueError)
        if is_ours and not is_known:
            code = code or self._fdb_code
            logger.warning("the outcome of a commit stays unknown", extra={"fdb_code": code})
            if not isinstance(error, OutcomeUnknown):
                error = OutcomeUnknown(fdb_code=code)
        known = is_known and getattr(error, "outcome_known", True)
        vars(error)["outcome_known"] = known  # which a frozen class has, too
        return error

    def _log_retries(self) -> None:
        seconds = monotonic() - self._failed_at
        if seconds > _LONG_SECONDS:
            facts = {"retries": self._retries, "seconds": round(seconds, 3)}
            logger.warning("a transaction was retried for long", extra=facts)


def _has_written(tr: Transaction) -> bool:
    return any(True for _ in tr.get_range(_WRITTEN, _WRITTEN + b"\xff\xff", limit=1))


def _version_of(tr: Transaction) -> int | None:
    """Return the version at which a failed transaction read, None where it is lost."""
    try:
        version: int = tr.get_read_version().wait()
    except Exception as error:
        if error_code(error) is None and not isinstance(error, EngineError):
            raise
        return None
    return version


def error_code(error: BaseException) -> int | None:
    """Return FoundationDB's code of an engine's error, None for any other error.

    Each engine has its own class of errors, called ``FDBError`` as the binding's is.
    """
    if any(class_name(kind) == "FDBError" for kind in type(error).__mro__):
        code: int = getattr(error, "code")  # noqa: B009  # of no class known here
        return code
    return None


def transactional(function: F) -> F:
    """Decorate a function whose first argument, ``tr``, is a transaction.

    Called with a database, it runs in a transaction of its own, as :func:`run` says.
    Called with a transaction, it takes part in that one, which its owner commits.

    Raises:
        TypeError: The function takes no ``tr`` first, or is a generator.
    """
    parameters = list(inspect.signature(function).parameters)
    if not parameters or parameters[0] != "tr":
        raise TypeError(f"{function.__qualname__} must take tr as its first argument")
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        raise TypeError(f"{function.__qualname__} must return its result, not yield it")

    @functools.wraps(function)
    def wrapper(tr: Any, /, *args: Any, **kwargs: Any) -> Any:
        if not hasattr(tr, "create_transaction"):
            return function(tr, *args, **kwargs)
        return run(tr, lambda transaction: function(transaction, *args, **kwargs))

    return wrapper  # type: ignore[return-value]  # of the same parameters


def unlimited(database: Database) -> Any:
    """Return the database without a time limit: the one that a database wraps, or itself."""
    return getattr(database, "unlimited", database)
