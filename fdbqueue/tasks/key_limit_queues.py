"""Limits by key: the queues of limited tasks, and the rows that say their limits.

    @task(concurrency_key="{customer}", max_running=2, rate="100/m")
    def export(customer, month): ...

At most two exports of a customer run at a time, and at most a hundred begin in a minute, in all
processes together. A task over its limit waits in its place. Without a ``concurrency_key`` all
tasks of the function have one limit together; a call whose key is None has none.

Where they are
    A queue's limited tasks are in queues of their own, one for each function and key, whose names
    say so: ``limited.QUEUE.FUNCTION.KEY``, with a digest of the function's path, and the key in
    the characters that names may have (:func:`member_name`). They are members of one family for
    each queue of the backend, ``limited.QUEUE.*``. The limits are those of the member's queue
    (:mod:`fdbqueue.service.consume.allowance`): ``max_running`` is its ``max_leased``, because
    what runs is leased. So each transaction that leases reads what decides it, and depends on it.
    Records, results, pages and commands know a task's queue by its record, as ever; what is
    counted and listed of ended tasks is under the name of QUEUE. Who may view QUEUE may view the
    members, too (:mod:`fdbqueue.access`).

Who says the limits
    The code. They are in one row for each queue and function, beside the records under
    ``("limits", "limited.QUEUE.FUNCTION")``, which leases read; so a worker need not know the
    function. Each enqueue of a limited task reads the row, and writes it if the code says otherwise
    by now; a worker does the same when it first runs a task of the function. So if old and new code
    are at work side by side, the row has what was said last, and never more run than the higher
    limit allows. What runs when a limit is lowered runs on, and nothing begins until few enough are
    left. Keys that wait for a moment are looked at again at once, a thousand of them: others at
    that moment.

Who takes them
    A worker of QUEUE takes from it as ever, and beside it from the family, by turns
    (:mod:`fdbqueue.service.tools.alternating`): neither can keep the other back.
    Keys take turns, too (:mod:`fdbqueue.service.consume.ring`); within a key the order is that of
    any queue: the highest priority first, of those that may run by their ``run_after``.
    Limited tasks of several queues take turns, whatever the order of the queues.

What counts
    A lease. So a task counts as running while it waits for a thread for a moment (``source.py``),
    and one whose worker was killed until its lease expires. Each attempt takes a token of the rate;
    one that is given back before it began gives it back, and so does the end of a task that has
    expired. A failed attempt that pauses for its
    ``backoff`` does not count, nor what waits for its ``run_after``; dead letters neither.

What is left behind by

- *a crash or a kill*: leases, which count until they expire; then the task runs again, within its
  limit. There is no count that anybody must put right;
- *an end, an abort, a timeout, a requeue*: the lease has ended, in the commit that also writes the
  member's row of the index, so that the next of its key is found at once;
- *a limit that is gone from the code*: what is in members runs by the row, the rest has no limit;
- *a row that is gone or cannot be read*: one task of a key at a time, until the next enqueue;
- *a crash of an enqueue that writes the row*: the row, which is written before the task, or with
  it in a transaction of the caller's. If it comes right behind the row's commit, a key whose moment
  was noted just before waits for that.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import json
import re
from typing import Any, NamedTuple

from django.utils.translation import gettext
from fdb.subspace_impl import Subspace

from fdbqueue.columns.text import visible
from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import text_of_error
from fdbqueue.service import NAME, Catalog, Queue, run
from fdbqueue.service.storage.item_keys import packed
from fdbqueue.tasks.compat import InvalidTask
from fdbqueue.tasks.options import FdbQueueTask
from fdbqueue.tasks.results import task_at

#: How the names of the queues begin in which limited tasks are.
LIMITED = "limited."
#: The longest key.
MAX_KEY_CHARACTERS = 200
#: What stands for no key: no key becomes that.
_NO_KEY = "_"
_DIGEST_BYTES = 5
_MAX_NAME = 100
#: What is left of a name for the key, at least: a part of it, and a digest.
_LEAST_KEY, _KEY_DIGEST_BYTES = 24, 8
#: The longest name of a queue, with its backend's prefix, whose tasks may have limits.
MAX_QUEUE_NAME = _MAX_NAME - len(LIMITED) - 2 * _DIGEST_BYTES - 2 - _LEAST_KEY
_PLAIN = re.compile(r"[A-Za-z0-9-]")
_ESCAPED = re.compile(r"_([0-9a-f]{2})")
#: What a task without limits says of them.
NO_LIMITS: dict[str, Any] = {
    "concurrency_key": None,
    "max_running": None,
    "rate": None,
    "burst": None,
}
#: How many keys are looked at again when limits change.
_LOOKED_AT_AGAIN = 1_000


class MemberName(NamedTuple):
    """What the name of a member says.

    Attributes:
        queue: The name of the queue whose tasks are in it, in the catalog.
        function: The beginning of the name, up to the function: all its keys have that.
        key: The key, or a part of a long one; None for the whole function.
    """

    queue: str
    function: str
    key: str | None


class KeyLimit(NamedTuple):
    """The limits of a function, as the row has them."""

    max_running: int | None = None
    rate: str | None = None
    burst: int | None = None


class Limited(NamedTuple):
    """Where a limited task goes.

    Attributes:
        queue: The name of the member.
        row: The row that says its limits.
    """

    queue: str
    row: bytes


def home_of(name: str) -> str:
    """Return the queue of whose tasks some are in a queue: itself, unless it is a member."""
    return name[len(LIMITED) :].rsplit(".", 2)[0] if name.startswith(LIMITED) else name


def label_of(name: str) -> str:
    """Return what readers call a member: its home and its key; or the family of a home."""
    if name.endswith("*"):
        home = name.removeprefix(LIMITED).removesuffix("*").removesuffix(".")
        return gettext("%(queue)s: limited tasks") % {"queue": home}
    found = parsed(name)
    if found is None:
        return name
    return f"{found.queue}: {visible(found.key or found.function.rpartition('.')[2])}"


def parsed(name: str) -> MemberName | None:
    """Return what the name of a queue says, None if it is no member."""
    parts = name[len(LIMITED) :].rsplit(".", 2) if name.startswith(LIMITED) else []
    if len(parts) != 3:
        return None
    queue, _, key = parts
    function = without_key(name)
    if key == _NO_KEY:
        return MemberName(queue, function, None)
    shown, is_long, _ = key.partition("__")
    data = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), shown).encode("latin-1", "replace")
    return MemberName(queue, function, data.decode(errors="replace") + ("…" if is_long else ""))


def family_of(queue: str) -> str:
    """Return the family of the limited tasks of a queue, or of all that fit a pattern."""
    return f"{LIMITED}{queue}.*" if not queue.endswith("*") else f"{LIMITED}{queue}"


def member_name(queue: str, path: str, key: str | None) -> str:
    """Return the name of the queue of a function's tasks with a key.

    A letter, a digit or a hyphen of the key stands for itself; any other character for the bytes of
    its UTF-8, as ``_`` and two digits each. What is too long has its beginning, ``__``, and a
    digest. So two keys never have one name.
    """
    start = names_begin(queue, path)
    if key is None:
        return start + _NO_KEY
    text = "".join([one if _PLAIN.match(one) else _escaped(one) for one in key])
    room = _MAX_NAME - len(start)
    if len(text) > room:
        data = key.encode(errors="surrogatepass")
        known = hashlib.blake2b(data, digest_size=_KEY_DIGEST_BYTES).hexdigest()
        kept = re.sub(r"_[0-9a-f]?$", "", text[: room - len(known) - 2])
        text = f"{kept}__{known}"
    return start + text


def without_key(member: str) -> str:
    """Return the part of a member's name before its key, which all keys of its function share."""
    return member.rpartition(".")[0]


