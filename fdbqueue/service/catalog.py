"""The catalog: names to queues, those that are configured and those that exist."""

from __future__ import annotations

import contextlib
import copy
import difflib
import fnmatch
import functools
import heapq
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fdb.subspace_impl import Subspace

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.exceptions import ConfigurationError, QueueNotFound
from fdbqueue.service import receipts, tuples
from fdbqueue.service.queues import FifoQueue, PriorityQueue, Queue
from fdbqueue.service.storage.groups import Group, groups
from fdbqueue.service.storage.tables import TableKeys
from fdbqueue.service.transactions import run

#: What a queue may be called; fits a URL, a file name and a command line as it is.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
#: The same with ``*`` for any characters: a pattern of names.
PATTERN = re.compile(r"[A-Za-z0-9*][A-Za-z0-9_.*-]{0,99}")

#: The byte of the tuple layer that a text starts with; a zero byte ends it.
_TEXT = b"\x02"

#: So many names are looked for in one transaction, or looked through for one that is like another.
_NAMES_AT_ONCE = 1_000

#: So many queue objects are kept.
_MAX_OPENED = 1_000


#: The kinds of queues by the names that settings give them.
KINDS: dict[str, type[FifoQueue | PriorityQueue]] = {
    kind.kind: kind for kind in (FifoQueue, PriorityQueue)
}


class QueueSpec:
    """How a queue, or every queue whose name fits a pattern, is stored.

    Args:
        name: The queue's name, or a pattern with ``*``.
        kind: One of :data:`KINDS`.
        subspace: The tuple of its subspace where that is not under the catalog's prefix.
        options: As in :class:`fdbqueue.service.options.QueueOptions`.

    Raises:
        ConfigurationError: There is no such kind.
    """

    def __init__(
        self, name: str, kind: str, *, subspace: tuple[Any, ...] | None = None, **options: Any
    ) -> None:
        if kind not in KINDS:
            raise ConfigurationError(queue=name, kind=kind, allowed=", ".join(KINDS))
        self.name = name
        self.kind = kind
        self.subspace = subspace
        self.options = options

    @property
    def is_pattern(self) -> bool:
        """Whether it stands for every queue whose name fits."""
        return "*" in self.name

    def open(self, database: Database, subspace: Subspace, name: str) -> Queue:
        """Return the queue of that name in a subspace."""
        return KINDS[self.kind](database, subspace, name=name, **self.options)


