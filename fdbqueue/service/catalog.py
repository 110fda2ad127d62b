"""The catalog: names to queues, the configured ones and the stored ones."""

from __future__ import annotations

import contextlib
import copy
import difflib
import functools
import heapq
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from fdb.subspace_impl import Subspace

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.exceptions import ConfigurationError, QueueNotFound
from fdbqueue.service import transactions, tuples
from fdbqueue.service.consume.consumer import Consumers
from fdbqueue.service.consume.finding import SeveralGroup
from fdbqueue.service.consume.pauses import Pausing
from fdbqueue.service.consume.ring import Ring, Source
from fdbqueue.service.idempotency import Responses
from fdbqueue.service.names import (
    NAME,
    RangeSearch,
    check_pattern,
    fits_of,
    matcher,
    share_a_name,
)
from fdbqueue.service.options import parse_rate
from fdbqueue.service.queues import FifoQueue, PriorityQueue, Queue
from fdbqueue.service.several import Matching, SeveralQueues, checked_names, is_fair
from fdbqueue.service.storage.family_index import STORED, FamilyKeys, Levels, Member
from fdbqueue.service.storage.item_keys import bounds, packed
from fdbqueue.service.storage.tables import TableKeys
from fdbqueue.service.tools.engine_copy import EngineCopy, Side
from fdbqueue.service.tools.family import Family
from fdbqueue.service.tools.presence import Presences
from fdbqueue.service.transactions import run
from fdbqueue.service.writes import OperationRunner

#: The byte of the tuple layer that a text starts with; a zero byte ends it.
_TEXT = b"\x02"
#: The ranges of keys that may be there without the queue, as what follows its subspace.
_WITHOUT_QUEUE = TableKeys(b"").without_queue

#: So many names are looked for in one transaction, or looked through for one that is like another.
_NAMES_AT_ONCE = 1_000
#: The first transaction looks for so many, and each after it for twice as many.
_FIRST_NAMES = 50
#: So many queue objects are kept, and as many that were opened before these.
_MAX_OPENED = 1_000
#: The most lists of names, and what their calls share, that are kept.
_MAX_SEVERAL = 200

#: Names of several queues, and whether they take turns.
_Several = tuple[tuple[str, ...], bool]
#: The kinds of queues by the names that settings give them.
KINDS: dict[str, type[FifoQueue | PriorityQueue]] = {
    kind.kind: kind for kind in (FifoQueue, PriorityQueue)
}


class QueueSpec:
    """How a queue, or every queue whose name fits a pattern, is stored.

    Args:
        name: The queue's name, or a pattern with ``*``.
        kind: One of :data:`KINDS`.
        subspace: The tuple of its subspace if that is not under the catalog's prefix.
        owner: The app that alone pushes and takes its items; None for the project.
        home_of: Returns, by a queue's name, that of the queue it is a part of; None for itself.
        label_of: Returns, by a queue's name or the pattern, what readers call it; None for that.
        limits_at: Returns, by a queue's name, the key of a row that has its limits
            (:mod:`fdbqueue.service.consume.allowance`); None for those of the options.
        options: As in :class:`fdbqueue.service.options.QueueOptions`.

    Raises:
        ConfigurationError: There is no such kind.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        *,
        subspace: tuple[Any, ...] | None = None,
        owner: str | None = None,
        home_of: Callable[[str], str] | None = None,
        label_of: Callable[[str], str] | None = None,
        limits_at: Callable[[str], bytes] | None = None,
        **options: Any,
    ) -> None:
        if kind not in KINDS:
            raise ConfigurationError(queue=name, kind=kind, allowed=", ".join(KINDS))
        self.name = name
        self.kind = kind
        self.subspace = subspace
        self.owner = owner
        self.home, self.label = home_of or str, label_of or str
        self.has_parts = home_of is not None
        self.limits_at = limits_at
        self.options = options
        self.matches = matcher(name)
        own = Levels.of(options.get("max_leased"), parse_rate(options.get("rate")))
        self.levels = own if limits_at is None else STORED

    @property
    def is_pattern(self) -> bool:
        """Whether it stands for every queue whose name fits."""
        return "*" in self.name

    @property
    def start(self) -> str:
        """What all names that fit begin with."""
        return self.name.partition("*")[0]

    def open(
        self, database: Database, subspace: Subspace, name: str, member: Member | None = None
    ) -> Queue:
        """Return the queue of that name in a subspace, with its rows in its family's index."""
        limits_at = None if self.limits_at is None else self.limits_at(name)
        queue = KINDS[self.kind](
            database, subspace, name=name, member=member, limits_at=limits_at, **self.options
        )
        queue.home, queue.label_of, queue.owner = self.home(name), self.label, self.owner
        queue.parts.store.home = queue.home
        return queue