def names_begin(queue: str, path: str) -> str:
    """Return how the names of the queues of a function's tasks begin."""
    digest = hashlib.blake2b(path.encode(errors="replace"), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{LIMITED}{queue}.{digest}."


def _escaped(character: str) -> str:
    return "".join([f"_{byte:02x}" for byte in character.encode(errors="surrogatepass")])


def limits_key(prefix: tuple[Any, ...], member: str) -> bytes:
    """Return the key of the row that has a member's limits."""
    return _rows(prefix) + packed(without_key(member))


@functools.lru_cache(maxsize=100)
def _rows(prefix: tuple[Any, ...]) -> bytes:
    key: bytes = Subspace((*prefix, "tasks", "limits")).key()
    return key


# What tasks say


def check(task: FdbQueueTask[..., Any], queue: str) -> None:
    """Check that the limits of a task fit together; each is right by itself.

    Args:
        task: The task.
        queue: The name of its queue in the catalog.

    Raises:
        InvalidTask: Something is wrong with them.
    """
    key = task.concurrency_key
    if task.burst is not None and task.rate is None:
        raise InvalidTask("burst is for a task that has a rate.")
    if key is not None and not is_limited(task):
        raise InvalidTask("A concurrency_key is for a task that has max_running or a rate.")
    if not (key is None or isinstance(key, str) or callable(key)):
        text = "concurrency_key may be a text, or a function of the task's arguments"
        raise InvalidTask(f"{text}; not {key!r}.")
    if isinstance(key, str) and "{" not in key:
        _check_key(key)
    if len(queue) > MAX_QUEUE_NAME or not NAME.fullmatch(queue):
        text = f"The queue {queue!r} has too long a name for tasks with limits"
        raise InvalidTask(f"{text}: {MAX_QUEUE_NAME} characters at most.")


def is_limited(task: FdbQueueTask[..., Any]) -> bool:
    """Tell whether a task has limits."""
    return task.max_running is not None or task.rate is not None


def key_of(task: FdbQueueTask[..., Any], args: Any, kwargs: Any) -> tuple[bool, str | None]:
    """Tell whether a call has limits, and return its key, None for the whole function.

    Raises:
        InvalidTask: Its key is no text, or has no or too many characters.
        TypeError: The function does not take these arguments.
    """
    key = task.concurrency_key
    if key is None:
        return True, None
    if callable(key):
        found = key(*args, **kwargs)
    else:
        found = key if "{" not in key else _formatted(task, key, args, kwargs)
    if found is None:
        return False, None
    _check_key(found)
    return True, found


def _formatted(task: FdbQueueTask[..., Any], key: str, args: Any, kwargs: Any) -> str:
    """Return a key with the arguments of a call in it, by their names or by their numbers."""
    given = (None, *args) if task.takes_context else args
    bound = inspect.signature(task.func).bind(*given, **kwargs)
    bound.apply_defaults()
    try:
        return key.format(*args, **{**bound.arguments, **bound.arguments.get("kwargs", {})})
    except (AttributeError, IndexError, KeyError, ValueError) as error:
        text = f"The concurrency_key {key!r} does not fit the arguments of the task"
        raise InvalidTask(f"{text}: {text_of_error(error)}") from error


def _check_key(key: Any) -> None:
    if not isinstance(key, str) or not 1 <= len(key) <= MAX_KEY_CHARACTERS:
        text = f"A concurrency_key is a text of 1 to {MAX_KEY_CHARACTERS} characters"
        if isinstance(key, str) and key:
            raise InvalidTask(f"{text}; not of {len(key):,}.")
        shown = repr(key) if len(repr(key)) <= MAX_KEY_CHARACTERS else type(key).__name__
        raise InvalidTask(f"{text}; not {shown}.")


def row_of(task: FdbQueueTask[..., Any]) -> bytes:
    """Return the row with the limits of a task."""
    return _row(task.module_path, task.max_running, task.rate, task.burst)


@functools.lru_cache(maxsize=1_000)
def _row(path: str, max_running: int | None, rate: str | None, burst: int | None) -> bytes:
    row = {"max_leased": max_running, "rate": rate, "burst": burst, "task": path}
    return json.dumps(row).encode()


def where(task: FdbQueueTask[..., Any], queue: str, args: Any, kwargs: Any) -> Limited | None:
    """Return where a call of a task with limits goes; None if it has none.

    Args:
        task: The task.
        queue: The name of its queue in the catalog.
        args, kwargs: The arguments.

    Raises:
        InvalidTask: Its key is wrong.
    """
    has_limit, key = key_of(task, args, kwargs)
    if not has_limit:
        return None
    return Limited(member_name(queue, task.module_path, key), row_of(task))


def needs_arguments(task: FdbQueueTask[..., Any]) -> bool:
    """Tell whether the key of a task with limits depends on the arguments of a call."""
    key = task.concurrency_key
    return callable(key) or (key is not None and "{" in key)


def later_key(task: FdbQueueTask[..., Any]) -> str | None:
    """Return what makes the key once the arguments of a call are complete; None for the code's.

    Raises:
        InvalidTask: It is a function that the code of the task does not name.
    """
    key = task.concurrency_key
    if isinstance(key, str):
        return key
    code: Any = task_at(task.module_path)
    if code.concurrency_key != key:
        text = "A concurrency_key that using() gives as a function cannot be kept until its task is"
        raise InvalidTask(f"{text} enqueued: give a text, or have the task itself name it.")
    return None


def where_given(path: str, key: str | None, queue: str, args: Any, kwargs: Any) -> Limited | None:
    """Return where a call goes whose arguments are complete, given what :func:`later_key` returned.

    Raises:
        TaskUnknown: The code of the task is gone, or is not there yet.
        Exception: As :func:`where`, and what the function of the key raises.
    """
    task = task_at(path)
    if not isinstance(task, FdbQueueTask) or not is_limited(task):
        return None  # its limits are gone from the code
    if key is not None:
        task = dataclasses.replace(task, concurrency_key=key)
    return where(task, queue, args, kwargs)


# The row


def store_limits(catalog: Catalog, prefix: tuple[Any, ...], limited: Limited) -> None:
    """Have the row say the limits of a function as the code has them, before a task is enqueued.

    Keys that wait for a moment are looked at again behind the commit too: by then every transaction
    that noted one by the old limits has been committed, or conflicts.
    """
    key = limits_key(prefix, limited.queue)
    if run(catalog.database, lambda tr: _says(tr, key, limited), read_only=True):
        return
    run(catalog.database, lambda tr: declare(tr, catalog, prefix, limited, strictly=False))
    run(catalog.database, lambda tr: _look_again(tr, catalog, limited))


def declare(
    tr: Transaction,
    catalog: Catalog,
    prefix: tuple[Any, ...],
    limited: Limited,
    *,
    strictly: bool = True,
) -> None:
    """Have the row say the limits of a function, in a transaction.

    Args:
        tr: The transaction.
        catalog: Where the queues are.
        prefix: The tuple that all keys of the setting start with.
        limited: The limits, and a queue that has them.
        strictly: Whether to depend on which keys wait for a moment, all of which are looked at
            again: a thousand at most.
    """
    key = limits_key(prefix, limited.queue)
    if _says(tr, key, limited):
        return
    tr.add_read_conflict_key(key)
    tr[key] = limited.row
    _look_again(tr, catalog, limited, strictly=strictly)


def _says(tr: Transaction, key: bytes, limited: Limited) -> bool:
    found = tr.snapshot[key]
    return found.present() and bytes(found) == limited.row


def _look_again(
    tr: Transaction, catalog: Catalog, limited: Limited, *, strictly: bool = False
) -> None:
    start = without_key(limited.queue) + "."
    family = catalog.family(catalog.spec(limited.queue).name)
    family.look_again(tr, _LOOKED_AT_AGAIN, lambda name: name.startswith(start), strictly=strictly)


# What is shown


class KeyState(NamedTuple):
    """The limits of a key, and what keeps its tasks back.

    Attributes:
        key: The key, or its beginning; None for the whole function.
        limit: The limits.
        running: How many tasks of the key run.
        held_by: ``"max_running"`` or ``"rate"``, if that lets none begin now; else empty.
    """

    key: str | None
    limit: KeyLimit
    running: int
    held_by: str


def key_state(queue: Queue, prefix: tuple[Any, ...]) -> KeyState | None:
    """Read the limits of the tasks in a queue, None if it has none of tasks with limits."""
    name = parsed(queue.name)
    if name is None:
        return None
    key = limits_key(prefix, queue.name)

    def read(tr: Transaction) -> KeyState:
        row, held = tr.snapshot[key], queue.overview.begin_held(tr)
        running = queue.counts(tr=tr).leased
        held_by = {"max_leased": "max_running"}.get(found := held(), found)
        limit = limit_in(bytes(row) if row.present() else b"")
        return KeyState(name.key, limit, running, held_by)

    return run(queue.database, read, read_only=True)


def function_in(row: bytes) -> str:
    """Return the path of the function that a row is of; empty without one."""
    try:
        return str(json.loads(row).get("task") or "")
    except (AttributeError, ValueError):
        return ""


def limit_in(row: bytes) -> KeyLimit:
    """Return the limits that a row says, or that are in force without one."""
    try:
        found = json.loads(row)
        return KeyLimit(found.get("max_leased"), found.get("rate"), found.get("burst"))
    except (AttributeError, ValueError):
        return KeyLimit(1)
