"""Pages and commands say the same of an item and of a queue, because it is described once."""

from __future__ import annotations

import html
import re

from fdbqueue import columns
from fdbqueue.columns import items, queues
from fdbqueue.columns.queue_rows import QueueRow
from tests.called import called
from tests.pages.addresses import LIST, of, text


def headings(markup, tag):
    """Return what the cells with a tag say, in capitals."""
    found = re.findall(rf"<{tag}[^>]*>(.*?)</{tag}>", markup, re.DOTALL)
    return [html.unescape(re.sub(r"<[^>]+>", "", one)).strip().upper() for one in found]


def test_an_item_has_the_same_facts_on_its_page_and_in_queue_show(viewer, queue):
    """In the same order; those of where it is stored come last, and the value behind them."""
    mail = queue("mail")
    pushed = mail.push("letter", unique="letter")
    mail.bury(pushed.id, reason="no address")
    markup = text(viewer.get(of("mail", pushed)))
    lines = called("queue_show", "mail", pushed.id).splitlines()
    shown = [re.match(r"[A-Z ]+?(?=  )", line)[0] for line in lines]
    details, _, places = markup.partition('"metadata-caption"')[2].partition('id="places"')
    assert shown[-1] == "VALUE"
    assert shown[:-1] == headings(details, "th") + headings(places, "dt")


def test_a_queue_has_the_same_figures_in_the_list_and_in_queue_list(viewer, queue):
    """A heading of the table at a terminal is one of the page's, in capitals."""
    queue("mail").push("x")
    on_page = [re.sub(r" [▲▼]$", "", one) for one in headings(text(viewer.get(LIST)), "th")]
    heading = called("queue_list", "mail", "--rates").splitlines()[0].split()
    assert set(heading) - set(on_page) == {"STATUS"}  # a badge there


def test_what_is_nothing_is_a_dash_and_null():
    """On a page, at a terminal, and in JSON."""
    row = QueueRow(None)
    assert columns.DASH in queues.OLDEST.shown(queues.OLDEST.value(row))
    assert queues.OLDEST.cell_text(row) == columns.NOTHING
    assert queues.OLDEST.record(row) == {"oldest": None, "age_seconds": None}


def test_the_name_of_a_detail_is_its_field_of_json(queue):
    """What reads such lines back knows the fields by the names."""
    mail = queue("mail")
    row = items.ItemRow(mail.push("x"), mail)
    for column in items.DETAILS:
        assert list(column.record(row)) == [column.name]
