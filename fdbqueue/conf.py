"""The ``FDBQUEUE`` setting: what may be in it, what is wrong with it, and what it makes.

The setting is read when it is needed, and read again after ``override_settings``.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import fdb.tuple
from django.conf import settings
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from fdbqueue.engines.protocols import Database
from fdbqueue.exceptions import ConfigurationError, QueueNotFound, message_of
from fdbqueue.service import (
    KINDS,
    MAX_RESPONSE_SECONDS,
    NAME,
    PATTERN,
    Catalog,
    Family,
    Queue,
    QueueSpec,
    SeveralQueues,
)
from fdbqueue.service.options import ALLOWED, Choice, Range, did_you_mean, misfits, names_for

T = TypeVar("T")

SETTING = "FDBQUEUE"
EMBEDDED = "fdbqueue.engines.embedded"
#: The engines of this package: what hints call each, and an example of its options.
ENGINES = {
    EMBEDDED: ("The embedded engine", "{'path': BASE_DIR / 'queues.sqlite3'}"),
    "fdbqueue.engines.foundationdb": (
        "FoundationDB",
        "{'cluster_file': '/etc/foundationdb/fdb.cluster'}",
    ),
}

_PREFIX = ("fdbqueue",)
#: What a Python without SQLite does not have.
_SQLITE = frozenset({"sqlite3", "_sqlite3"})
#: A project without the setting; one object, as a setting is.
_NOTHING: dict[str, Any] = {}
# What is wrong


@dataclass(frozen=True)
class OfClass:
    """The classes whose objects an option may be, and how that is said."""

    classes: tuple[type, ...]
    text: str

    def __str__(self) -> str:
        return self.text

    def __contains__(self, value: object) -> bool:
        if isinstance(value, bool) and bool not in self.classes:
            return object in self.classes  # a number is no bool
        return isinstance(value, self.classes)


#: Allows each value: what is wrong with it is looked for apart.
ANYTHING = OfClass((object,), "anything")


class Rule(NamedTuple):
    """What a key may be, and the id of the check that says what is wrong."""

    allowed: Any
    id: str


class SettingProblem(NamedTuple):
    """Something wrong, under the permanent id of its system check, and what to do about it."""

    id: str
    message: str
    hint: str


def wrong_in(
    what: str,
    given: Mapping[Any, Any],
    rules: Mapping[str, Rule],
    *,
    unknown_id: str,
    called: str = "key",
    listed: str = "The keys are",
) -> Iterator[tuple[Any, SettingProblem]]:
    """Yield the keys that are wrong, each with what is wrong: first those that no rule has.

    Args:
        what: What has the keys, to begin the message with.
        given: The keys and their values.
        rules: What each key may be.
        unknown_id: The id of the check that says which keys are not known.
        called: What a key is called.
        listed: What the list of all begins with.
    """
    for key in sorted(given.keys() - rules.keys(), key=str):
        hint = f"{did_you_mean(key, rules)}{listed} {', '.join(sorted(rules))}."
        yield key, SettingProblem(unknown_id, f"{what} has an unknown {called}, {key!r}.", hint)
    for key, (allowed, number) in rules.items():
        if key in given and given[key] not in allowed:
            message = f"{what} has the {key} {given[key]!r}."
            yield key, SettingProblem(number, message, f"It must be {allowed}.")


#: The most items of one request to the REST API: what MAX_LIMIT is by default, and at most.
MAX_ITEMS_A_REQUEST = 1_000
#: The keys of the setting, and those of API; what others are besides is looked for apart.
_RULES = {
    key: Rule(ANYTHING, "") for key in ("API", "ENGINE", "OPTIONS", "PAGES", "PREFIX", "QUEUES")
}
_API_RULES = {
    "AUTHORIZER": Rule(ANYTHING, ""),
    "IDEMPOTENCY_SECONDS": Rule(Range((int, float), 1, MAX_RESPONSE_SECONDS), "fdbqueue.E015"),
    "MAX_BODY_BYTES": Rule(Range(int, 1_000, 100_000_000), "fdbqueue.E015"),
    "MAX_LIMIT": Rule(Range(int, 1, MAX_ITEMS_A_REQUEST), "fdbqueue.E015"),
    "MAX_WAITING": Rule(Range(int, 0, 100_000), "fdbqueue.E015"),
    "MAX_WAITING_PER_USER": Rule(Range(int, 0, 100_000, none_is_valid=True), "fdbqueue.E015"),
    "MAX_WAIT_SECONDS": Rule(Range((int, float), 0, 3_600), "fdbqueue.E015"),
    "TIMEOUT_SECONDS": Rule(Range((int, float), 0.1, 3_600), "fdbqueue.E015"),
}
_PAGES_RULES = {"actions": Rule(OfClass((bool,), "True or False"), "fdbqueue.E018")}
#: What returns the queues that other apps add, by the name of the setting it reads.
_added: dict[str, Callable[[], Iterable[QueueSpec]]] = {}
#: What the setting says of a queue besides its options.
_PLACE = {"kind": Rule(ANYTHING, ""), "subspace": Rule(ANYTHING, "")}


#: Tells whether a user may do what a permission names to the queue of a name.
Authorizer = Callable[[Any, str, str | None], bool]


class SettingCache(Generic[T]):
    """Make an object from a setting once, and again when the setting is replaced.

    Args:
        read: Returns the current setting.
        make: Makes the object from the setting; called by one thread at a time.
    """

    def __init__(self, read: Callable[[], Any], make: Callable[[Any], T]) -> None:
        self._read = read
        self._make = make
        self._forget()
        os.register_at_fork(after_in_child=self._forget)
        #: Another one after each :meth:`clear`: what a thread has begun to make before is not kept.
        self._turn = object()
        #: The setting, the turn, and the object made from it in that, replaced together.
        self._entry: tuple[Any, object, T] | None = None

    def _forget(self) -> None:
        """Let no thread make the object, as in a forked process, which has one thread."""
        self._lock = threading.RLock()

    @property
    def cached(self) -> T | None:
        """The object made last, None after :meth:`clear`."""
        return (self._entry or (None, None, None))[2]

    def get(self) -> T:
        """Return the object of the current setting.

        Raises:
            Exception: Raised by ``make``, which is called again the next time.
        """
        setting = self._read()
        entry = self._entry
        if entry is not None and entry[0] is setting and entry[1] is self._turn:
            return entry[2]
        with self._lock:
            entry, turn = self._entry, self._turn
            if entry is None or entry[0] is not setting or entry[1] is not turn:
                entry = setting, turn, self._make(setting)
                self._entry = entry
            return entry[2]

    def clear(self) -> None:
        """Make a new object the next time, even if the setting is the same."""
        self._turn, self._entry = object(), None


@dataclass(frozen=True)
class ApiOptions:
    """What the setting says about the REST API.

    Attributes:
        authorizer: Decides who may do what, in place of the users' permissions.
        idempotency_seconds: How long the responses of requests with a key are kept.
        max_body_bytes: The longest body.
        max_limit: The most items that one request pushes, takes or shows.
        max_waiting: The most requests that wait for items in one process.
        max_waiting_per_user: The most of them that are one user's; None for no limit of its own.
        max_wait_seconds: The longest wait for items.
        timeout_seconds: How long the engine may take to serve a request.
    """

    authorizer: Authorizer | None = None
    idempotency_seconds: float = 86_400
    max_body_bytes: int = 5_000_000
    max_limit: int = MAX_ITEMS_A_REQUEST
    max_waiting: int = 16
    max_waiting_per_user: int | None = None
    max_wait_seconds: float = 20
    timeout_seconds: float = 5


@dataclass(frozen=True)
class PagesOptions:
    """What the setting says about the pages.

    Attributes:
        actions: Whether users who may manage a queue can do so on its pages.
    """

    actions: bool = False


def catalog() -> Catalog:
    """Return the catalog of the queues in the setting.

    Raises:
        ConfigurationError: The setting is wrong; it names the first problem.
    """
    return _catalog.get()


def queue(name: str) -> Queue:
    """Return the queue with a name.

    Raises:
        QueueNotFound: The setting has no such queue; the error names the one most like it. So
            this is for the project's own code. What serves others looks in :func:`catalog`.
        ConfigurationError: The setting is wrong.
    """
    return _with_hint(lambda found: found.queue(name))


def family(pattern: str) -> Family:
    """Return the family with a name, a pattern of the setting: to look at, and to pause.

    Cheap: nothing is read or opened before the family is used.

    Raises:
        QueueNotFound: The setting has no such pattern.
        ConfigurationError: The setting is wrong.
    """
    return catalog().family(pattern)


def several(names: Iterable[str], *, fair: bool | None = None) -> SeveralQueues:
    """Return several queues, to take from the first that has items, or from each in turn.

    Args:
        names: 1 to 1,000 names, and patterns of names such as ``mail-*``.
        fair: Whether to take from the queues in turn, instead of from the first that has items;
            None for True if one of the names is a pattern.

    Raises:
        QueueNotFound: The setting allows no queue of one of the names; as for :func:`queue`.
        InvalidInput: They are not 1 to 1,000 names.
        ConfigurationError: The setting is wrong.
    """
    return _with_hint(lambda found: found.several(names, fair=fair))


def _with_hint(find: Callable[[Catalog], T]) -> T:
    """Find something by a name, or raise an error that says which name is most like it."""
    found = catalog()
    try:
        return find(found)
    except QueueNotFound as error:
        closest = found.closest_name(error.context.get("name"))
        if closest is None:
            raise
        raise QueueNotFound(**error.context, did_you_mean=closest) from None


def add_queues(setting: str, specs: Callable[[], Iterable[QueueSpec]]) -> None:
    """Add the queues that another app's setting says; they come before this one's."""
    _added[setting] = specs
    setting_changed.disconnect(_forget)  # it is called after the app's own receiver
    setting_changed.connect(_forget)
    _catalog.clear()


def own_names() -> list[str]:
    """Return the names and patterns of queues that the setting itself has."""
    queues = read_setting().get("QUEUES")
    return list(queues) if isinstance(queues, Mapping) else []


def prefix() -> tuple[Any, ...]:
    """Return the tuple that all keys of the setting start with."""
    return tuple(_as_given().get("PREFIX", _PREFIX))


def database() -> Any:
    """Return the database of the setting's engine; it is opened when it is used.

    Raises:
        ConfigurationError: The setting is wrong.
    """
    return catalog().database


def api() -> ApiOptions:
    """Return what the setting says about the REST API.

    Raises:
        ConfigurationError: The setting is wrong.
    """
    return _api.get()


def pages() -> PagesOptions:
    """Return what the setting says about the pages.

    Raises:
        ConfigurationError: The setting is wrong.
    """
    return _pages.get()


def open_database() -> Any:
    """Return the database that the setting's engine opens, without a catalog.

    Raises:
        ConfigurationError: The setting is wrong.
    """
    return _open(_checked(_as_given()))


def _open(setting: Any) -> Any:
    engine = importlib.import_module(setting.get("ENGINE", EMBEDDED))
    return engine.open(**setting.get("OPTIONS", {}))


def _checked(setting: Any) -> Any:
    for problem in problems(setting):
        raise ConfigurationError(id=problem.id, problem=problem.message, hint=problem.hint)
    return setting


def read_setting() -> Mapping[str, Any]:
    """Return the setting; an empty one if it is not a dictionary, which E001 reports."""
    setting = _as_given()
    return setting if isinstance(setting, Mapping) else _NOTHING


def _as_given() -> Any:
    return getattr(settings, SETTING, _NOTHING)


def _make_api(setting: Any) -> ApiOptions:
    given = {key.lower(): value for key, value in _checked(setting).get("API", {}).items()}
    path = given.pop("authorizer", None)
    return ApiOptions(authorizer=None if path is None else import_string(path), **given)


def _make_pages(setting: Any) -> PagesOptions:
    return PagesOptions(**_checked(setting).get("PAGES", {}))


def _make_catalog(setting: Any) -> Catalog:
    database = _open(_checked(setting))
    own = [QueueSpec(name=name, **options) for name, options in setting.get("QUEUES", {}).items()]
    added = {spec.name: spec for specs in _added.values() for spec in specs()}
    specs = [*added.values(), *[spec for spec in own if spec.name not in added]]
    return Catalog(database, tuple(setting.get("PREFIX", _PREFIX)), specs)


_api = SettingCache(_as_given, _make_api)
_pages = SettingCache(_as_given, _make_pages)
_catalog = SettingCache(_as_given, _make_catalog)


def _forget(*, setting: str, **_: Any) -> None:
    """Read the setting again, and let go of the files of the one before."""
    if setting != SETTING and setting not in _added:
        return
    catalog = _catalog.cached
    _catalog.clear()
    _api.clear()
    _pages.clear()
    if catalog is None:
        return
    close = getattr(catalog.database, "close", None)
    if close is not None and not _is_kept(catalog.database):  # who still uses it opens it again
        close()


def _is_kept(database: Database) -> bool:
    """Tell whether the setting as it is now has the same database, or one around it."""
    try:
        new = _open(_as_given())
    except Exception:  # noqa: BLE001  # the setting or its engine is wrong: its use raises the error
        return False
    return innermost(new) is innermost(database)


def innermost(database: Database) -> Any:
    """Return the database that others may be around."""
    while (wrapped := getattr(database, "wrapped", None)) is not None:
        database = wrapped
    return database


setting_changed.connect(_forget)


def problems(setting: Any = None) -> Iterator[SettingProblem]:
    """Yield what is wrong with the setting, without connecting to anything.

    Args:
        setting: The value to look at; None for the project's own.
    """
    setting = _as_given() if setting is None else setting
    if not isinstance(setting, Mapping):
        yield SettingProblem(
            "fdbqueue.E001", f"{SETTING} is not a dictionary.", "See docs/settings.md."
        )
        return
    for _key, problem in wrong_in(SETTING, setting, _RULES, unknown_id="fdbqueue.E002"):
        yield problem
    yield from _engine_problems(setting)
    found = list(_prefix_problems(setting.get("PREFIX", ())))
    queues = setting.get("QUEUES", {})
    if isinstance(queues, Mapping):
        for name, options in queues.items():
            found.extend(_queue_problems(name, options))
    else:
        hint = "Map names to options."
        found.append(SettingProblem("fdbqueue.E005", "QUEUES is not a dictionary.", hint))
    yield from found or _overlaps(setting, queues)
    yield from _api_problems(setting.get("API", {}))
    pages_options = setting.get("PAGES", {})
    if not isinstance(pages_options, Mapping):
        yield SettingProblem("fdbqueue.E018", "PAGES is not a dictionary.", "See docs/settings.md.")
        return
    for _key, problem in wrong_in("PAGES", pages_options, _PAGES_RULES, unknown_id="fdbqueue.E018"):
        yield problem


def _engine_problems(setting: Mapping[str, Any]) -> Iterator[SettingProblem]:
    path, options = setting.get("ENGINE", EMBEDDED), setting.get("OPTIONS", {})
    try:
        engine = importlib.import_module(path)
    except Exception as error:  # noqa: BLE001  # a project's own module may raise anything
        message = f"ENGINE {path!r} cannot be imported: {message_of(error)}"
        yield SettingProblem("fdbqueue.E003", message, _import_hint(path, error))
        return
    if not callable(getattr(engine, "open", None)):
        message, hint = f"ENGINE {path!r} has no function open().", " or ".join(map(repr, ENGINES))
        yield SettingProblem("fdbqueue.E003", message, f"Use {hint}.")
        return
    try:
        engine.open(**options)
    except Exception as error:  # noqa: BLE001  # a project's own engine may raise anything
        known = [ENGINES[path]] if path in ENGINES else ENGINES.values()
        hint = ", ".join(f"{engine} takes {example}" for engine, example in known)
        message = f"The engine refuses OPTIONS: {message_of(error)}"
        yield SettingProblem("fdbqueue.E004", message, f"{_meant_options(engine, options)}{hint}.")


def _import_hint(path: Any, error: Exception) -> str:
    """Return what to do about an engine that cannot be imported: never to use that one."""
    others = " or ".join(repr(one) for one in ENGINES if one != path)
    if isinstance(error, ImportError) and error.name in _SQLITE:
        return f"Use a Python that was built with SQLite, or {others}."
    return f"{did_you_mean(path, ENGINES) if path not in ENGINES else ''}Use {others}."


def _meant_options(engine: Any, options: Any) -> str:
    """Return a question for each option that the engine's ``open()`` does not have."""
    try:
        names = inspect.signature(engine.open).parameters.keys()
    except (TypeError, ValueError):  # it is written in C
        return ""
    wrong = options.keys() - names if isinstance(options, Mapping) else ()
    return "".join(did_you_mean(key, names) for key in sorted(wrong, key=str))


