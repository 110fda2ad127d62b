"""The peers: FoundationDB's recipes as published, its high-contention queue layer, PostgreSQL.

They run over any database object with ``create_transaction()``, through a loop that only
retries, as the binding's ``transactional`` does. They lose and repeat items when a commit's
outcome is unknown: they are here to be measured beside, not to be used.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from fdb.subspace_impl import Subspace

T = TypeVar("T")

_NOT_COMMITTED = 1020
_FILLED_AT_ONCE = 2_000


def transact(database: Any, function: Callable[[Any], T]) -> T:
    """Run a function in a transaction and commit, again after each retryable error."""
    tr = database.create_transaction()
    while True:
        try:
            result = function(tr)
            tr.commit().wait()
            return result
        except Exception as error:
            if (code := _code(error)) is None:
                raise
            tr.on_error(code).wait()


def _code(error: Exception) -> int | None:
    """Return the code of an engine's error, None for any other error."""
    return getattr(error, "code", None) if type(error).__name__ == "FDBError" else None


class FifoRecipe:
    """The recipe "Queues": an item is at ``subspace[index][random]``.

    Args:
        database: Anything with ``create_transaction()``.
        subspace: Where the items are.
    """

    transact = staticmethod(transact)

    def __init__(self, database: Any, subspace: Subspace) -> None:
        self.database = database
        self.items = subspace

    def push(self, value: bytes, priority: int = 0) -> None:  # noqa: ARG002  # there is none
        """Put a value behind the last; the index is a snapshot read."""
        self.transact(
            self.database, lambda tr: self._set(tr, _last_index(tr, self.items) + 1, value)
        )

    def pop(self) -> bytes | None:
        """Take the first item, None when there is none."""
        return self.transact(self.database, lambda tr: _take_first(tr, self.items))

    def fill(self, values: Iterable[tuple[bytes, int]]) -> None:
        """Put many into an empty queue, some thousand in a transaction."""
        rows = iter(enumerate(values))
        while batch := list(islice(rows, _FILLED_AT_ONCE)):

            def put(tr: Any, batch: list[tuple[int, tuple[bytes, int]]] = batch) -> None:
                for index, (value, priority) in batch:
                    self._set(tr, index, value, priority)

            transact(self.database, put)

    def _set(self, tr: Any, index: int, value: bytes, priority: int = 0) -> None:
        tr[self._key(index, priority)] = value

    def _key(self, index: int, priority: int) -> bytes:  # noqa: ARG002  # there is none
        return self.items.pack((index, os.urandom(20)))


class PriorityRecipe(FifoRecipe):
    """The recipe "Priority Queues": an item is at ``subspace[priority][count][random]``."""

    def push(self, value: bytes, priority: int = 0) -> None:
        """Put a value behind those of its priority."""

        def put(tr: Any) -> None:
            self._set(tr, _last_index(tr, self.items[priority]) + 1, value, priority)

        self.transact(self.database, put)

    def _key(self, index: int, priority: int) -> bytes:
        return self.items.pack((priority, index, os.urandom(20)))


