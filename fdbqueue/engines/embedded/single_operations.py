"""Single operations on a database, each in a transaction of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fdbqueue.engines.embedded.atomic_operations import AtomicOperations
from fdbqueue.engines.embedded.errors import FDBError
from fdbqueue.engines.embedded.futures import Future, KeyValue, Value
from fdbqueue.engines.embedded.reads import StreamingMode
from fdbqueue.engines.embedded.selectors import KeySelector
from fdbqueue.engines.embedded.transaction import Transaction
from fdbqueue.engines.embedded.watches import Watch

T = TypeVar("T")


class SingleOperations(AtomicOperations):
    """Read and write as a transaction does; commit, and run again where that may help.

    As with the binding, an outcome that is unknown (1021) is run again, too.
    """

    def create_transaction(self) -> Transaction:
        """Return a new transaction."""
        raise NotImplementedError

    def get(self, key: Any) -> bytes | None:
        """Read one key, None where it is absent."""
        return self._transact(lambda tr: tr.get(key).value)

    def get_key(self, key_selector: KeySelector) -> bytes | None:
        r"""Resolve a selector: the empty key before the first, ``\xff`` after the last."""
        return self._transact(lambda tr: tr.get_key(key_selector).value)

    def get_range(
        self,
        begin: Any,
        end: Any,
        limit: int = 0,
        reverse: bool = False,
        streaming_mode: int = StreamingMode.want_all,
    ) -> list[KeyValue]:
        """Read the rows of a range."""
        return self._transact(
            lambda tr: tr.get_range(begin, end, limit, reverse, streaming_mode).to_list()
        )

    def get_range_startswith(self, prefix: Any, *args: Any, **kwargs: Any) -> list[KeyValue]:
        """Read the rows whose keys start with ``prefix``."""
        return self._transact(lambda tr: tr.get_range_startswith(prefix, *args, **kwargs).to_list())

    def set(self, key: Any, value: Any) -> None:
        """Set one key."""
        self._transact(lambda tr: tr.set(key, value))

    def clear(self, key: Any) -> None:
        """Clear one key."""
        self._transact(lambda tr: tr.clear(key))

    def clear_range(self, begin: Any, end: Any) -> None:
        """Clear a range."""
        self._transact(lambda tr: tr.clear_range(begin, end))

    def clear_range_startswith(self, prefix: Any) -> None:
        """Clear the keys that start with ``prefix``."""
        self._transact(lambda tr: tr.clear_range_startswith(prefix))

    def write(self, apply: Callable[..., None], *arguments: Any) -> None:
        """Carry out an atomic operation."""
        self._transact(lambda tr: tr.write(apply, *arguments))

    def get_and_watch(self, key: Any) -> tuple[Value, Watch | Future[None]]:
        """Read a key; return its value and a future that is ready once that has changed."""
        return self._transact(lambda tr: (tr.get(key), tr.watch(key)))

    def set_and_watch(self, key: Any, value: Any) -> Watch | Future[None]:
        """Set a key; return a future that is ready once its value has changed again."""

        def run(tr: Transaction) -> Watch | Future[None]:
            tr.set(key, value)
            return tr.watch(key)

        return self._transact(run)

    def clear_and_watch(self, key: Any) -> Watch | Future[None]:
        """Clear a key; return a future that is ready once it has a value again."""

        def run(tr: Transaction) -> Watch | Future[None]:
            tr.clear(key)
            return tr.watch(key)

        return self._transact(run)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return self.get_range(key.start, key.stop, reverse=(key.step == -1))
        return self.get(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.set(key, value)

    def __delitem__(self, key: Any) -> None:
        if isinstance(key, slice):
            self.clear_range(key.start, key.stop)
        else:
            self.clear(key)

    def _transact(self, function: Callable[[Transaction], T]) -> T:
        transaction = self.create_transaction()
        while True:
            try:
                result = function(transaction)
                transaction.commit().wait()
                return result
            except FDBError as error:
                transaction.on_error(error).wait()
