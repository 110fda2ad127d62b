"""What a task notes while it runs: its progress, and its metadata.

The task changes its :class:`Notes` in memory alone, from any thread, and never waits for the
engine. The record of the task gets them

1. *within about a second of a change*, by :class:`NotesWriter`, in the same transaction that
   extends the lease: so a worker whose lease is lost writes nothing of them;
2. *with each extension of the lease*;
3. *in the commit that ends the attempt*, whatever came before: a task that takes less than a second
   costs no other commit.

Metadata belongs to the task: the next attempt begins with what the last one had written, and the
final record has it. Progress belongs to the attempt: the next one begins without. A redrive, which
lets a task run as if it had never been tried, leaves neither.

What is left behind by

- *a crash, a kill*: what was written last, a second before at most; an engine that is away makes
  that longer, and the writer tries again each second;
- *a value that is no JSON, or too much of it*: the assignment raises, and what was there stays;
- *a pause longer than the lease*: the extension writes nothing, and the attempt that holds the
  lease by then has its own;
- *a fork*: the child is no worker; what it notes is in its own memory, and is never written;
- *a thread that the task leaves behind*: behind the end of the attempt each change raises
  ``RuntimeError``, which one lock decides.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, NamedTuple

from fdbqueue.logs import get_logger
from fdbqueue.own_threads import OwnThread, WorkerThreads
from fdbqueue.tasks.compat import normalize_json
from fdbqueue.tasks.exceptions import MetadataTooLarge
from fdbqueue.tasks.records import encoded

logger = get_logger(__name__)

#: The most metadata that a task may have, as JSON in UTF-8.
MAX_METADATA_BYTES = 10_000
#: The fields of a record that have notes.
NOTED = ("metadata", "progress")
#: How long a change waits for others before it is written.
_WRITE_SECONDS = 1.0
#: How long the thread that writes waits for a change before it ends.
_IDLE_SECONDS = 5.0


class Progress(NamedTuple):
    """How far a task has come.

    Attributes:
        done: How much is done.
        of: How much that is of; None if the task does not know.
    """

    done: float
    of: float | None = None

    @property
    def share(self) -> float | None:
        """Which share is done, 0 to 1; None if that is not known."""
        if not self.of:
            return None
        return 1.0 if self.done >= self.of else self.done / self.of


class Notes(MutableMapping[str, Any]):
    """What one attempt notes: the metadata of its task, as a dictionary, and its progress.

    What is read of it is a copy: to change a list in it, assign the changed one.

    Args:
        metadata: What the attempt before had noted.
        progress: How far the attempt has come; None if it has not said so.

    Attributes:
        on_change: Called after each change; returns at once.
        changes: How often something was changed.
    """

    def __init__(
        self, metadata: dict[str, Any] | None = None, progress: Progress | None = None
    ) -> None:
        self._metadata = metadata or {}
        self.progress = progress
        self.changes = self._written = 0
        self.on_change: Callable[[], None] | None = None
        self._is_over = False
        self._mutex = threading.Lock()

    def set_progress(self, done: float, of: float | None) -> None:
        """Set how far the attempt has come.

        Raises:
            TypeError: One is no number.
            ValueError: One is below 0, or no float is as large.
            RuntimeError: The attempt has ended.
        """
        for number in (done, 0 if of is None else of):
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise TypeError(f"A progress is a number, not {type(number).__name__}.")
            if not 0 <= number <= sys.float_info.max:  # not shown: Python shows no long ones
                raise ValueError("A progress is a number from 0 to the largest of a float.")
        with self._mutex:
            self._count_change()
            self.progress = Progress(done, of)
        self._call_on_change()

    def _count_change(self) -> None:
        """Count a change; call it with the lock held, before the change."""
        if self._is_over:
            raise RuntimeError("The attempt has ended: what a task notes now is never written.")
        self.changes += 1

    def _call_on_change(self) -> None:
        if self.on_change is not None:
            self.on_change()

    def close(self) -> None:
        """Let nothing be changed any more."""
        with self._mutex:
            self._is_over = True

    # Metadata

    def __getitem__(self, name: str) -> Any:
        return normalize_json(self._metadata[name])

    def __setitem__(self, name: str, value: Any) -> None:
        """Set a part of the metadata.

        Raises:
            TypeError: The name is no text, or the value no JSON; ``ValueError`` says that of bytes,
                and of numbers such as NaN.
            MetadataTooLarge: The metadata would be over 10,000 bytes as JSON; nothing was changed.
            RuntimeError: The attempt has ended.
        """
        if not isinstance(name, str):
            raise TypeError(f"The names in metadata are texts, not {type(name).__name__}.")
        found = json.loads(json.dumps(normalize_json(value), allow_nan=False))
        with self._mutex:
            changed = {**self._metadata, name: found}
            size = len(encoded(changed))
            if size > MAX_METADATA_BYTES:
                limit = {"size_bytes": size, "limit_bytes": MAX_METADATA_BYTES}
                raise MetadataTooLarge(name=name[:100], **limit)
            self._count_change()
            self._metadata = changed
        self._call_on_change()

    def __delitem__(self, name: str) -> None:
        with self._mutex:
            changed = dict(self._metadata)
            del changed[name]
            self._count_change()
            self._metadata = changed
        self._call_on_change()

    def __iter__(self) -> Iterator[str]:
        return iter(self._metadata)

    def __len__(self) -> int:
        return len(self._metadata)

    def __repr__(self) -> str:
        return repr(self._metadata)

    # What is written

    @property
    def is_changed(self) -> bool:
        """Whether something has changed since it was written."""
        return self.changes != self._written

    def stored(self) -> tuple[dict[str, Any], int]:
        """Return the notes as a record has them, and how many changes these are."""
        with self._mutex:
            return as_stored(self._metadata, self.progress), self.changes

    def note_written(self, changes: int) -> None:
        """Note that all changes up to one are written."""
        self._written = max(self._written, changes)


def as_stored(metadata: dict[str, Any] | None, progress: Progress | None) -> dict[str, Any]:
    """Return metadata and progress as a record has them: only what there is."""
    found: dict[str, Any] = {"metadata": metadata} if metadata else {}
    return found if progress is None else {**found, "progress": list(progress)}


def progress_in(record: dict[str, Any]) -> Progress | None:
    """Return the progress that a record has, None for none."""
    found = record.get("progress")
    return None if found is None else Progress(*found)


class NotesWriter:
    """Have what tasks of a worker note written, about a second after a change.

    There is a thread while there are changes, so tasks that note nothing cost none.

    Args:
        write: Writes all that has changed; tells whether something is left for the next time.
        threads: The worker's, of which that is one.
    """

    def __init__(self, write: Callable[[], bool], threads: WorkerThreads | None = None) -> None:
        self._write = write
        self._threads = threads
        self._process = os.getpid()
        #: Under ``_mutex``: whether the thread is at work, and whether there was a change.
        self._is_at_work = False
        self._mutex = threading.Lock()
        self._changed = threading.Event()

    def note_change(self) -> None:
        """Have a change written; returns at once, and does nothing in a forked process."""
        if self._changed.is_set() or os.getpid() != self._process:
            return
        with self._mutex:
            self._changed.set()
            if self._is_at_work:
                return
            self._is_at_work = True
        OwnThread(self._run, name="fdbqueue-tasks-notes", owner=self._threads).start()

    def _run(self) -> None:
        pause = threading.Event()
        while self._goes_on():
            pause.wait(_WRITE_SECONDS)
            self._changed.clear()
            try:
                is_left = self._write()
            except Exception as error:  # noqa: BLE001  # tried again a second later
                facts = {"error": type(error).__name__}
                logger.warning("what tasks noted is written later", extra=facts)
                is_left = True
            if is_left:
                self._changed.set()

    def _goes_on(self) -> bool:
        """Wait for a change; end the thread if there is none for a while."""
        if self._changed.wait(_IDLE_SECONDS):
            return True
        with self._mutex:
            self._is_at_work = self._changed.is_set()
            return self._is_at_work