class HighContentionLayer(FifoRecipe):
    """The method of the queue layer that FoundationDB publishes for many poppers.

    A pop tries plainly, unless others wait already. If it fails it registers a request;
    then it fulfils the outstanding requests in their order, moving their items to where
    their owners look, and polls for its own with growing sleeps.
    """

    _AT_ONCE = 100
    _FIRST_SLEEP_SECONDS = 0.01
    _LONGEST_SLEEP_SECONDS = 1.0

    def __init__(self, database: Any, subspace: Subspace) -> None:
        super().__init__(database, subspace["item"])
        self._requests = subspace["pop"]
        self._results = subspace["conflict"]

    def pop(self) -> bytes | None:
        """Take the first item, None when there is none for this request."""
        tr = self.database.create_transaction()
        try:
            if _last_index(tr, self._requests) < 0:
                value = _take_first(tr, self.items)
                tr.commit().wait()
                return value
            request = self._register(tr)
            tr.commit().wait()
        except Exception as error:
            if _code(error) is None:
                raise
            request = transact(self.database, self._register)
        return self._await(request)

    def _register(self, tr: Any) -> bytes:
        index = _last_index(tr, self._requests) + 1
        request = self._requests.pack((index, os.urandom(20)))
        tr.add_read_conflict_key(request)
        tr[request] = b""
        return request

    def _await(self, request: bytes) -> bytes | None:
        result_key = self._results.pack((self._requests.unpack(request)[1],))
        seconds = self._FIRST_SLEEP_SECONDS
        tr = self.database.create_transaction()
        while True:
            try:
                self._fulfil_all()
                tr.reset()
                waiting, result = tr[request], tr[result_key]
                if not waiting.present():
                    value = bytes(result) if result.present() else None
                    del tr[result_key]
                    tr.commit().wait()
                    return value
            except Exception as error:
                if (code := _code(error)) is None:
                    raise
                tr.on_error(code).wait()
                continue
            time.sleep(seconds)
            seconds = min(self._LONGEST_SLEEP_SECONDS, 2 * seconds)

    def _fulfil_all(self) -> None:
        """Fulfil requests until few are left, or somebody else is found at it."""
        try:
            while self._fulfil() == self._AT_ONCE:
                pass
        except Exception as error:
            if _code(error) != _NOT_COMMITTED:
                raise

    def _fulfil(self) -> int:
        tr = self.database.create_transaction()
        snapshot = tr.snapshot
        requests, items = (
            snapshot.get_range(place.range().start, place.range().stop, limit=self._AT_ONCE)
            for place in (self._requests, self.items)
        )
        waiting, items = list(requests), list(items)
        for request, item in zip(waiting, items, strict=False):
            tr[self._results.pack((self._requests.unpack(request.key)[1],))] = item.value
            tr.add_read_conflict_key(item.key)
            del tr[item.key]
        for request in waiting:  # those without an item find no result: the queue was empty
            tr.add_read_conflict_key(request.key)
            del tr[request.key]
        tr.commit().wait()
        return len(waiting)


def _last_index(tr: Any, place: Subspace) -> int:
    """Return the last index in use, -1 when there is none, without a conflict."""
    begin, stop = place.range().start, place.range().stop
    for row in tr.snapshot.get_range(begin, stop, limit=1, reverse=True):
        return int(place.unpack(row.key)[0])
    return -1


def _take_first(tr: Any, place: Subspace) -> bytes | None:
    """Clear the first row and return its value."""
    for row in tr.get_range(place.range().start, place.range().stop, limit=1):
        del tr[row.key]
        return bytes(row.value)
    return None


#: Where Debian has the programs, which are not in its PATH.
_FOLDERS = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
#: Who runs the server where this process is root's, as whom it refuses to run.
_USER = "postgres"
_NAME = "benchmarks"
_START_SECONDS = 60


def programs() -> tuple[str, str] | None:
    """Return the paths of ``initdb`` and ``postgres``; None without them, or without psycopg."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *_FOLDERS])
    initdb, postgres = (shutil.which(name, path=path) for name in ("initdb", "postgres"))
    if initdb is None or postgres is None or importlib.util.find_spec("psycopg") is None:
        return None
    return initdb, postgres


@contextlib.contextmanager
def server(folder: Path, paths: tuple[str, str]) -> Iterator[dict[str, Any]]:
    """Run a server with its files and its socket in a folder; give Django's settings for it.

    It has PostgreSQL's own settings: each commit waits for its fsync. No port is opened.

    Raises:
        CalledProcessError: It cannot be made.
        TimeoutError: It does not start.
    """
    initdb, postgres = paths
    place = folder / "postgres"
    place.mkdir(mode=0o700)
    user: dict[str, Any] = {"cwd": place}
    if os.geteuid() == 0:
        folder.chmod(0o711)  # so that the user can pass through
        shutil.chown(place, _USER)
        user |= {"user": _USER, "extra_groups": []}
    options = ("--auth=trust", f"--username={_NAME}", "--encoding=UTF8", "--locale=C")
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([initdb, "--pgdata=data", *options], check=True, **silent, **user)
    command = [postgres, "-D", "data", "-k", str(place), "-c", "listen_addresses="]
    with subprocess.Popen(command, **silent, **user) as process:
        try:
            _wait_until_ready(process, place / "data" / "postmaster.pid")
            yield {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": "postgres",
                "USER": _NAME,
                "HOST": str(place),
                "CONN_MAX_AGE": None,
            }
        finally:
            process.send_signal(signal.SIGINT)  # which ends connections, too


def _wait_until_ready(process: subprocess.Popen[bytes], status: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not (status.exists() and status.read_text().rstrip().endswith("ready")):
        if process.poll() is not None or time.monotonic() > deadline:
            raise TimeoutError("PostgreSQL does not start")
        time.sleep(0.05)