class Catalog:
    """Open queues by name.

    A queue is at ``prefix["queue"][name]``, or in the subspace its spec names. A name is
    looked up among the plain names first, then among the patterns in their order.

    The receipts of all operations on its database are kept at ``prefix["receipt"]``.

    Args:
        database: Where the queues are.
        prefix: The tuple their subspaces start with.
        specs: The queues and patterns there may be.

    Attributes:
        has_owned: Whether an app has queues of its own.
        mark: The key by which a copy refuses processes that open the database: of several catalogs
            of a process, the one that was made last has its mark looked at.
        presences: Which workers there are.
    """

    def __init__(
        self, database: Database, prefix: tuple[Any, ...], specs: Iterable[QueueSpec]
    ) -> None:
        self.database = database
        with contextlib.suppress(TypeError):  # of a class without weak references
            transactions.keep_receipts_at(database, Subspace((*prefix, "receipt")))
        self._prefix = Subspace(prefix)
        self.mark: bytes = self._prefix["copy"].key()
        if hasattr(database, "refuse_marked_at"):
            database.refuse_marked_at(self.mark)
        self._subspace = self._prefix["queue"]
        self._begin: bytes = self._subspace.key()  # of the keys of all queues
        self.presences = Presences(database, self._prefix["worker"])
        specs = list(specs)
        self.has_owned = any(spec.owner is not None for spec in specs)
        self._named = {spec.name: spec for spec in specs if not spec.is_pattern}
        self._patterns = [spec for spec in specs if spec.is_pattern]
        #: Listed only once something is stored there, as those of patterns are.
        self._owned = {spec.name for spec in specs if spec.owner is not None}
        self._opened: dict[str, Queue] = {}
        self._opened_before: dict[str, Queue] = {}
        self._several: dict[tuple[_Several, bool], SeveralQueues] = {}
        #: The indexes of the families, by their patterns.
        self._family_keys = {
            spec.name: FamilyKeys(self._prefix["family"][spec.name].key(), spec.name, spec.levels)
            for spec in self._patterns
            if spec.subspace is None
        }
        #: The responses of calls with an idempotency key that take from several queues.
        self.responses = Responses(TableKeys(self._prefix["several"].key()), "several queues")
        #: The catalog that this one is another view of; None for itself.
        self._root: Catalog | None = None
        #: Shared with the catalogs of :meth:`over`.
        self._groups: dict[tuple[_Several, bool], SeveralGroup] = {}

    def copy_from(self, source: Side, target_name: str) -> EngineCopy:
        """Return a copy of all keys of the same queues, and of what belongs to them, to here.

        Args:
            source: Where they are.
            target_name: What messages call this catalog's database.
        """
        own = [Subspace(one.subspace) for one in self._named.values() if one.subspace is not None]
        keys = sorted(space.key() for space in (self._prefix, *own))
        outer = [key for at, key in enumerate(keys) if not any(map(key.startswith, keys[:at]))]
        ranges = [(key, key + b"\xff\xff" if key else b"\xff") for key in outer]
        target = Side(self.database, target_name)
        return EngineCopy(source, target, ranges, self.mark, self.presences)

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
        catalog.presences = self.presences.over(database)
        with contextlib.suppress(TypeError):  # of a class without weak references
            transactions.keep_receipts_at(database, transactions.receipts_of(self.database))
        catalog._opened, catalog._several = {}, {}  # noqa: SLF001  # of this class
        catalog._opened_before = {}  # noqa: SLF001  # as above
        catalog._root = self._root or self  # noqa: SLF001  # as above
        return catalog

    @functools.cached_property
    def _consumers(self) -> Consumers:
        """What takes from its queues, for groups; made for the first of these."""
        return Consumers(lambda name: self.queue(name).parts.consumer)

    def queue(self, name: str) -> Queue:
        """Return the queue with a name; a queue of a pattern needs no creation.

        Returns the same object for the same name, until 1,000 other names have been opened.

        Raises:
            QueueNotFound: No spec has this name, and no pattern fits it.
        """
        found = self._opened.get(name) if isinstance(name, str) else None
        if found is None:
            spec = self.spec(name)
            if len(self._opened) >= _MAX_OPENED:
                self._opened_before, self._opened = self._opened, {}
                self._consumers.clear()
            made = self._opened_before.get(name) or self._made(spec, name)
            found = self._opened.setdefault(name, made)
        return found

    def _made(self, spec: QueueSpec, name: str) -> Queue:
        """Return a new object for a queue."""
        subspace = self._subspace[name] if spec.subspace is None else Subspace(spec.subspace)
        index = self.index(spec)
        member = None if index is None else index.member(name)
        made = spec.open(self.database, subspace, name, member)
        made.workers = self.presences
        return made

    def closest_name(self, name: Any) -> str | None:
        """Return the plain name that is most like a wrong one, None if none is.

        Nothing is read: names that fit a pattern, of which there may be millions, are not looked
        through, and of plain names no more than a thousand.
        """
        if not isinstance(name, str) or not NAME.fullmatch(name):
            return None
        names = self.plain_names()[:_NAMES_AT_ONCE]
        return next(iter(difflib.get_close_matches(name, names, n=1)), None)

    def several(
        self, names: Iterable[str], *, fair: bool | None = None, with_owned: bool = True
    ) -> SeveralQueues:
        """Return several queues, to take from the first that has items.

        Returns the same object for the same arguments, until 200 others have been asked for.

        Args:
            names: 1 to 1,000 names of queues, and patterns of names with ``*``. A queue that is
                named twice, or by a pattern too, counts at its first place.
            fair: Whether to take from the queues in turn. With a pattern among the names this is
                by the indexes of the families, of any size; else each call begins behind the queue
                that gave last in this process. None for True with a pattern, and False without.
            with_owned: Whether patterns stand for the queues, too, that another app has.

        Raises:
            QueueNotFound: No spec has one of the names; or no name that it allows fits a pattern.
            InvalidInput: They are not 1 to 1,000 names.
        """
        given = checked_names(names)
        several = given, is_fair(given, fair)
        found = self._several.get((several, with_owned))
        if found is None:
            for name in several[0]:
                self._check_name(name, with_owned=with_owned)
            if len(self._several) >= _MAX_SEVERAL:
                self._several.clear()
            by_index = several[1] and any("*" in name for name in given)
            group = self._group_of(several, by_index=by_index, with_owned=with_owned)
            made = SeveralQueues(self, given, group)
            if not with_owned:
                made = made.limited_to(lambda name: self.owner(name) is None)
            found = self._several.setdefault((several, with_owned), made)
        return found

    def index(self, spec: QueueSpec) -> FamilyKeys | None:
        """Return the index of the members of a pattern, None for a queue that is no pattern."""
        return self._family_keys.get(spec.name)

    def families(self) -> list[Family]:
        """Return the families that the setting has, in its order; nothing is read."""
        return [self._family(spec, self._family_keys[spec.name]) for spec in self._patterns]

    def family(self, pattern: str) -> Family:
        """Return the family with a name, which is a pattern of the setting; nothing is read.

        Raises:
            QueueNotFound: No spec has this pattern.
        """
        for spec in self._patterns:
            if spec.name == pattern:
                return self._family(spec, self._family_keys[pattern])
        raise QueueNotFound(name=pattern)

    def _family(self, spec: QueueSpec, keys: FamilyKeys) -> Family:
        runner = OperationRunner(self.database, spec.name)
        return Family(
            spec.name,
            spec.kind,
            keys,
            lambda start, after: self._names(start=start, after=after, with_responses=False),
            functools.partial(self._is_member, spec, bool),
            # Every take from a member depends on keys below its name.
            Pausing(runner, keys.paused, self._beginning_with(spec.start), family=spec.name),
            spec.owner,
            has_parts=spec.has_parts,
            label=spec.label(spec.name),
        )

    def _beginning_with(self, start: str) -> tuple[bytes, bytes]:
        """Return the range of the queues whose names, which are ASCII, begin with a text."""
        begin = self._begin + _TEXT + start.encode()
        return begin, begin + b"\xff"

    def _group_of(
        self, several: _Several, *, by_index: bool = False, with_owned: bool = True
    ) -> SeveralGroup:
        """Return what all calls of this process share that take from the same names alike."""
        found = self._groups.get((several, with_owned))
        if found is None:
            if len(self._groups) >= _MAX_SEVERAL:
                self._groups.clear()
            ring = Ring(*self._members_of(several[0], with_owned=with_owned)) if by_index else None
            root = self._root or self
            made = SeveralGroup(
                root.database,
                root._consumers.__getitem__,  # noqa: SLF001  # of this class
                ring,
                in_turn=several[1],
                facts=(with_owned,) if by_index else (),
            )
            found = self._groups.setdefault((several, with_owned), made)
        return found

    def _members_of(
        self, names: Sequence[str], *, with_owned: bool
    ) -> tuple[list[str], list[Source]]:
        """Return the plain queues that are named or fit, and the families with fitting members."""
        patterns = [name for name in names if "*" in name]
        fits = fits_of(patterns)

        def is_meant(spec: QueueSpec) -> bool:
            return with_owned or spec.owner is None

        plain = [name for name in names if "*" not in name]
        plain += [
            name for name, spec in sorted(self._named.items()) if is_meant(spec) and fits(name)
        ]
        sources = [
            Source(self._family_keys[spec.name], functools.partial(self._is_member, spec, fits))
            for spec in self._patterns
            if is_meant(spec) and any(share_a_name(name, spec.name) for name in patterns)
        ]
        return list(dict.fromkeys(plain)), sources

    def _is_member(self, spec: QueueSpec, fits: Callable[[str], Any], name: str) -> bool:
        """Tell whether a queue of a pattern's index is one of its members, and fits others."""
        try:
            return bool(fits(name)) and self.spec(name) is spec
        except QueueNotFound:
            return False

    def matching(self, patterns: Sequence[str]) -> Matching:
        """Yield the names that exist and fit a pattern, sorted, each with the patterns it fits.

        Every name is gone through once, whatever the number of patterns.
        """
        fits = fits_of(patterns)
        begun = ""
        for start in sorted({pattern.partition("*")[0] for pattern in patterns}):
            if begun and start.startswith(begun):
                continue
            for name in self._names(start=start, with_responses=True):
                if found := fits(name):
                    yield name, found
            if not start:
                return
            begun = start

    def sweep(self) -> int:
        """Remove expired responses of calls on families, as Queue.sweep does; return how many."""
        some = functools.partial(run, self.database, self.responses.sweep, wrote=bool)
        return sum(iter(some, 0))

    def names_of_their_own(self) -> list[str]:
        """Return the names of :meth:`names` that do not fit a pattern alone, sorted."""

        def read(tr: Transaction) -> list[str]:
            owned = self._owned.intersection(self._named)
            stored = {name: self.queue(name).overview.begin_stored(tr) for name in owned}
            return [name for name in self.plain_names() if name not in stored or stored[name]()]

        return run(self.database, read, read_only=True) if self._owned else self.plain_names()

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

    def each_name(
        self, *, after: str = "", start: str = "", with_responses: bool = False
    ) -> Iterator[str]:
        """Yield the names of the queues, sorted, and read them as they are asked for.

        These are the plain names, and those that fit a pattern, or that another app has, and have
        been pushed to; the latter cost about two reads each, a thousand names in a transaction. A
        queue that was drained is among them, because it keeps its counts; one that was cleared is
        not. The arguments are those of :meth:`names`; ``start`` is what the names begin with.
        """
        return self._names(after=after, start=start, with_responses=with_responses)

    def _names(self, *, after: str = "", start: str = "", with_responses: bool) -> Iterator[str]:
        """Return the names that sort after one and begin with a text, each read when asked for."""
        named = sorted(
            name
            for name in self._named
            if name > after and name.startswith(start) and name not in self._owned
        )
        merged = heapq.merge(named, self._existing(after, start, with_responses))
        return map(operator.itemgetter(0), itertools.groupby(merged))

    def queues(self, *, after: str = "", limit: int | None = None) -> list[Queue]:
        """Return the queues of :meth:`names`, in their order."""
        return [self.queue(name) for name in self.names(after=after, limit=limit)]

    def spec(self, name: str) -> QueueSpec:
        """Return how the queue with a name is stored: its own spec, or the pattern's it fits.

        Raises:
            QueueNotFound: No spec has this name, and no pattern fits it.
        """
        if isinstance(name, str):
            if name in self._named:
                return self._named[name]
            if NAME.fullmatch(name):
                for spec in self._patterns:
                    if spec.matches(name):
                        return spec
        raise QueueNotFound(name=name)

    def home(self, name: str) -> str:
        """Return the name of the queue that one is a part of; its own for all others."""
        try:
            return self.spec(name).home(name) if self.has_owned else name
        except QueueNotFound:
            return name

    def owner(self, name: str) -> str | None:
        """Return the app that alone pushes to a queue and takes from it, None if none does."""
        try:
            return self.spec(name).owner if self.has_owned else None
        except QueueNotFound:
            return None

    def _check_name(self, name: str, *, with_owned: bool) -> None:
        """Check that there may be a queue with a name, or one that fits a pattern.

        Raises:
            QueueNotFound: There cannot be.
            InvalidInput: It is not a pattern.
        """
        if "*" not in name:
            self.spec(name)
            return
        check_pattern(name)
        fits = fits_of([name])
        if not any(
            share_a_name(name, spec.name) if spec.is_pattern else fits(spec.name)
            for spec in (*self._named.values(), *self._patterns)
            if with_owned or spec.owner is None
        ):
            raise QueueNotFound(name=name)

    def _existing(self, after: str, start: str, with_responses: bool) -> Iterator[str]:
        """Yield the names that fit a pattern and under which something is stored, in order."""
        if self._patterns or self._owned:
            for name in self._stored(after, start, with_responses):
                if name in self._owned or any(spec.matches(name) for spec in self._patterns):
                    yield name

    def unknown_names(self) -> Iterator[str]:
        """Yield the names under which a queue is stored that no spec has and no pattern fits.

        As after a name or a pattern was removed. All names that are stored are gone through.
        """
        for name in self._stored("", "", False):
            try:
                self.spec(name)
            except QueueNotFound:
                yield name

    def _stored(self, after: str, start: str, with_responses: bool) -> Iterator[str]:
        """Yield the names that begin with a text and under which something is stored, in order."""
        begin, end = self._beginning_with(start) if start else bounds(self._subspace)
        if NAME.fullmatch(after):
            begin = max(begin, self._range_of(self._begin + packed(after))[1])
        search = RangeSearch(begin, end, self._range_of)
        count = min(_FIRST_NAMES, _NAMES_AT_ONCE)
        while True:

            def read(tr: Transaction, count: int = count) -> list[tuple[bytes, bytes]]:
                return search.following(tr.snapshot, count)

            found = run(self.database, read, read_only=True)
            for key, _behind in found:
                with contextlib.suppress(ValueError):  # what others stored here may be anything
                    name = _name_in(key[len(self._begin) :])
                    is_next = isinstance(name, str) and NAME.fullmatch(name) and name > after
                    if is_next and (with_responses or key == self._begin + packed(name)):
                        yield name
            if len(found) < count:
                return
            count = min(2 * count, _NAMES_AT_ONCE)

    def _range_of(self, key: bytes) -> tuple[bytes, bytes]:
        """Return the range of the keys with the same name, or of one that has none.

        The format and the responses, which may be there without the queue, are ranges of their own.
        """
        try:
            first = self._begin + packed(_name_in(key[len(self._begin) :]))
        except ValueError:
            return key, key + b"\x00"
        rest = key[len(first) :]
        for begin, end in _WITHOUT_QUEUE:
            if begin <= rest < end:
                return first + begin, first + end
        return first, first + b"\xff\xff"


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
