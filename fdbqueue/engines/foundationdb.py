"""A FoundationDB cluster, through FoundationDB's own Python binding.

The binding runs one network thread a process and cannot run it again: so the cluster is
opened on first use, never at import, once for each cluster file, and never in a child of
a process that had opened it. Transactions are the binding's own objects.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import inspect
import os
from typing import Any

import fdb

import fdbqueue.binding  # noqa: F401  # before the rest of the binding
from fdbqueue.engines import client_library
from fdbqueue.engines.marks import refuse_marked
from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import (
    ApiVersionTooOld,
    ClientLibraryMissing,
    ClientLibraryTooOld,
    ConfigurationError,
    EngineError,
    EngineUnavailable,
    ForkedEngine,
)
from fdbqueue.locks import IN_A_HANDLER, RLock, has_greenlets
from fdbqueue.logs import get_logger

logger = get_logger(__name__)

#: The version of the API that fdbqueue is written against. A host project may have
#: selected a newer one before; then that one is used.
API_VERSION = 730

_TIMED_OUT = 1031
#: The client did not get as far as a cluster: no cluster file, one that is too large, no valid one.
_WRONG_FILE = frozenset({1515, 1516, 2104})
#: The binding registers its end when it is loaded, and handlers run in the reverse order.
_STOPPED = (
    "FoundationDB's client has stopped, because the process is ending: an atexit handler that uses"
    " queues must be registered after the first use of one"
)
_GREENLETS = (
    "gevent has patched threading, and FoundationDB's client waits in threads: start this process"
    " without gevent, or use the embedded engine"
)
_lock = RLock()
_opened_by: int | None = None
#: Whether the handlers of the process's end run: the binding may have stopped its network. Before,
#: no transaction asks whether that thread is alive: on Python 3.11 a signal handler that raises
#: meanwhile lets a thread that runs be taken for one that has ended, for good.
_is_ending = False


class Database:
    """A cluster, opened when the first transaction is created.

    Made by :func:`open`.
    """

    def __init__(self, cluster_file: str | None, connect_timeout_seconds: float) -> None:
        self.cluster_file = cluster_file
        self.connect_timeout_seconds = connect_timeout_seconds
        self._marked_at: bytes | None = None
        self._database: Any = None

    def __repr__(self) -> str:
        return f"<FoundationDB Database {self.cluster_file or 'default cluster file'}>"

    def refuse_marked_at(self, key: bytes | None) -> None:
        """Refuse this process when it opens the cluster and finds a mark at a key, if any."""
        self._marked_at = key

    def create_transaction(self) -> Transaction:
        """Return a new transaction, an ``fdb.Transaction``.

        Raises:
            ConfigurationError: gevent has patched threading: the binding would wait for ever; or
                the queues were moved to another engine (:mod:`fdbqueue.engines.marks`).
            ClientLibraryMissing: FoundationDB's client library is not installed.
            ClientLibraryTooOld: It is older than the binding.
            ApiVersionTooOld: The project has selected an API version below 730.
            EngineUnavailable: The cluster did not answer the first transaction in time; the process
                is ending, and the binding has stopped its network thread; or a signal handler asks,
                which has interrupted a wait of its thread.
            ForkedEngine: A parent process had opened a cluster before it forked this one,
                by this engine or by ``fdb.open()``.
        """
        if self._database is None or _opened_by != os.getpid():
            self._open()
        if _is_ending and _has_lost_its_network():
            raise EngineUnavailable(cluster_file=self.cluster_file, reason=_STOPPED)
        if _is_waiting():
            raise EngineUnavailable(cluster_file=self.cluster_file, reason=IN_A_HANDLER)
        return self._database.create_transaction()

    def _open(self) -> None:
        global _opened_by  # noqa: PLW0603  # the network thread is one a process
        if has_greenlets():
            raise ConfigurationError(engine=__name__, reason=_GREENLETS)
        process = os.getpid()
        if _opened_by not in {None, process}:
            raise _forked(_opened_by, process)
        with _lock:
            load_binding()
            if _has_lost_its_network():
                if _opened_by == process:
                    raise EngineUnavailable(cluster_file=self.cluster_file, reason=_STOPPED)
                raise _forked(None, process)  # the project opened a cluster with fdb.open()
            _opened_by = process
        database = self._handle()  # without the lock, so that threads wait side by side
        if self._database is None:
            self._database = database

    def _handle(self) -> Any:
        """Open the cluster and wait for its first answer."""
        reason = f"no answer within {self.connect_timeout_seconds} seconds"
        try:
            database = fdb.open(self.cluster_file)
            transaction = database.create_transaction()
            transaction.options.set_timeout(int(self.connect_timeout_seconds * 1000))
            transaction.get_read_version().wait()
            if self._marked_at is not None and (mark := transaction[self._marked_at]).present():
                refuse_marked(self.cluster_file, bytes(mark))
        except fdb.FDBError as error:
            if error.code != _TIMED_OUT:
                reason = error.description.decode()
            facts = {"cluster_file": self.cluster_file, "reason": reason}
            logger.warning("the cluster does not answer", extra=facts)
            if error.code in _WRONG_FILE:
                path = self.cluster_file or "the platform's cluster file"
                raise EngineUnavailable(path=path, reason=reason) from error
            raise EngineUnavailable(cluster_file=self.cluster_file, reason=reason) from error
        logger.info("the cluster was opened", extra={"cluster_file": self.cluster_file})
        return database


def _is_waiting() -> bool:
    """Tell whether this thread waits for a future of the binding: then a signal handler asks.

    A thread waits by one semaphore. A handler that waits in the middle of a wait of its thread
    would take what wakes that one (error 2015).
    """
    wait = fdb.impl.Future.block_until_ready.__code__
    frame = inspect.currentframe()  # an interrupt could leave a flag behind, and no frame
    while frame is not None and frame.f_code is not wait:
        frame = frame.f_back
    return frame is not None


def _has_lost_its_network() -> bool:
    """Tell whether the binding's network thread ran in a parent process; it cannot start again.

    In a forked child, Python reports all threads as ended except the one that forked.
    """
    lock = getattr(fdb.impl, "_network_thread_reentrant_lock", contextlib.nullcontext())
    with lock:  # another thread may be starting it
        thread = getattr(fdb.impl, "_network_thread", None)
        return thread is not None and not thread.is_alive()


def _forked(opened_by: int | None, process: int) -> ForkedEngine:
    """Log that the cluster was opened before a fork, and return the error."""
    facts = {"opened_by": opened_by, "forked": process}
    logger.error("the cluster was opened before a fork", extra=facts)
    return ForkedEngine(opened_by=opened_by, process=process)


def load_binding() -> None:
    """Load FoundationDB's client library, and select the API version if the project has not.

    Raises:
        ClientLibraryMissing: It cannot be loaded.
        ClientLibraryTooOld: It is older than the binding.
        ApiVersionTooOld: The project has selected a version below :data:`API_VERSION`.
    """
    _watch_the_end()  # first, so that it runs after the binding's own handler
    try:
        import fdb.impl  # loads the library
    except Exception as error:  # the binding raises nothing more precise
        raise _unusable(ClientLibraryMissing, error) from error
    try:
        if not fdb.is_api_version_selected():
            fdb.api_version(API_VERSION)
    except Exception as error:
        raise _unusable(ClientLibraryTooOld, error) from error
    if (selected := fdb.get_api_version()) < API_VERSION:
        logger.error("the selected API version is too old", extra={"selected": selected})
        raise ApiVersionTooOld(selected=selected, needed=API_VERSION)


@functools.cache
def _watch_the_end() -> None:
    """Note when the process ends, once."""

    def note() -> None:
        global _is_ending  # noqa: PLW0603  # of the process
        _is_ending = True

    atexit.register(note)


def _unusable(kind: type[EngineError], error: Exception) -> EngineError:
    """Log that the client library cannot be used, and return the error that says what to do."""
    facts = {"reason": str(error), "binding": client_library.binding_version()}
    logger.error("the client library cannot be used", extra=facts)
    return kind(**facts, install=client_library.how_to_install())


@functools.cache
def open(cluster_file: str | None = None, *, connect_timeout_seconds: float = 5.0) -> Database:
    """Return the database of a cluster; nothing is opened yet.

    Args:
        cluster_file: The path of its cluster file; None for the platform's default.
        connect_timeout_seconds: How long the cluster may take to answer when it is opened.
            Later operations wait until it answers, unless their transaction has a timeout.
    """
    return Database(os.fspath(cluster_file) if cluster_file else None, connect_timeout_seconds)
