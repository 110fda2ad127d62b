"""Reservations: after a conflict an attempt reserves the file before it reads.

One attempt of all processes has the reservation, from before its snapshot until its commit is
written. Commits without one (a push, a first attempt) go between; but if an attempt that had it
conflicts, the next is *strict*: the commits of others wait for it.

**Nothing depends on it**, because each commit compares what it read with what was written since. It
is a note in memory that the processes share (the lock file ``turn``), and says until when it holds:

1. *Wait in line.* The first waiting thread of each process has a place in the memory, which says
   when it looks again; one that is late does not count. It sleeps until then, or until it is rung.
2. *Reserve.* When the note is over, the first in line writes its own, and waits on if it then reads
   another's. If the first is late, any may.
3. *Read.* An attempt that takes too long has lost it.
4. *Commit.* A note that still holds is written again.
5. *Release.* The note ends once the commit is written, and the first in line is rung.

An attempt that has waited for a second, is past its deadline, or would wait for its own thread,
goes on without. What is left behind by

- *an exception, a kill, a stop*: a note that ends by itself, and a place that is late;
- *a stopped process that goes on*: its note is lost, and it commits unless it conflicts;
- *a new start of the machine*: a note that holds for too long is void;
- *a full disk, deleted lock files*: no shared note, so conflicts.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import random
import socket
import struct
import sys
import threading
import time

from fdbqueue.steady import monotonic_ns

#: The process, its attempt (0 between two), until when, if strict; between them eight unused bytes.
_NOTE = struct.Struct("=QQQ8xQ")
#: The process, since when it waits, until when it looks again.
_PLACE = struct.Struct("=QQQ")
#: Written as a slice: if the memory was closed, that is a ValueError, as reading is; ``pack_into``
#: raises a TypeError.
_NOTE_AT = slice(0, _NOTE.size)
_PLACES_AT, _PLACES = 64, 128
_PLACES_END = _PLACES_AT + _PLACES * _PLACE.size
_NOBODY = bytes(_PLACES * _PLACE.size)
#: After the places: when a process last began to wait for the writer's turn (``storage``), and a
#: number that is another one after a pipe was made (``watches``).
WAITED, PIPES = slice(3200, 3208), slice(3208, 3216)
#: Then the version up to which the disk has all commits (``storage``).
SYNCED = slice(3216, 3224)
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


class Reservations:
    """The reservations of one file, as one process takes part in them until it closes the file.

    Who opens the file again, or finds its lock files deleted, makes another of these. A thread that
    is about to open the memory may then be late: it has that of the old lock file alone.

    Args:
        path: The lock file whose memory the processes share, opened when it is needed; None if
            there is none.
    """

    def __init__(self, path: str | None = None) -> None:
        self._path = path
        #: What the processes share, once it was needed.
        self.memory: mmap.mmap | None = None
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
        self._path = None
        memory, self.memory = self.memory, None
        bell, self._bell = self._bell, None
        if memory is not None:
            memory.close()
        if bell is not None:
            bell.close()

    def shared_memory(self) -> mmap.mmap | None:
        """Return the memory that the processes share; None if it cannot be had."""
        path = self._path
        if self.memory is None and path is not None:
            with contextlib.suppress(OSError):
                file = os.open(path, os.O_RDWR)
                try:
                    if os.fstat(file).st_size < _SIZE:
                        os.pwrite(file, bytes(_SIZE), 0)  # else a write to memory may find no room
                    self.memory = mmap.mmap(file, _SIZE)
                finally:
                    os.close(file)
            if self._path is None:  # closed meanwhile
                self.close()
        return self.memory

    def note_pipe(self) -> bool:
        """Note that a pipe was made, and tell whether that could be noted."""
        memory = self.shared_memory()
        try:
            if memory is None:
                return False
            memory[PIPES] = os.urandom(8)
        except ValueError:  # it was closed
            return False
        return True

    def reserve(self, deadline: float | None) -> Reservation | None:
        """Wait for a reservation; None if the attempt is to go on without one.

        Args:
            deadline: When to stop waiting, on the monotonic clock; None for no limit.
        """
        memory = self.shared_memory()
        if memory is None:
            return None
        own = Reservation(next(_numbers))
        return self._wait(memory, own, monotonic_ns(), deadline)

    def _wait(
        self, memory: mmap.mmap, own: Reservation, since: int, deadline: float | None
    ) -> Reservation | None:
        """Wait in line for the file."""
        give_up_at = since + _PATIENCE
        if deadline is not None:
            give_up_at = min(give_up_at, int(deadline * 1e9))
        place = 0
        try:
            self._line[own] = None
            while True:
                now = monotonic_ns()
                found = self._look(memory, own, since, now) if self._is_first(own) else 1
                if found is True:
                    return own
                if found is None or now >= give_up_at:
                    return None
                if not self._is_first(own):
                    time.sleep(_LOOK / 1e9)
                    continue
                pause = min(_LOOK_BEHIND * found or _LOOK, _LOOK_LAST)
                place = self._take_place(memory, place, since, now + pause)
                self._sleep(pause)
        except ValueError:  # it was closed meanwhile
            return None
        finally:
            self._line.pop(own, None)
            if place:
                self._leave(memory, place)

    def _look(self, memory: mmap.mmap, own: Reservation, since: int, now: int) -> int | bool | None:
        """Reserve the file if that is free: return True, None to give up, or how many are ahead."""
        process, number, until, _ = _NOTE.unpack_from(memory, 0)
        is_over = not now < until < now + max(_LONGEST_THINK, _COMMIT) + _MS
        waiting = memory[_PLACES_AT:_PLACES_END]
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
            return self._note(memory, own, now) or ahead
        return ahead

    def _is_first(self, own: Reservation) -> bool:
        """Tell whether no other thread of this process waits for longer."""
        return next(iter(self._line.copy()), None) is own  # others may join and leave meanwhile

    def _is_of_this_thread(self, number: int) -> bool:
        given = self._given
        if given is None or given.number != number:
            return False
        return given.thread == threading.get_ident()

    def _note(self, memory: mmap.mmap, own: Reservation, now: int) -> bool:
        """Write the note, and tell whether no other was written just then."""
        self._given, own.given_at = own, now
        until = now + max(_THINK, self._think)
        note = _NOTE.pack(self._process, own.number, until, self.is_strict)
        memory[_NOTE_AT] = note
        return _NOTE.unpack_from(memory, 0)[:2] == (self._process, own.number)

    def _others(self, waiting: bytes, now: int) -> list[tuple[int, int]]:
        """Return since when other processes wait that look in time, and which these are."""
        return [
            (since, process)
            for process, since, looks_at in _PLACE.iter_unpack(waiting)
            if process and process != self._process and looks_at > now
        ]

    def _take_place(self, memory: mmap.mmap, place: int, since: int, looks_at: int) -> int:
        """Stay at a place of the file's line, or take a free one; return which."""
        if not place or _PLACE.unpack_from(memory, place)[0] != self._process:
            start = random.randrange(_PLACES)
            for number in range(start, start + _PLACES):
                place = _PLACES_AT + number % _PLACES * _PLACE.size
                process, _, looked_at = _PLACE.unpack_from(memory, place)
                if not process or looked_at + _PATIENCE < looks_at:
                    break
        packed = _PLACE.pack(self._process, since, looks_at + _LATE)
        memory[place : place + _PLACE.size] = packed
        return place

    def _leave(self, memory: mmap.mmap, place: int) -> None:
        with contextlib.suppress(ValueError):  # it was closed
            if _PLACE.unpack_from(memory, place)[0] == self._process:
                memory[place : place + _PLACE.size] = bytes(_PLACE.size)

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

    def _ring(self, memory: mmap.mmap, now: int) -> None:
        """Wake the first in line."""
        waiting = memory[_PLACES_AT:_PLACES_END]
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
        memory = self.memory or self.shared_memory()
        try:
            while memory is not None:
                process, number, until, strict = _NOTE.unpack_from(memory, 0)
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
        except ValueError:  # the memory was closed; suppress() would be three calls a commit
            return

    def hold(self, number: int) -> None:
        """Hold the reservation of an attempt for its commit, unless it is lost.

        If it is, the attempt took too long: its process's next one has twice the time, 0.64 s at
        most.

        Args:
            number: The attempt's.
        """
        memory = self.memory
        if memory is None:
            return
        with contextlib.suppress(ValueError):
            process, held, until, strict = _NOTE.unpack_from(memory, 0)
            now = monotonic_ns()
            given = self._given
            if (process, held) == (self._process, number) and now < until:
                memory[_NOTE_AT] = _NOTE.pack(process, number, now + _COMMIT, strict)
                self._think = self._think * 15 // 16
            elif given is not None and given.number == number:
                self._think = min(2 * (now - given.given_at), _LONGEST_THINK)

    def release(self, number: int) -> None:
        """End the reservation of an attempt, unless it is lost."""
        memory = self.memory
        if memory is None:
            return
        with contextlib.suppress(ValueError):
            process, held, until, _ = _NOTE.unpack_from(memory, 0)
            now = monotonic_ns()
            if (process, held) == (self._process, number) and now < until:
                memory[_NOTE_AT] = _NOTE.pack(process, 0, now, 0)
                self._ring(memory, now)


def _address(process: int) -> bytes:
    """Return the address of a process's bell: it has no file, and goes with the process."""
    return b"\0fdbqueue-%016x" % process
