"""The options of a queue: their names, defaults, allowed values and meaning.

An option is added here, to :data:`ALLOWED`, :class:`QueueOptions` and :class:`QueueKeywords`; to
:func:`fdbqueue.service.assembly.assemble`, which hands it to the part that needs it; and to
``docs/settings.md``. The setting, the system checks, REST, its schema and the page of a queue
read it from here.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypedDict

from fdbqueue.exceptions import ConfigurationError
from fdbqueue.service.codecs import CODECS, Codec
from fdbqueue.service.sizes import CHUNK_BYTES, MAX_SHARDS, MAX_VALUE_BYTES


def gettext_noop(text: str) -> str:
    """Mark a text for translation; the pages translate it."""
    return text


#: A longer value takes several keys, of which the recipes' readers see only the first.
DEFAULT_MAX_VALUE_BYTES = CHUNK_BYTES


@dataclasses.dataclass(frozen=True)
class Choice:
    """The texts that an option may be, and what pages call the option."""

    texts: tuple[str, ...]
    label: str = ""

    def __str__(self) -> str:
        return ", ".join(self.texts)

    def __contains__(self, value: object) -> bool:
        return value in self.texts


@dataclasses.dataclass(frozen=True)
class Range:
    """The numbers that an option may be, and what pages call the option; None is no limit."""

    kind: type | tuple[type, ...]
    least: float
    most: float
    label: str = ""
    none_is_valid: bool = False

    def __str__(self) -> str:
        number = "whole number" if self.kind is int else "number"
        text = f"a {number} from {self.least:,} to {self.most:,}"
        return f"None, or {text}" if self.none_is_valid else text

    def __contains__(self, value: object) -> bool:
        if value is None:
            return self.none_is_valid
        is_number = isinstance(value, self.kind) and not isinstance(value, bool)
        return is_number and self.least <= value <= self.most  # type: ignore[operator]  # it is a number


#: The most items that a rate, a burst or a limit of leases may be.
_MAX_ITEMS = 1_000_000
#: How many microseconds the periods last that a rate may name, by the first letter.
_PERIODS_US = {"s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_RATE = re.compile(r"([0-9]{1,7})/(s|sec|second|m|min|minute|h|hour|d|day)")


class Rate(NamedTuple):
    """A rate: so many items in a period of so many microseconds."""

    items: int
    period_us: int

    @property
    def burst(self) -> int:
        """How many items may be taken at once by default: as many as in one second."""
        return max(1, self.items * _PERIODS_US["s"] // self.period_us)

    @property
    def items_a_day(self) -> int:
        """How many items are taken in a day."""
        return self.items * (_PERIODS_US["d"] // self.period_us)


def parse_rate(text: object) -> Rate | None:
    """Return the rate that a text names, such as ``"100/m"``; None if it names none."""
    found = _RATE.fullmatch(text) if isinstance(text, str) else None
    if found is None or not 1 <= int(found[1]) <= _MAX_ITEMS:
        return None
    return Rate(int(found[1]), _PERIODS_US[found[2][0]])


@dataclasses.dataclass(frozen=True)
class RateText:
    """The texts that name a rate, and what pages call the option; None is no limit."""

    label: str = ""

    def __str__(self) -> str:
        return (
            f'None, or a text such as "100/m": 1 to {_MAX_ITEMS:,} items a second (s), minute '
            "(m), hour (h) or day (d)"
        )

    def __contains__(self, value: object) -> bool:
        return value is None or parse_rate(value) is not None


#: What each option may be. The codec may also be an object, if no setting names it.
ALLOWED: Mapping[str, Choice | Range | RateText] = {
    "codec": Choice(tuple(CODECS), gettext_noop("Codec")),
    "priority_type": Choice(("int", "float"), gettext_noop("Priority type")),
    "order": Choice(("count", "commit"), gettext_noop("Push order")),
    "shards": Range(int, 2, MAX_SHARDS, gettext_noop("Shards"), none_is_valid=True),
    "choices": Range(int, 1, MAX_SHARDS, gettext_noop("Choices"), none_is_valid=True),
    "handoff_timeout_seconds": Range((int, float), 0.1, 86_400, gettext_noop("Handoff timeout")),
    "max_attempts": Range(int, 1, 1_000_000, gettext_noop("Maximum attempts"), none_is_valid=True),
    "max_value_bytes": Range(int, 1, MAX_VALUE_BYTES, gettext_noop("Maximum value size")),
    "max_leased": Range(
        int, 1, _MAX_ITEMS, gettext_noop("Maximum leased items"), none_is_valid=True
    ),
    "rate": RateText(gettext_noop("Rate of takes")),
    "burst": Range(int, 1, _MAX_ITEMS, gettext_noop("Burst of takes"), none_is_valid=True),
    "attention_seconds": Range((int, float), 1, 86_400, gettext_noop("Needs attention after")),
}
#: Options that one kind of queue alone has.
_OF_ONE_KIND = {"priority_type": "priority"}
#: Options that decide how a queue's bytes are read and ordered. Its format stores them, and all its
#: processes need the same.
_OF_FORMAT = frozenset({"codec", "priority_type", "order", "shards"})
#: How many shards a take draws, to take the first of their items, if ``choices`` does not say.
DEFAULT_SHARDS_DRAWN = 2
#: How many characters of a wrong name are compared with the right ones.
_MAX_COMPARED = 100


@dataclasses.dataclass(frozen=True, slots=True)
class QueueOptions:
    """The options of one queue.

    Attributes:
        codec: How values become bytes: ``"json"``, ``"bytes"``, ``"tuple"``, or a
            :class:`Codec`.
        priority_type: ``"int"`` or ``"float"``; all priorities of a priority queue are kept
            in this type.
        order: ``"count"``, as in the recipes; or ``"commit"``: strictly in the order of the
            pushes' commits, with no look for the end. Then an item's id is known only after
            the commit, and a transaction cannot read what it has pushed.
        shards: Into how many parts its ready items are spread, each with a head of its own, so that
            poppers of many processes seldom conflict; items are then taken nearly in order. None
            for one head, and strict order.
        choices: Of how many shards, drawn at random, a pop takes the first item; None for 2. With
            as many as there are shards the order is strict.
        handoff_timeout_seconds: After how many seconds items return to the queue that one
            process took for another, and that the other did not collect.
        max_attempts: How many failed leases make an item a dead letter, 20 by default; None for
            no limit.
        max_value_bytes: The longest value, once encoded, up to 1,000,000 bytes. A value of over
            100,000 is stored in several keys, of which the recipes' readers see only the first.
        max_leased: At most this many items are leased at a time; None for no limit.
        rate: How many items are popped and leased in a time at most, as ``"100/m"`` says it; None
            for no limit.
        burst: With a rate, how many items may be taken at once after a time in which none was;
            None for as many as the rate gives in a second, at least one.
        attention_seconds: After how long the queue needs attention: something could be taken, and
            nothing was, or the oldest item waits for longer.
    """

    codec: str | Codec = "json"
    priority_type: str | type = "int"
    order: str = "count"
    shards: int | None = None
    choices: int | None = None
    handoff_timeout_seconds: float = 30
    max_attempts: int | None = 20
    max_value_bytes: int = DEFAULT_MAX_VALUE_BYTES
    max_leased: int | None = None
    rate: str | None = None
    burst: int | None = None
    attention_seconds: float = 600

    @classmethod
    def checked(cls, queue: str, given: Mapping[str, Any]) -> QueueOptions:
        """Return the options of a queue, its name being for errors.

        Raises:
            ConfigurationError: There is no such option, or it may not have this value.
        """
        for name in sorted(given.keys() - ALLOWED.keys(), key=str):
            raise ConfigurationError(queue=queue, option=name, allowed=", ".join(sorted(ALLOWED)))
        for name, value in given.items():
            if value in ALLOWED[name] or _is_object(name, value):
                continue
            raise ConfigurationError(queue=queue, allowed=str(ALLOWED[name]), **{name: value})
        for name, allowed in misfits(given):
            raise ConfigurationError(queue=queue, allowed=allowed, **{name: given[name]})
        rate = parse_rate(given.get("rate"))
        if rate is not None and given.get("burst") is None:
            given = {**given, "burst": rate.burst}
        if given.get("shards") is not None and given.get("choices") is None:
            given = {**given, "choices": DEFAULT_SHARDS_DRAWN}
        return cls(**given)

    def shown(self, kind: str) -> dict[str, Any]:
        """Return the options that a kind of queue has, by name, as a setting would say them."""
        names = names_for(kind)
        return {name: _named(getattr(self, name)) for name in ALLOWED if name in names}

    def of_format(self, kind: str) -> dict[str, Any]:
        """Return the options that the format of a kind of queue stores, by name."""
        found = {name: one for name, one in self.shown(kind).items() if name in _OF_FORMAT}
        if self.shards is None:  # as before there were any
            del found["shards"]
        return found

    @property
    def help_lasting_us(self) -> int:
        """For how many microseconds a help request holds, and its handoff."""
        return int(self.handoff_timeout_seconds * 1_000_000)

    @property
    def in_commit_order(self) -> bool:
        """Whether items are in the order of their commits."""
        return self.order == "commit"


class QueueKeywords(TypedDict, total=False):
    """The options that the constructors of all queues take."""

    codec: str | Codec
    order: str
    shards: int | None
    choices: int | None
    handoff_timeout_seconds: float
    max_attempts: int | None
    max_value_bytes: int
    max_leased: int | None
    rate: str | None
    burst: int | None
    attention_seconds: float


def misfits(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the options that others do not allow, each with what is allowed; all may be given."""
    if given.get("burst") is not None and given.get("rate") is None:
        yield "burst", "a burst only together with a rate"
    shards, choices = given.get("shards"), given.get("choices")
    if choices is not None and shards is None:
        yield "choices", "choices only together with shards"
    elif choices is not None and choices > shards:
        yield "choices", f"at most as many as there are shards: {shards}"


def texts_of(name: str) -> tuple[str, ...]:
    """Return the texts that an option may be."""
    allowed = ALLOWED[name]
    assert isinstance(allowed, Choice)
    return allowed.texts


@functools.cache
def names_for(kind: str) -> frozenset[str]:
    """Return the names of the options that a kind of queue has."""
    return frozenset(name for name in ALLOWED if _OF_ONE_KIND.get(name, kind) == kind)


def did_you_mean(name: object, names: Iterable[str]) -> str:
    """Return a question that names what is most like a wrong name; empty if nothing is like it."""
    plain = {one.casefold(): one for one in names}
    closest = difflib.get_close_matches(str(name)[:_MAX_COMPARED].casefold(), plain, n=1)
    return f"Did you mean {plain[closest[0]]!r}? " if closest else ""


def _named(value: Any) -> Any:
    """Return the name of an option that is given as an object or a type, else the option."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Codec):
        return getattr(value, "name", type(value).__name__)
    return value.__name__ if isinstance(value, type) else value


def _is_object(name: str, value: Any) -> bool:
    """Tell whether an option is given as an object or a type, which settings cannot."""
    if name == "codec":
        return isinstance(value, Codec)
    return name == "priority_type" and (value is int or value is float)