def _prefix_problems(prefix: Any) -> Iterator[SettingProblem]:
    if not _is_tuple(prefix):
        message = f"PREFIX {prefix!r} is not a tuple that FoundationDB can encode."
        hint = "Use a tuple of strings, for instance ('fdbqueue',)."
        yield SettingProblem("fdbqueue.E006", message, hint)


def _queue_problems(name: Any, options: Any) -> Iterator[SettingProblem]:
    if not isinstance(name, str) or not (NAME.fullmatch(name) or PATTERN.fullmatch(name)):
        yield SettingProblem(
            "fdbqueue.E007",
            f"{name!r} is not the name of a queue.",
            "A name is 1 to 100 letters, digits, '_', '-' and '.', the first a letter or "
            "digit; a '*' in it makes it a pattern.",
        )
    kind = options.get("kind") if isinstance(options, Mapping) else None
    if not isinstance(kind, str) or kind not in KINDS:
        yield SettingProblem(
            "fdbqueue.E008",
            f"Queue {name!r} has no valid kind.",
            f"Give it {' or '.join(str({'kind': each}) for each in KINDS)}.",
        )
        return
    wrong = dict(
        wrong_in(
            f"Queue {name!r}",
            options,
            _PLACE | {option: _rule(option) for option in ALLOWED if option in names_for(kind)},
            unknown_id="fdbqueue.E009",
            called="option",
            listed=f"The options of a {kind} queue are",
        )
    )
    yield from wrong.values()
    for option, fits in misfits({key: options[key] for key in options if key not in wrong}):
        message = f"Queue {name!r} has the {option} {options[option]!r}."
        yield SettingProblem("fdbqueue.E013", message, f"There may be {fits}.")
    subspace = options.get("subspace")
    if subspace is not None and (not _is_tuple(subspace) or not subspace or "*" in str(name)):
        yield SettingProblem(
            "fdbqueue.E011",
            f"Queue {name!r} cannot be in the subspace {subspace!r}.",
            "Use a tuple that is not empty, and no pattern as the name.",
        )