class Catalog:
    """Open queues by name.

    A queue is at ``prefix["queue"][name]``, or in the subspace its spec names. A name is
    looked up among the plain names first, then among the patterns in their order.

    The receipts of all operations on its database are kept at ``prefix["receipt"]``.

    Args:
        database: Where the queues are.
        prefix: The tuple their subspaces start with.
        specs: The queues and patterns there may be.
    """

    def __init__(
        self, database: Database, prefix: tuple[Any, ...], specs: Iterable[QueueSpec]
    ) -> None:
        self.database = database
        with contextlib.suppress(TypeError):  # of a class without weak references
            receipts.keep_at(database, Subspace((*prefix, "receipt")))
        self._prefix = Subspace(prefix)
        self._subspace = self._prefix["queue"]
        specs = list(specs)
        self._named = {spec.name: spec for spec in specs if not spec.is_pattern}
        self._patterns = [spec for spec in specs if spec.is_pattern]
        self._opened: dict[str, Queue] = {}

    def reach(self) -> None:
        """Read one key where the queues are, for nothing but to hear from the engine.

        Raises:
            EngineError: It cannot be used.
            FDBError: The engine's own.
        """
        run(self.database, lambda tr: tr[self._prefix.key()].wait(), read_only=True)

    def over(self, database: Database) -> Catalog:
        """Return a catalog of the same queues over another view of the same database."""
        catalog = copy.copy(self)
        catalog.database = database
        with contextlib.suppress(TypeError):  # of a class without weak references
            receipts.keep_at(database, receipts.place_of(self.database))
        catalog._opened = {}  # noqa: SLF001  # of this class
        return catalog

    def queue(self, name: str) -> Queue:
        """Return the queue with a name; a queue of a pattern needs no creation.

        Returns the same object for the same name, until 1,000 other names have been opened.

        Raises:
            QueueNotFound: No spec has this name, and no pattern fits it.
        """
        found = self._opened.get(name)
        if found is None:
            spec = self.spec(name)
            subspace = self._subspace[name] if spec.subspace is None else Subspace(spec.subspace)
            if len(self._opened) >= _MAX_OPENED:
                self._opened.clear()
            found = self._opened.setdefault(name, spec.open(self.database, subspace, name))
        return found

    def closest_name(self, name: Any) -> str | None:
        """Return the plain name that is most like a wrong one, None where none is.

        Nothing is read: names that fit a pattern, of which there may be millions, are not looked
        through, and of plain names no more than a thousand.
        """
        if not isinstance(name, str) or not NAME.fullmatch(name):
            return None
        names = self.plain_names()[:_NAMES_AT_ONCE]
        return next(iter(difflib.get_close_matches(name, names, n=1)), None)

    def plain_names(self) -> list[str]:
        """Return the names that are no patterns, sorted, without reading anything."""
        return sorted(self._named)

    def names(
        self, *, after: str = "", limit: int | None = None, with_responses: bool = False
    ) -> list[str]:
        """Return the names of the queues, sorted.

        Args:
            after: Only names that sort after this one.
            limit: The most names; None for all.
            with_responses: Whether to return those too under which nothing but the responses of
                calls with an idempotency key is stored.
        """
        names = self.each_name(after=after, with_responses=with_responses)
        return list(itertools.islice(names, limit))

    def each_name(self, *, after: str = "", with_responses: bool = False) -> Iterator[str]:
        """Yield the names of the queues, sorted, and read them as they are asked for.

        These are the plain names, and the names that fit a pattern and have been pushed to;
        the latter cost about two reads each, a thousand names in a transaction. A queue that
        was drained is among them, because it keeps its counts; one that was cleared is not.

        Args:
            after: Only names that sort after this one.
            with_responses: As for :meth:`names`.
        """
        named = sorted(name for name in self._named if name > after)
        merged = heapq.merge(named, self._existing(after, with_responses))
        yield from (name for name, _ in itertools.groupby(merged))

    def queues(self, *, after: str = "", limit: int | None = None) -> list[Queue]:
        """Return the queues of :meth:`names`, in their order."""
        return [self.queue(name) for name in self.names(after=after, limit=limit)]

    def spec(self, name: str) -> QueueSpec:
        """Return how the queue with a name is stored: its own spec, or the pattern's it fits.

        Raises:
            QueueNotFound: No spec has this name, and no pattern fits it.
        """
        if name in self._named:
            return self._named[name]
        if NAME.fullmatch(name):
            for spec in self._patterns:
                if fnmatch.fnmatchcase(name, spec.name):
                    return spec
        raise QueueNotFound(name=name)

    def _existing(self, after: str, with_responses: bool) -> Iterator[str]:
        """Yield the names that fit a pattern and under which something is stored, in order."""
        if not self._patterns:
            return
        begin, end = self._subspace.range().start, self._subspace.range().stop
        if NAME.fullmatch(after):
            begin = self._group_of(self._subspace[after].key())[1]
        while begin < end:
            read = functools.partial(_groups, begin=begin, end=end, group_of=self._group_of)
            found = run(self.database, read, read_only=True)
            for key, _behind in found:
                with contextlib.suppress(ValueError):  # what others stored here may be anything
                    name = _name_in(key[len(self._subspace.key()) :])
                    is_queue = with_responses or key == self._subspace[name].key()
                    if is_queue and self._fits_a_pattern(name) and name > after:
                        yield name
            begin = found[-1][1] if len(found) == _NAMES_AT_ONCE else end

    def _group_of(self, key: bytes) -> Group:
        """Return the range of the keys with the same name, or of one that has none.

        The responses of calls with an idempotency key are a group of their own: a pop leaves
        one, too, where nothing was ever pushed.
        """
        try:
            first: bytes = self._subspace[_name_in(key[len(self._subspace.key()) :])].key()
        except ValueError:
            return key, key + b"\x00"
        responses = TableKeys(first).all_responses
        return responses if responses[0] <= key < responses[1] else (first, first + b"\xff\xff")

    def _fits_a_pattern(self, name: Any) -> bool:
        return (
            isinstance(name, str)
            and NAME.fullmatch(name) is not None
            and any(fnmatch.fnmatchcase(name, spec.name) for spec in self._patterns)
        )


def _name_in(rest: bytes) -> Any:
    """Return the first element of a key: a queue's name, or what others stored there.

    What follows a name need be no tuple: the keys of a queue's tables are none.

    Raises:
        ValueError: It is no such key.
    """
    name, end, _ = rest[1:].partition(b"\x00")
    if rest.startswith(_TEXT) and end and NAME.fullmatch(name.decode("ascii", "replace")):
        return name.decode("ascii")
    return tuples.unpack(rest)[0]


def _groups(
    tr: Transaction, begin: bytes, end: bytes, group_of: Callable[[bytes], Group]
) -> list[Group]:
    return list(itertools.islice(groups(tr.snapshot, begin, end, group_of), _NAMES_AT_ONCE))
