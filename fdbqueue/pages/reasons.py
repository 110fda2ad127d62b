"""The dead letters of a queue by reason, and the commands that redrive or remove them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from fdbqueue.pages.text import FoldedText, clip, folded, grouped, visible
from fdbqueue.service import DeadReason

#: The page shows this many reasons, the most frequent.
SHOWN = 20


@dataclass(frozen=True, slots=True)
class Group:
    """A reason, how many items died of it, and the commands that redrive and remove these.

    The commands are empty where the reason has characters that cannot be typed, and the one that
    removes where more than the items is kept of them; the address, which shows these items alone,
    where the page cannot do that.
    """

    text: str
    folded: FoldedText
    items: str
    command: str
    purge: str
    address: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Reasons:
    """The most frequent reasons; how many dead letters are not among them, and what counts these.

    ``chosen`` is the reason whose dead letters alone are listed, empty for none;
    ``everything`` is the address that lists those of all. ``others`` is empty where all are shown.
    """

    groups: list[Group]
    chosen: str
    everything: str
    others: str
    recount: str


def reasons_of(
    queue: str,
    found: Sequence[DeadReason],
    dead: int,
    addresses: Sequence[str],
    *,
    chosen: str = "",
    everything: str = "",
    can_purge: bool = True,
) -> Reasons | None:
    """Return what the page shows of the reasons, None where nothing is dead.

    Args:
        queue: The queue's name.
        found: The most frequent reasons.
        dead: How many dead letters there are.
        addresses: For each reason, what shows its dead letters alone; empty for nothing.
        chosen: The reason whose dead letters alone are listed; empty for none.
        everything: The address that lists those of all reasons.
        can_purge: Whether to show a command that removes them.
    """
    others = dead - sum(one.count for one in found)
    if dead <= 0 and not found:
        return None
    name = shlex.quote(queue)
    return Reasons(
        [
            _group(name, number, one, address, can_purge, is_chosen=one.reason == chosen != "")
            for number, (one, address) in enumerate(zip(found, addresses, strict=True), start=1)
        ],
        clip(chosen)[0],
        everything,
        grouped(others) if others > 0 else "",
        f"python manage.py queue_recount {name}",
    )


def _group(
    name: str,
    number: int,
    found: DeadReason,
    address: str,
    can_purge: bool,
    *,
    is_chosen: bool,
) -> Group:
    text = visible(found.reason)
    return Group(
        text,
        folded(text, f"group-{number}"),
        grouped(found.count),
        _command("queue_redrive", name, found),
        _command("queue_purge", name, found) if can_purge else "",
        address if found.reason and found.reason.isprintable() else "",
        is_chosen,
    )


def _command(verb: str, name: str, group: DeadReason) -> str:
    if not group.reason.isprintable():
        return ""
    return f"python manage.py {verb} {name} --reason={shlex.quote(group.reason)}"