def _rule(option: str) -> Rule:
    allowed = ALLOWED[option]
    return Rule(allowed, "fdbqueue.E010" if isinstance(allowed, Choice) else "fdbqueue.E013")


def _overlaps(setting: Mapping[str, Any], queues: Mapping[str, Any]) -> Iterator[SettingProblem]:
    prefix = tuple(setting.get("PREFIX", _PREFIX))
    places = [
        (fdb.tuple.pack((*prefix, "queue")), "the queues under PREFIX"),
        (fdb.tuple.pack((*prefix, "receipt")), "the receipts under PREFIX"),
        (fdb.tuple.pack((*prefix, "tasks")), "the tasks under PREFIX"),
    ]
    for name, options in queues.items():
        if options.get("subspace") is not None:
            places.append((fdb.tuple.pack(tuple(options["subspace"])), f"queue {name!r}"))
    places.sort()
    for (first, one), (second, other) in itertools.pairwise(places):
        if second.startswith(first):
            yield SettingProblem(
                "fdbqueue.E012",
                f"The subspaces of {one} and {other} overlap.",
                "Give each queue a subspace of its own, none the beginning of another.",
            )


def _api_problems(options: Any) -> Iterator[SettingProblem]:
    if not isinstance(options, Mapping):
        yield SettingProblem("fdbqueue.E014", "API is not a dictionary.", "See docs/settings.md.")
        return
    for _key, problem in wrong_in("API", options, _API_RULES, unknown_id="fdbqueue.E014"):
        yield problem
    path = options.get("AUTHORIZER")
    if path is None:
        return
    try:
        found = import_string(str(path))
    except Exception as error:  # noqa: BLE001  # a project's own module may raise anything
        reason = f"cannot be imported: {message_of(error)}"
    else:
        if callable(found):
            return
        reason = "cannot be called."
    hint = "Name a function of a user, a permission and a queue's name."
    yield SettingProblem("fdbqueue.E016", f"AUTHORIZER {path!r} {reason}", hint)


def _is_tuple(value: Any) -> bool:
    try:
        fdb.tuple.pack(tuple(value))
    except Exception:  # noqa: BLE001  # the tuple layer raises whatever foreign values make it
        return False
    return isinstance(value, tuple | list)
