"""Copy all keys of a catalog from one engine to another: ``manage.py engine_copy``.

A copy goes from the *source*, which processes used so far, to the *target*, which the setting names
now. Each is a file or a cluster: both engines store the same keys. Each may have a *mark*, a row
that is not copied. A process that opens an engine and finds its mark there is refused, with what
the mark says. One that has opened it before is not: so all must be stopped.

Only the command writes marks. Each line that writes does so in transactions of its own:

1. *Look.* Nobody uses either side. The target has no key, or the mark of this copy. Its versions
   are past the source's; a file's are advanced. If not, the command refuses.
2. *Mark the target*, which still has no key. From now on the new setting is refused.
3. *Copy* portion by portion, each with the target's mark, which says up to where. The mark must be
   as the portion before has left it, so of two commands at once one stops.
4. *Mark the source* as moved. From now on the old setting is refused. Then look again who uses it,
   and at its version before the mark: between two commands others may have used it.
5. *Compare* both sides: keys, bytes, a digest. If they differ, or what was looked at is wrong,
   remove the source's mark, and refuse.
6. *Remove the target's mark.* The new setting is in use.

So the source is in use up to 4, the target after 6, and never both. What was written to the source
after it was copied makes 5 fail. A file's is never lost: who opens it after 4 is refused, and who
has opened it before is seen. Of a cluster the rows of workers alone say who uses it; what a server
or a script writes there after 5 stays there.

A crash, a signal, a timeout or a deadline leaves what the last transaction that took effect has
left, and the command goes on from there. If the outcome of a commit is unknown, it runs again, and
finds its own mark. Up to 4 a copy can be given up: empty the target, nothing else was changed.

The stamps in keys (``order="commit"``) and values are versions of the source, up to the one that is
looked at. All that the target gives must be above, or what is pushed next would come before what is
copied. To advance a cluster makes all its users wait, so its operator does it.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import json
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.exceptions import FdbQueueError
from fdbqueue.service.tools.presence import Presences
from fdbqueue.service.transactions import run, unlimited

#: The most bytes of keys and values in one transaction.
PORTION_BYTES = 1_000_000
#: How a range is read: as much at once as the engine gives.
_WANT_ALL = -2
_LENGTHS = struct.Struct(">II")
_COPIED_TO = "queues are being copied to it from {}: run manage.py engine_copy again to go on"
_IN_USE = (
    "{} is in use{}. Stop all servers, workers and scripts that use it; a worker that was killed "
    "counts for ten seconds."
)
_BEHIND = (
    "{} is at version {:,}, and {} was at {:,}: in queues with order='commit', new items would "
    "come before copied ones. First run: fdbcli --exec 'advanceversion {}' (all clients of the "
    "cluster wait a moment)."
)
_DIFFERENT = (
    "They differ: {} has {}, {} {}. A process that was not stopped has written meanwhile: stop it, "
    "remove all that {} has, and run this again."
)

Row = tuple[bytes, bytes]


class CopyRefused(FdbQueueError):
    """The keys are not copied.

    ``context["reason"]`` says why, and what to do.
    """

    code = "copy_refused"

    def __str__(self) -> str:
        return str(self.context["reason"])


class Side(NamedTuple):
    """A database, and what messages call it."""

    database: Database
    name: str


class Census(NamedTuple):
    """What a side has: how many keys, how many bytes with their values, and a digest of all."""

    keys: int
    bytes: int
    digest: str


class _Mark(NamedTuple):
    """The row of a copy at one side.

    Attributes:
        says: What processes are told.
        other: What messages call the other side.
        following: The first key that may not be copied yet, in hexadecimal; of the target.
        version: That of the source before this row; of the source.
    """

    says: str
    other: str
    following: str = ""
    version: int = 0


class EngineCopy:
    """One copy, from where its marks say that it is.

    Args:
        source: Where the keys are.
        target: Where they are to be.
        ranges: The ranges of the keys, in order.
        mark: The key of the marks.
        presences: The rows of workers.
    """

    def __init__(
        self,
        source: Side,
        target: Side,
        ranges: Sequence[tuple[bytes, bytes]],
        mark: bytes,
        presences: Presences,
    ) -> None:
        self._source, self._target = source, target
        self._ranges, self._mark, self._presences = ranges, mark, presences
        for side in (source, target):  # this process alone may open what is marked
            _of_engine(side, "refuse_marked_at", lambda _: None)(None)

    def check(self) -> None:
        """Check that the copy may begin or go on, and advance the versions of a target file.

        Raises:
            CopyRefused: It may not; nothing was written.
        """
        source, target = self._source, self._target
        self._check_unused(source)
        self._check_unused(target)
        here, there = self._marks()
        if here and (here.other != target.name or not there):
            raise CopyRefused(reason=f"{source.name}: {here.says}.")
        if there and there.other != source.name:
            raise CopyRefused(reason=f"{target.name}: {there.says}.")
        if not there and self._rows(target):
            raise CopyRefused(reason=f"{target.name} has other keys: copy to an empty one.")
        if not there and not self._rows(source):
            raise CopyRefused(reason=f"{source.name} has nothing under the setting's PREFIX.")
        self._check_versions(here.version if here else _version_of(source))

    def begin(self, on_step: Callable[[int], object]) -> int:
        """Mark the target, and return how many keys are to be copied yet.

        Args:
            on_step: Called with the number of keys of each portion, here as elsewhere.

        Raises:
            CopyRefused: As of :meth:`check`; or another process came first.
        """
        self.check()
        if not self._marks()[1]:
            name = self._source.name
            self._change(self._target, None, _Mark(_COPIED_TO.format(name), name))
        return sum(len(rows) for rows in self._portions(self._source, self._following(), on_step))

    def copy(self, on_step: Callable[[int], object]) -> None:
        """Copy portion by portion."""
        mark = self._marks()[1]
        for rows in self._portions(self._source, self._following(), on_step):
            after = mark and mark._replace(following=_after(rows).hex())
            self._change(self._target, mark, after, rows)
            mark = after

    def finish(self, on_step: Callable[[int], object]) -> Census:
        """Compare both sides, and let processes use the target, no longer the source.

        Raises:
            CopyRefused: They differ, or somebody uses the source, which may go on.
        """
        source, target = self._source, self._target
        mark, there = self._marks()
        if not mark:
            now = datetime.datetime.now(datetime.timezone.utc)
            says = f"its queues were moved to {target.name} on {now:%Y-%m-%d at %H:%M} UTC"
            says += ": set FDBQUEUE to that"
            mark = _Mark(says, target.name, version=_version_of(source))
            self._change(source, None, mark)
        try:
            self._check_unused(source)
            self._check_versions(mark.version)
            ours, theirs = (self._census(side, on_step) for side in (source, target))
            if ours != theirs:
                names = source.name, ours, target.name, theirs, target.name
                raise CopyRefused(reason=_DIFFERENT.format(*names))
        except CopyRefused:
            self._change(source, mark, None)
            raise
        self._change(target, there, None)
        return ours

    # What is there

    def _check_unused(self, side: Side) -> None:
        is_shared = _of_engine(side, "is_shared")
        if is_shared and not is_shared():
            return  # the workers that it has were killed
        found = self._presences.over(side.database).read().rows
        names = [f"{row.name} ({row.process} on {row.host})" for row in found if not row.is_lost]
        if is_shared or names:
            who = f", by {', '.join(names)}" if names else ""
            raise CopyRefused(reason=_IN_USE.format(side.name, who))

    def _check_versions(self, version: int) -> None:
        """Check that all versions that the target will give are above one of the source."""
        newest = _version_of(self._target)
        if newest < version:
            advance = _of_engine(self._target, "advance_version")
            if advance is None:
                names = self._target.name, newest, self._source.name
                raise CopyRefused(reason=_BEHIND.format(*names, version, version))
            advance(version)

    def _marks(self) -> tuple[_Mark | None, _Mark | None]:
        return _read(self._source, self._stored), _read(self._target, self._stored)

    def _stored(self, tr: Transaction) -> _Mark | None:
        value = tr[self._mark]
        return _Mark(**json.loads(bytes(value))) if value.present() else None

    def _following(self) -> bytes:
        mark = self._marks()[1]
        return bytes.fromhex(mark.following) if mark else b""

    def _census(self, side: Side, on_step: Callable[[int], object]) -> Census:
        keys = size = 0
        digest = hashlib.blake2b(digest_size=16)
        for rows in self._portions(side, b"", on_step):
            keys += len(rows)
            for key, value in rows:
                size += len(key) + len(value)
                digest.update(_LENGTHS.pack(len(key), len(value)) + key + value)
        return Census(keys, size, digest.hexdigest())

    def _portions(
        self, side: Side, following: bytes, on_step: Callable[[int], object]
    ) -> Iterator[list[Row]]:
        """Yield all rows from a key on, as many at a time as one transaction copies."""
        while rows := self._rows(side, following):
            yield rows
            on_step(len(rows))
            following = _after(rows)

    def _rows(self, side: Side, following: bytes = b"") -> list[Row]:
        return _read(side, functools.partial(self._rows_in, following=following))

    def _rows_in(self, tr: Transaction, following: bytes = b"") -> list[Row]:
        rows: list[Row] = []
        left = PORTION_BYTES
        for begin, end in self._ranges:
            if following < end:
                for row in tr.get_range(max(begin, following), end, 0, False, _WANT_ALL):
                    key, value = bytes(row.key), bytes(row.value)
                    left -= len(key) + len(value)
                    if left < 0 and rows:
                        return rows
                    if key != self._mark:
                        rows.append((key, value))
        return rows

    # The only writes

    def _change(
        self, side: Side, before: _Mark | None, after: _Mark | None, rows: list[Row] | None = None
    ) -> None:
        """Put a mark in the place of another, with the rows of a portion.

        Done twice it does no harm: it needs no receipt.

        Raises:
            CopyRefused: Another mark is there.
        """

        def change(tr: Transaction) -> None:
            found = self._stored(tr)
            if found == after:  # by an attempt whose outcome was unknown
                return
            is_used = not before and side is self._target and self._rows_in(tr)
            if is_used or found != before:
                raise CopyRefused(reason=f"Another process has just written to {side.name}.")
            for key, value in rows or ():
                tr[key] = value
            if after:
                tr[self._mark] = json.dumps(after._asdict()).encode()
            else:
                tr.clear(self._mark)

        run(side.database, change, wrote=False)


def _of_engine(side: Side, name: str, default: Any = None) -> Any:
    """Return what only some engines have, a file's; a time limit may be around it."""
    return getattr(unlimited(side.database), name, default)


def _read(side: Side, read: Callable[[Transaction], Any]) -> Any:
    return run(side.database, read, read_only=True)


def _version_of(side: Side) -> int:
    return int(_read(side, lambda tr: tr.get_read_version().wait()))


def _after(rows: list[Row]) -> bytes:
    return rows[-1][0] + b"\x00"
