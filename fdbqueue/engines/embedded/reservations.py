"""Reservations: after a conflict an attempt reserves the file before it reads.

Commits are optimistic: whoever read what another commit has changed meanwhile conflicts. If many
processes change the same keys, nearly every attempt would be for nothing. So an attempt that
follows a conflict reserves the file first, opens its snapshot then, and keeps the reservation
until its commit has ended. One attempt of all processes has it at a time, so those that reserve
do not conflict with each other. A commit without a reservation (a push, an ack, a first attempt)
does not wait for one, and goes between.

**Nothing depends on it.** The commit compares what was read with what was written since, with a
reservation or without. Two attempts that both believe that they have it, or one that has lost it,
conflict at the worst. So a reservation is no lock. It is a note in memory that the processes share
(the first bytes of the lock file ``turn``), which says until when it holds, by the monotonic clock:

1. *Wait in line.* The threads of a process line up; the first of them takes a place in the file's
   line: the process, since when it waits, until when it looks again. It sleeps, looks again, and
   sleeps for less the fewer are before it. A place that was not looked from in time does not count
   until it is again.
2. *Reserve.* The first in line writes the note once the last one is over: the process, the attempt,
   the time 20 ms from now. It reads the note again: if another wrote it just then, it waits on.
3. *Read.* Who thinks for longer than that has lost the reservation by that alone.
4. *Commit.* Before it the note is renewed, if it still holds, for a quarter of a second. The commit
   waits for the writer's turn as every commit does (:mod:`fdbqueue.engines.embedded.commits`).
5. *Release.* The note ends now. But a process that takes one item after the other keeps the
   file for up to 8 ms, its slice: if its last two attempts followed each other closely, the note
   says that the process, not the attempt, has it for 0.4 ms more, and its next attempt goes on
   without waiting. So the processes take turns by the slice, not by the item: what SQLite has in
   its caches, and what the process knows of the history, stays good within one. When the slice is
   over the process goes to the end of the line.

Whoever waited for a second goes on without a reservation, as does one whose deadline has passed,
and one whose own thread has the reservation: a signal handler, or a thread with several
transactions. What is left behind by

- *an exception at any place, a lost transaction, a kill, a stop*: a note, which ends by itself: after
  20 ms, or 250 ms in a commit; a place in line, which does not count once it was not looked from in
  time. So nobody waits for longer than that for one who has gone. (A process that is stopped
  between BEGIN and COMMIT of SQLite's transaction has SQLite's own lock, which nobody can
  take from it: commits then wait for as long as it is stopped. This was always so.)
- *a stopped process that goes on*: it finds another note than its own, renews nothing, and commits
  if it does not conflict;
- *a fork*: the parent's memory is closed before it; the child opens it again, as another process;
- *a wall clock that jumps*: nothing, because it is not asked. A note that would hold longer than
  any may (of a time namespace with another clock, or of a machine that was started again) is void;
- *a full disk*: the bytes are allocated when the file is opened; without them nobody reserves;
- *a deleted lock file*: the others reserve in a new one, and conflict with this process at most.

A transaction that never wrote never conflicts, and so never reserves. One that reserves and then
only reads releases when it commits, is reset, or is no longer referenced.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import socket
import struct
import sys
import threading
import time

#: The process, its attempt (0 between two), until when, when the process's slice began.
_NOTE = struct.Struct("=QQQQ")
#: The process, since when it waits, until when it looks again.
_PLACE = struct.Struct("=QQQ")
_PLACES_AT, _PLACES = 64, 128
_PLACES_END = _PLACES_AT + _PLACES * _PLACE.size
_NOBODY = bytes(_PLACES * _PLACE.size)
_SIZE = 4096

_MS = 1_000_000  # in nanoseconds, as all times here
#: For how long a note holds: while the caller reads and thinks, and while it commits.
_THINK, _COMMIT = 20 * _MS, 250 * _MS
#: For how long a process may go on, and within which time its next attempt must come.
_SLICE, _GRACE = 8 * _MS, 4 * _MS // 10
#: Whoever looks may reserve if the first in line has not for so long.
_UNCLAIMED = 2 * _MS
#: How often to look: the first in line, and those behind it, by how many are before them.
_LOOK, _LOOK_BEHIND, _LOOK_LAST = 1 * _MS, 5 * _MS, 50 * _MS
#: A place counts for so long after it was to be looked from.
_LATE = 5 * _MS
_PATIENCE = 1_000 * _MS
#: How long the first in line sleeps when the slice before is about to be over.
_SOON_SECONDS = 0.00006


class Reservation:
    """The reservation of one attempt.

    Attributes:
        is_contended: Whether other processes reserve the file, too.
    """

    __slots__ = ("_reservations", "is_contended", "number", "thread")

    def __init__(self, reservations: Reservations, number: int) -> None:
        self._reservations = reservations
        self.number = number
        self.thread = threading.get_ident()
        self.is_contended = False

    def release(self) -> None:
        """Let others reserve; calling it again does no harm."""
        self._reservations.release(self.number)


class Reservations:
    """The reservations of one file, as one process takes part in them."""

    def __init__(self) -> None:
        self._memory: mmap.mmap | None = None
        self._bell: socket.socket | None = None
        self._start_empty()

    def _start_empty(self) -> None:
        #: Whether this process has ever waited for a reservation.
        self.is_used = False
        self._process = 0
        self._numbers = 0
        #: The attempts of this process that wait, the first in line first.
        self._line: dict[Reservation, None] = {}
        #: The one that was given last.
        self._given: Reservation | None = None
        #: When the last attempt or commit ended, if there ever was a reservation.
        self._used_at = 0
        #: Whether the last two attempts followed each other closely.
        self._goes_on = False

    def open(self, path: str) -> None:
        """Share the memory of a lock file; without room for it nobody reserves."""
        self.close()
        with contextlib.suppress(OSError):
            file = os.open(path, os.O_RDWR)
            try:
                if os.fstat(file).st_size < _SIZE:
                    os.pwrite(file, bytes(_SIZE), 0)  # else a write to memory may find no room
                self._start_empty()
                self._process = int.from_bytes(os.urandom(8), "big") | 1
                self._memory = mmap.mmap(file, _SIZE)
            finally:
                os.close(file)

    def close(self) -> None:
        """Forget everything; who waits goes on without a reservation."""
        memory, self._memory = self._memory, None
        bell, self._bell = self._bell, None
        if memory is not None:
            memory.close()
        if bell is not None:
            bell.close()

    def reserve(self, deadline: float | None) -> Reservation | None:
        """Wait for a reservation; None if the attempt is to go on without one.

        Args:
            deadline: When to stop waiting, on the monotonic clock; None for no limit.
        """
        memory = self._memory
        if memory is None:
            return None
        self._numbers += 1
        own = Reservation(self, self._numbers)
        since = time.monotonic_ns()
        self._goes_on = since - self._used_at < _GRACE
        give_up_at = since + _PATIENCE
        if deadline is not None:
            give_up_at = min(give_up_at, int(deadline * 1e9))
        place = 0
        self.is_used = True
        try:
            self._line[own] = None
            while True:
                now = time.monotonic_ns()
                if list(self._line)[0] is own:
                    found = self._look(memory, own, since, now)
                else:
                    found = 1
                if found is True:
                    return own
                if found is None or now >= give_up_at:
                    return None
                place = self._take_place(memory, place, since, now, found)
                if found or not self._is_due(memory, now):
                    self._sleep(own, min(_LOOK_BEHIND * found or _LOOK, _LOOK_LAST))
                else:
                    time.sleep(_SOON_SECONDS)
        except (ValueError, IndexError):  # it was closed meanwhile
            return None
        finally:
            self._line.pop(own, None)
            if place:
                self._leave(memory, place)

    def _look(self, memory: mmap.mmap, own: Reservation, since: int, now: int) -> int | bool | None:
        """Reserve the file if that is free: return True, None to give up, or how many are ahead."""
        process, number, until, began = _NOTE.unpack_from(memory, 0)
        is_over = not now < until < now + _COMMIT + _MS
        waiting = memory[_PLACES_AT:_PLACES_END]
        ahead = 0
        if waiting != _NOBODY:
            others = self._others(waiting, now)
            own.is_contended = own.is_contended or bool(others)
            ahead = sum([other < since for other, _ in others])
        if process == self._process:
            if not (is_over or number):  # within the slice of this process
                return self._note(memory, own, now, began) or ahead
            if not is_over and self._is_of_this_thread(number):
                return None
        else:
            own.is_contended = own.is_contended or until > now - _PATIENCE
        if is_over and (not ahead or now - until > _UNCLAIMED):
            return self._note(memory, own, now, now) or ahead
        return ahead

    def _is_due(self, memory: mmap.mmap, now: int) -> bool:
        """Tell whether a slice is about to be over: then to sleep for long would be too late."""
        _, _, _, began = _NOTE.unpack_from(memory, 0)
        return _SLICE - _LOOK < now - began < _SLICE + _LOOK

    def _is_of_this_thread(self, number: int) -> bool:
        given = self._given
        is_last = given is not None and given.number == number
        return is_last and given.thread == threading.get_ident()

    def _note(self, memory: mmap.mmap, own: Reservation, now: int, began: int) -> bool:
        """Write the note, and tell whether no other was written just then."""
        self._given = own
        _NOTE.pack_into(memory, 0, self._process, own.number, now + _THINK, began)
        return _NOTE.unpack_from(memory, 0)[:2] == (self._process, own.number)

    def _others(self, waiting: bytes, now: int) -> list[tuple[int, int]]:
        """Return since when other processes wait that look in time, and which these are."""
        return [
            (since, process)
            for process, since, looks_at in _PLACE.iter_unpack(waiting)
            if process and process != self._process and looks_at > now
        ]

    def _take_place(self, memory: mmap.mmap, place: int, since: int, now: int, ahead: int) -> int:
        """Stay at a place of the file's line, or take one that nobody has; return which."""
        if not place or _PLACE.unpack_from(memory, place)[0] != self._process:
            start = random.randrange(_PLACES)
            for number in range(start, start + _PLACES):
                place = _PLACES_AT + number % _PLACES * _PLACE.size
                process, _, looks_at = _PLACE.unpack_from(memory, place)
                if not process or looks_at + _PATIENCE < now:
                    break
        looks_at = now + min(_LOOK_BEHIND * ahead or _LOOK, _LOOK_LAST) + _LATE
        _PLACE.pack_into(memory, place, self._process, since, looks_at)
        return place

    def _leave(self, memory: mmap.mmap, place: int) -> None:
        with contextlib.suppress(ValueError):  # it was closed
            if _PLACE.unpack_from(memory, place)[0] == self._process:
                _PLACE.pack_into(memory, place, 0, 0, 0)

    def _sleep(self, own: Reservation, nanoseconds: int) -> None:
        """Sleep until another process rings, or for so long."""
        if list(self._line)[0] is not own or not sys.platform.startswith("linux"):
            time.sleep(min(nanoseconds, _MS) / 1e9)
            return
        bell = self._bell
        if bell is None:
            bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            bell.bind(_address(self._process))
            self._bell = bell
        bell.settimeout(nanoseconds / 1e9)
        with contextlib.suppress(TimeoutError):
            bell.recv(1)

    def _ring(self, memory: mmap.mmap, now: int) -> None:
        """Wake the first in line."""
        waiting = memory[_PLACES_AT:_PLACES_END]
        if waiting == _NOBODY:
            return
        if self._bell is None:
            self._bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._bell.bind(_address(self._process))
        for _, process in sorted(self._others(waiting, now)):
            try:
                self._bell.sendto(b"!", socket.MSG_DONTWAIT, _address(process))
            except OSError:
                continue
            return

    def hold(self, number: int) -> None:
        """Hold the reservation of an attempt for its commit, unless it is lost.

        Args:
            number: The attempt's; 0 is a commit without one, which holds the process's slice.
        """
        memory = self._memory
        if memory is None:
            return
        with contextlib.suppress(ValueError):
            process, held, until, began = _NOTE.unpack_from(memory, 0)
            now = time.monotonic_ns()
            if (process, held) == (self._process, number) and now < until:
                _NOTE.pack_into(memory, 0, process, number, now + _COMMIT, began)

    def release(self, number: int) -> None:
        """End the reservation of an attempt, unless it is lost."""
        memory = self._memory
        if memory is None:
            return
        with contextlib.suppress(ValueError):
            process, held, until, began = _NOTE.unpack_from(memory, 0)
            now = time.monotonic_ns()
            if (process, held) == (self._process, number) and now < until:
                stays = self._goes_on and now - began < _SLICE
                _NOTE.pack_into(memory, 0, process, 0, now + _GRACE if stays else now, began)
                if not stays:
                    self._ring(memory, now)
            self._used_at = time.monotonic_ns()  # after whoever was rung ran in its place


def _address(process: int) -> bytes:
    """Return the address of a process's bell: it has no file, and goes with the process."""
    return b"\0fdbqueue-%016x" % process
