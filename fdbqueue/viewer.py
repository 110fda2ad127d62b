"""Who may see what: pages, REST, outlines, outboxes and schedules ask a :class:`Viewer`.

It answers for one queue, for each of several, for the members of a family, and for the names of all
queues in their order. What the user may not see is passed over, however much that is, and neither
an answer nor its time tells that it is there. A search ends when half of the time limit of the
request is over; what it has found by then is returned, and that there may be more.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from fdbqueue import access, conf, deadlines
from fdbqueue.service import Catalog, Family, run

#: A page looks at this many queues, in the order of their names.
MAX_QUEUES_READ = 1_000


class Viewer:
    """What a user may see.

    Args:
        sees: Tells whether the user may see a queue, by its name.
        begin: Begins a time limit, and returns the queues; the default has no limit.
    """

    def __init__(
        self, sees: Callable[[str], bool], begin: Callable[[], Catalog] = conf.catalog
    ) -> None:
        #: Tells whether the user may see a queue.
        self.sees = sees
        #: Begins a time limit, and returns the queues.
        self.begin = begin

    @classmethod
    def of(cls, user: Any) -> Viewer:
        """Return what a user may see by the permissions."""
        if access.may_in_general(user, access.VIEW):
            return cls(lambda _name: True)
        return cls(functools.partial(access.may, user, access.VIEW))

    def among(self, is_one: Callable[[str], bool]) -> Viewer:
        """Return a viewer who sees only queues of which something else holds, too."""
        return Viewer(lambda name: is_one(name) and self.sees(name), self.begin)

    def sees_each(self, names: Iterable[str]) -> bool:
        """Tell whether the user may see each of several queues."""
        return all(map(self.sees, names))

    def sees_some(self) -> bool:
        """Tell whether there is a queue that the user may see; yes if time runs out first.

        The page then shows no queue, and says that time ran out.
        """
        catalog = self.begin()
        if any(map(self.sees, catalog.names_of_their_own())):
            return True
        if self.busy_members(catalog, catalog.families(), limit=1):
            return True
        return any(deadlines.is_half_over() or self.sees(name) for name in catalog.each_name())

    def names(
        self, catalog: Catalog, *, after: str = "", limit: int
    ) -> tuple[list[str], str | None]:
        """Return the next names, and the name to continue after if there are more.

        If time runs out, these are fewer than asked for, even none, and the name to continue after
        may be one that was passed over: do not show it.

        Args:
            catalog: The queues.
            after: Only names that sort after this one.
            limit: Return at most this many names.
        """
        names: list[str] = []
        for name in catalog.each_name(after=after):
            if self.sees(name):
                names.append(name)
            if len(names) > limit:
                return names[:limit], names[limit - 1]
            if deadlines.is_half_over():
                return names, name
        return names, None

    def queues(self, after: str) -> tuple[list[str], str | None]:
        """Return the next names that a page looks at, and where to go on if there may be more.

        That is empty if time was over before any name was found.

        If the user may see few of very many names, time may run out before these are found. Then
        the names that the indexes of families have are added. Both searches have time limits of
        their own.
        """
        names, cursor = self.names(self.begin(), after=after, limit=MAX_QUEUES_READ)
        if cursor is None:
            return names, None
        following = names[-1] if names else ""  # the cursor itself may be a name to hide
        if rest := MAX_QUEUES_READ - len(names):
            catalog = self.begin()
            families = catalog.families()
            names += sorted(
                self.busy_members(catalog, families, after=following or after, limit=rest)
            )
        return names, following

    def busy_members(
        self, catalog: Catalog, families: Iterable[Family], *, after: str = "", limit: int
    ) -> list[str]:
        """Return members of families that have something, now or later.

        By the indexes of the families, in their order: a hundred members cost one read, and each
        name about two. So of very many queues a user finds their own in time.

        Args:
            catalog: The queues.
            families: The families to look at.
            after: Only names that sort after this one.
            limit: Return at most this many names.
        """

        def allows(name: str) -> bool:
            return name > after and self.sees(name)

        def read(tr: Any) -> list[str]:
            found: list[str] = []
            for family in families:
                found += family.with_something(
                    tr,
                    limit - len(found),
                    allows,
                    with_later=True,
                    is_late=deadlines.is_half_over,
                )
            return found

        return run(catalog.database, read, read_only=True)

    def next_members(
        self,
        family: Family,
        most: int,
        *,
        start: str = "",
        after: str = "",
        is_wanted: Callable[[str], bool] = lambda _: True,
    ) -> tuple[list[str], str | None]:
        """Return the next members of a family by their names, and where to go on if there are more.

        That is the name to continue after. No more names are looked at than a page looks at, but
        for those that the user may not see; of these as many as half of the time allows.

        Args:
            family: The family.
            most: Return at most this many.
            start: Only names that begin with this text.
            after: Only names that sort after this one.
            is_wanted: Tells by its name whether to return a member.
        """
        found: list[str] = []
        last, looked_at = after, 0
        for name in family.names(start, after=after):
            if deadlines.is_half_over():
                return found, last
            if not self.sees(name):
                continue
            is_member = family.has(name) and is_wanted(name)
            if looked_at == MAX_QUEUES_READ or (is_member and len(found) == most):
                return found, last
            if is_member:
                found.append(name)
            last, looked_at = name, looked_at + 1
        return found, None

    def sees_any_member(self, catalog: Catalog, family: Family) -> bool:
        """Tell whether the user may see a member; one that is empty is looked for by its name."""
        busy = self.busy_members(catalog, [family], limit=1)
        return bool(busy or self.next_members(family, 1)[0])


#: Sees everything, as commands do.
EVERYTHING = Viewer(lambda _name: True)
