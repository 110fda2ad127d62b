"""The findings of ``queue_doctor`` as a table: the problems first, each with its remedy."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from fdbqueue.management.doctor import ERROR, OK, WARNING, Finding
from fdbqueue.management.formats import visible
from fdbqueue.management.tables import Column, Look, Painted, Table

COLUMNS = (
    Column("STATUS"),
    Column("CHECK"),
    Column("QUEUE", "name"),
    Column("FOUND", fold="wrap"),
    Column("REMEDY", fold="whole"),
)
_STYLES = {ERROR: "ERROR", WARNING: "WARNING", OK: "SUCCESS"}
_REPAIRED = "repaired"


def lines(found: Iterable[Finding], look: Look) -> list[str]:
    """Return the lines of a table: errors, warnings, what was repaired, and what is well.

    A check that finds several queues well has one row for all of them.
    """
    found = list(found)
    problems = [one for status in (ERROR, WARNING) for one in found if one.status == status]
    repaired = [one for one in found if one.is_repaired]
    rows = [*map(_row, problems), *map(_row, repaired), *_rows_of_checks(found)]
    return Table(COLUMNS, look).lines(rows)


def _row(finding: Finding) -> tuple[str, ...]:
    status = _REPAIRED if finding.is_repaired else finding.status
    return (
        Painted.of(status.upper(), _STYLES[finding.status]),
        finding.check,
        finding.queue or "-",
        visible(finding.detail),
        "-" if finding.remedy is None else f"manage.py {finding.remedy}",
    )


def _rows_of_checks(found: Iterable[Finding]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each check that found something well."""
    well = [one for one in found if one.status == OK and not one.is_repaired]
    order = list(dict.fromkeys(one.check for one in well))
    well.sort(key=lambda one: order.index(one.check))
    for _, group in itertools.groupby(well, lambda one: one.check):
        first, *rest = group
        status, check, queue, detail, remedy = _row(first)
        if rest:
            queue = f"{1 + len(rest):,} queues"
            detail = detail.partition(";")[0]
        yield status, check, queue, detail, remedy
