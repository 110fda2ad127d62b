"""What values may be, and one check of a table of them.

The setting, the options of tasks and those of schedules say in a table what each of their keys may
be: a :class:`Choice`, a :class:`Range`, a :class:`Kind`, or another object that tells by ``in``
whether it allows a value, and whose text says what it allows. :func:`wrong_in` compares what is
given with such a table.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

#: How many characters of a wrong name are compared with the right ones.
_MAX_COMPARED = 100


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


@dataclasses.dataclass(frozen=True)
class Kind:
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
ANYTHING = Kind((object,), "anything")


class Rule(NamedTuple):
    """What a key may be, and the id of the check that says what is wrong."""

    allowed: Any
    id: str


class Problem(NamedTuple):
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
) -> Iterator[tuple[Any, Problem]]:
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
        yield key, Problem(unknown_id, f"{what} has an unknown {called}, {key!r}.", hint)
    for key, (allowed, number) in rules.items():
        if key in given and given[key] not in allowed:
            message = f"{what} has the {key} {given[key]!r}."
            yield key, Problem(number, message, f"It must be {allowed}.")


def did_you_mean(name: object, names: Iterable[str]) -> str:
    """Return a question that names what is most like a wrong name; empty if nothing is like it."""
    plain = {one.casefold(): one for one in names}
    closest = difflib.get_close_matches(str(name)[:_MAX_COMPARED].casefold(), plain, n=1)
    return f"Did you mean {plain[closest[0]]!r}? " if closest else ""
