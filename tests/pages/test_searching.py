"""Searching: by time, with a summary."""

from __future__ import annotations

import re

import pytest

from fdbqueue import deadlines
from tests.pages.addresses import following, items, of, previous
from tests.pages.test_items import numbers, progress


def late(monkeypatch):
    """Have no time left after the first thousand items."""
    monkeypatch.setattr(deadlines, "is_half_over", lambda: True)


@pytest.fixture
def mail(queue):
    """A queue of 2,500 items, of which four have the text."""
    mail = queue("mail")
    wanted = {10, 1_500, 1_501, 2_400}
    mail.push_many({"to": "Ada" if n in wanted else "Grace", "n": n} for n in range(2_500))
    return mail


def test_a_search_with_time_looks_at_everything(viewer, mail, monkeypatch):
    """One request is enough, and the summary says so."""
    monkeypatch.setattr(deadlines, "is_half_over", lambda: False)
    response = viewer.get(of("mail") + "?q=ada")
    assert numbers(response) == ["11", "1501", "1502", "2401"]
    assert progress(response) == "4 hits in 2,500 items looked at; there are no more."
    assert following(response) is None


def test_a_search_ends_by_time_and_goes_on_from_there(viewer, mail, monkeypatch):
    """It names the place so far; going on finds the rest, each hit once, and back again."""
    late(monkeypatch)
    start = viewer.get(of("mail") + "?q=ada")
    assert numbers(start) == ["11"]
    assert progress(start) == "1 hit in 1,001 items looked at of 2,500. Go on from item 1,002"
    second = viewer.get(of("mail") + following(start))
    assert numbers(second) == ["1501", "1502"]
    assert "from 1,002 to 2,002 of 2,500. Go on from item 2,003" in progress(second)
    third = viewer.get(of("mail") + following(second))
    assert numbers(third) == ["2401"]
    assert progress(third).endswith("there are no more.")
    assert numbers(viewer.get(of("mail") + previous(third))) == ["1501", "1502"]


def test_a_search_from_the_other_end_ends_by_time_too(viewer, mail, monkeypatch):
    """The newest first."""
    late(monkeypatch)
    start = viewer.get(of("mail") + "?q=ada&end=max")
    assert len(items(start)) == 3
    assert "1,001 items looked at of 2,500. Go on" in progress(start)


def test_a_list_without_a_search_does_not_depend_on_the_time(viewer, mail, monkeypatch):
    """Its rows are all there."""
    late(monkeypatch)
    response = viewer.get(of("mail") + "?limit=200")
    assert len(items(response)) == 200
    assert following(response) is not None
    assert progress(response) == ""


def test_a_search_reads_a_bounded_number_of_bytes(viewer, queue, monkeypatch):
    """Large values end it before the time does."""
    monkeypatch.setattr(deadlines, "is_half_over", lambda: False)
    monkeypatch.setattr("fdbqueue.pages.item_list.MAX_BYTES_SEARCHED", 1)
    queue("mail").push_many("x" * 90_000 for _ in range(120))
    response = viewer.get(of("mail") + "?q=ada")
    assert re.fullmatch(
        r"0 hits in \d\d items looked at of 120. Go on from item \d\d", progress(response)
    )
