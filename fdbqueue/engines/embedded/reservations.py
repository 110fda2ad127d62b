"""Reservations: after a conflict an attempt reserves the file before it reads.

One attempt of all processes has the reservation, from before its snapshot until its commit is
written. Commits without one go between; but if an attempt that had it conflicts, its process's next
is *strict*: the commits of others wait for it.

**Nothing depends on it**, because each commit compares what it read with what was written since. It
is a note in the lock file ``turn`` that says until when it holds:

1. *Wait in line.* The first waiting thread of each process has a place in the file, which says when
   it looks again; one that is late does not count.
2. *Reserve.* When the note is over, the first in line writes its own, and waits on if it then reads
   another's. If the first is late, any may.
3. *Commit.* A note that still holds is written again; who read for too long has lost it.
4. *Release.* The note ends once the commit is written, and the first in line is rung.

Without one goes on who has waited for a second, is past its deadline, would wait for its own
thread, or cannot write the file. An exception, a kill or a stop leaves a note that ends by itself,
and a place that is late. After a new start of the machine a note that holds for too long is void.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable

from fdbqueue.engines.embedded.files import Descriptors
from fdbqueue.steady import monotonic_ns

#: The process, its attempt (0 between two), until when, if strict; between them eight unused bytes.
_NOTE = struct.Struct("=QQQ8xQ")
#: The process, since when it waits, until when it looks again.
_PLACE = struct.Struct("=QQQ")
_PLACES_AT, _PLACES = 64, 128
_NOBODY = bytes(_PLACES * _PLACE.size)
#: How many bytes, and where. After the places: when a process last began to wait for the writer's
#: turn (``sqlite_file``), and a number that is another one after a pipe was made (``watches``).
WAITED, PIPES = (8, 3200), (8, 3208)
#: Then the version up to which the disk has all commits (``sqlite_file``).
SYNCED = (8, 3216)
_SIZE = 4096

_MS = 1_000_000  # in nanoseconds, as all times here
#: For how long a note holds: while the caller reads and thinks, at first and at the most, and while
#: it commits.
_THINK, _LONGEST_THINK, _COMMIT = 20 * _MS, 640 * _MS, 250 * _MS
#: Whoever looks may reserve if the first in line has not for so long.
_UNCLAIMED = 5 * _MS
#: How often to look: the first in line, and those behind it, by how many are before them.
_LOOK, _LOOK_BEHIND, _LOOK_LAST = 1 * _MS, 20 * _MS, 50 * _MS
#: A place counts for so long after it was to be looked from.
_LATE = 20 * _MS
_PATIENCE = 1_000 * _MS
#: Linux has addresses of sockets that leave no file behind; elsewhere who waits looks often.
_HAS_BELLS = sys.platform.startswith("linux")
#: The attempts of this process, of all files: one that has opened its file again knows its own.
_numbers = itertools.count(1)


class Reservation:
    """The reservation of one attempt.

    Attributes:
        number: Which attempt of its process it is.
        given_at: When it was given.
        thread: The thread that waited for it.
        is_contended: Whether other processes reserve the file, too.
    """

    __slots__ = ("given_at", "is_contended", "number", "thread")

    def __init__(self, number: int) -> None:
        self.number = number
        self.given_at = 0
        self.thread = threading.get_ident()
        self.is_contended = False


class SharedFile:
    """A lock file in which processes leave notes for each other.

    It is read and written, not mapped into memory: if a file that is mapped becomes shorter, who
    looks at it dies (SIGBUS). What is missing reads as empty, and is there again once it is
    written. The file is closed when no thread refers to this any more: a descriptor that is closed
    while a thread is about to write may already be another file's.

    Args:
        path: The file, which exists.

    Attributes:
        descriptor: For ``os.pread`` and ``os.pwrite``, which are a call of a function in C each.
    """

    __slots__ = ("_descriptors", "descriptor")

    def __init__(self, path: str) -> None:
        self._descriptors = Descriptors()
        self.descriptor = self._descriptors.open(path, os.O_RDWR)
        if os.fstat(self.descriptor).st_size < _SIZE:
            os.pwrite(self.descriptor, bytes(_SIZE), 0)  # else there may be no room later

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_finalizing():  # then what this needs may be gone
            self._descriptors.close()

    def note(self) -> tuple[int, ...]:
        """Return the note: the process, its attempt, until when, if strict."""
        return _NOTE.unpack(os.pread(self.descriptor, _NOTE.size, 0).ljust(_NOTE.size, b"\0"))

    def places(self) -> bytes:
        """Return all places."""
        found = os.pread(self.descriptor, len(_NOBODY), _PLACES_AT)
        return found.ljust(len(_NOBODY), b"\0")


class Reservations:
    """The reservations of one file, as one process takes part in them until it closes the file.

    Who opens the file again, or finds its lock files deleted, makes another of these. A thread that
    is about to open the lock file may then be late: it has the old one alone.

    Args:
        path: The lock file that the processes share, opened when it is needed; None if there is
            none.
    """

    def __init__(self, path: str | None = None) -> None:
        self._path = path
        #: What the processes share, once it was needed.
        self.shared: SharedFile | None = None
        self._bell: socket.socket | None = None
        #: Which process this is; 0 is none.
        self._process = int.from_bytes(os.urandom(8), "big") | 1
        #: The attempts of this process that wait, the first in line first.
        self._line: dict[Reservation, None] = {}
        #: The one that was given last.
        self._given: Reservation | None = None
        #: Whether the last attempt that had a reservation has conflicted all the same.
        self.is_strict = False
        #: For how long a caller may read and think, if that is more than usual.
        self._think = 0

    def close(self) -> None:
        """Share nothing any more; attempts that wait go on without a reservation."""
        self._path = self.shared = None
        bell, self._bell = self._bell, None
        if bell is not None:
            bell.close()

    def open(self) -> SharedFile | None:
        """Return what the processes share; None if it cannot be had."""
        path = self._path
        if self.shared is None and path is not None:
            with contextlib.suppress(OSError):
                self.shared = SharedFile(path)
            if self._path is None:  # closed meanwhile
                self.close()
        return self.shared

    def note_pipe(self) -> bool:
        """Note that a pipe was made, and tell whether that could be noted."""
        shared = self.open()
        try:
            if shared is None:
                return False
            os.pwrite(shared.descriptor, os.urandom(8), PIPES[1])
        except OSError:
            return False
        return True

    def reserve(self, deadline: float | None) -> Reservation | None:
        """Wait for a reservation; None if the attempt is to go on without one.

        Args:
            deadline: When to stop waiting, on the monotonic clock; None for no limit.
        """
        shared = self.open()
        if shared is None:
            return None
        own = Reservation(next(_numbers))
        return self._wait(shared, own, monotonic_ns(), deadline)

    def _wait(
        self, shared: SharedFile, own: Reservation, since: int, deadline: float | None
    ) -> Reservation | None:
        """Wait in line for the file."""
        give_up_at = since + _PATIENCE
        if deadline is not None:
            give_up_at = min(give_up_at, int(deadline * 1e9))
        place = 0
        try:
            self._line[own] = None
            while self.shared is shared:  # else it was closed meanwhile
                now = monotonic_ns()
                found = self._look(shared, own, since, now) if self._is_first(own) else 1
                if found is True:
                    return own
                if found is None or now >= give_up_at:
                    return None
                if not self._is_first(own):
                    time.sleep(_LOOK / 1e9)
                    continue
                pause = min(_LOOK_BEHIND * found or _LOOK, _LOOK_LAST)
                place = self._take_place(shared, place, since, now + pause)
                self._sleep(pause)
        except OSError:  # a full disk
            return None
        finally:
            self._line.pop(own, None)
            if place:
                self._leave(shared, place)
        return None

    def _look(
        self, shared: SharedFile, own: Reservation, since: int, now: int
    ) -> int | bool | None:
        """Reserve the file if that is free: return True, None to give up, or how many are ahead."""
        process, number, until, _ = shared.note()
        is_over = not now < until < now + max(_LONGEST_THINK, _COMMIT) + _MS
        waiting = shared.places()
        ahead = 0
        if waiting != _NOBODY:
            others = self._others(waiting, now)
            own.is_contended = own.is_contended or bool(others)
            ahead = sum([other < since for other, _ in others])
        if process == self._process:
            if not is_over and self._is_of_this_thread(number):
                return None
        else:
            own.is_contended = own.is_contended or until > now - _PATIENCE
        if is_over and (not ahead or now - until > _UNCLAIMED):
            return self._note(shared, own, now) or ahead
        return ahead

    def _is_first(self, own: Reservation) -> bool:
        """Tell whether no other thread of this process waits for longer."""
        return next(iter(self._line.copy()), None) is own  # others may join and leave meanwhile

    def _is_of_this_thread(self, number: int) -> bool:
        given = self._given
        if given is None or given.number != number:
            return False
        return given.thread == threading.get_ident()

    def _note(self, shared: SharedFile, own: Reservation, now: int) -> bool:
        """Write the note, and tell whether no other was written just then."""
        self._given, own.given_at = own, now
        until = now + max(_THINK, self._think)
        note = _NOTE.pack(self._process, own.number, until, self.is_strict)
        os.pwrite(shared.descriptor, note, 0)
        return shared.note()[:2] == (self._process, own.number)

    def _others(self, waiting: bytes, now: int) -> list[tuple[int, int]]:
        """Return since when other processes wait that look in time, and which these are."""
        return [
            (since, process)
            for process, since, looks_at in _PLACE.iter_unpack(waiting)
            if process and process != self._process and looks_at > now
        ]

    def _take_place(self, shared: SharedFile, place: int, since: int, looks_at: int) -> int:
        """Stay at a place of the file's line, or take a free one; return which."""
        if not place or self._owner(shared, place) != self._process:
            places = shared.places()
            start = random.randrange(_PLACES)
            for number in range(start, start + _PLACES):
                at = number % _PLACES * _PLACE.size
                place = _PLACES_AT + at
                process, _, looked_at = _PLACE.unpack_from(places, at)
                if not process or looked_at + _PATIENCE < looks_at:
                    break
        packed = _PLACE.pack(self._process, since, looks_at + _LATE)
        os.pwrite(shared.descriptor, packed, place)
        return place

    def _owner(self, shared: SharedFile, place: int) -> int:
        """Return what stands for the process that has this place; 0 if it is free."""
        return int.from_bytes(os.pread(shared.descriptor, 8, place), sys.byteorder)

    def _leave(self, shared: SharedFile, place: int) -> None:
        with contextlib.suppress(OSError):  # a full disk
            if self._owner(shared, place) == self._process:
                os.pwrite(shared.descriptor, bytes(_PLACE.size), place)

    def _sleep(self, pause: int) -> None:
        """Sleep for so long, or until another process rings."""
        bell = None if pause < _LOOK else self._own_bell()  # a bell's time has whole milliseconds
        if bell is None:
            time.sleep(min(pause, _LOOK) / 1e9)
            return
        with contextlib.suppress(OSError):  # it is time, or it was closed
            bell.settimeout(pause / 1e9)
            bell.recv(1)

    def _own_bell(self) -> socket.socket | None:
        """Return the socket by which this process is rung; None if it can have none."""
        if self._bell is None and _HAS_BELLS:
            bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                bell.bind(_address(self._process))
                self._bell = bell
                if self._path is None:  # closed meanwhile
                    self.close()
            except OSError:  # another thread has bound it just now
                bell.close()
        return self._bell

    def _ring(self, shared: SharedFile, now: int) -> None:
        """Wake the first in line."""
        waiting = shared.places()
        bell = None if waiting == _NOBODY else self._own_bell()
        if bell is None:
            return
        for _, process in sorted(self._others(waiting, now)):
            with contextlib.suppress(OSError):  # it has ended, or is rung already
                bell.sendto(b"!", socket.MSG_DONTWAIT, _address(process))
                return

    def let_pass(self, deadline: float | None) -> None:
        """Wait with a commit while another attempt has a strict reservation.

        Args:
            deadline: When to stop waiting, on the monotonic clock; None for no limit.
        """
        shared = self.shared or self.open()
        try:
            while shared is not None:
                note = os.pread(shared.descriptor, _NOTE.size, 0)
                if len(note) < _NOTE.size:
                    return
                process, number, until, strict = _NOTE.unpack(note)
                if not (strict and number):
                    return
                now = monotonic_ns()
                if not now < until < now + max(_LONGEST_THINK, _COMMIT) + _MS:
                    return
                if process == self._process and self._is_of_this_thread(number):
                    return
                if deadline is not None and now > deadline * 1e9:
                    return
                time.sleep(_LOOK / 1e9)
        except OSError:  # suppress() would be three calls a commit
            return

    def hold(self, number: int) -> None:
        """Hold the reservation of an attempt for its commit, unless it is lost.

        If it is, the attempt took too long: its process's next one has twice the time, 0.64 s at
        most.

        Args:
            number: The attempt's.
        """
        shared = self.shared
        if shared is None:
            return
        with contextlib.suppress(OSError):
            process, held, until, strict = shared.note()
            now = monotonic_ns()
            given = self._given
            if (process, held) == (self._process, number) and now < until:
                note = _NOTE.pack(process, number, now + _COMMIT, strict)
                os.pwrite(shared.descriptor, note, 0)
                self._think = self._think * 15 // 16
            elif given is not None and given.number == number:
                self._think = min(2 * (now - given.given_at), _LONGEST_THINK)

    def release(self, number: int) -> None:
        """End the reservation of an attempt, unless it is lost."""
        shared = self.shared
        if shared is None:
            return
        with contextlib.suppress(OSError):
            process, held, until, _ = shared.note()
            now = monotonic_ns()
            if (process, held) == (self._process, number) and now < until:
                os.pwrite(shared.descriptor, _NOTE.pack(process, 0, now, 0), 0)
                self._ring(shared, now)


def _address(process: int) -> bytes:
    """Return the address of a process's bell: it has no file, and goes with the process."""
    return b"\0fdbqueue-%016x" % process
