"""Going to an item, or to a task, by its id."""

from __future__ import annotations

import re

import pytest

from tests.cases import cases
from tests.pages.addresses import LIST, of, text

FIND = f"{LIST}-/find/"


def find(viewer, name, sought):
    """Ask for an item by its id, on the page of a queue."""
    return viewer.get(FIND, {"queue": name, "id": sought})


def test_a_queues_page_asks_for_an_id(viewer, queue):
    """The field has a label, and sends the id with the queue's name."""
    queue("mail").push(1)
    markup = text(viewer.get(of("mail")))
    form = re.search(r'<form class="[^"]*fdbqueue-find".*?</form>', markup, re.DOTALL)[0]
    assert 'method="get"' in form
    assert f'action="{FIND}"' in form
    assert '<input type="hidden" name="queue" value="mail">' in form
    assert '<label for="find-id">Item id</label>' in form
    assert 'name="id"' in form


@pytest.mark.parametrize("state", ["ready", "leased", "delayed", "dead"])
def test_an_id_leads_to_its_item_in_whatever_state(viewer, queue, state):
    """By a redirect to the item's page; blanks around the id do no harm."""
    mail = queue("mail")
    item = mail.push({"to": "ada"}, delay=60 if state == "delayed" else None)
    if state == "leased":
        mail.lease(seconds=60)
    if state == "dead":
        mail.bury(item.id, reason="why")
    for sought in (item.id, f"  {item.id}\n"):
        response = find(viewer, "mail", sought)
        assert (response.status_code, response.url) == (302, of("mail", item))
    assert viewer.get(response.url).status_code == 200


def test_an_item_that_is_gone_is_said_so(viewer, queue):
    """404 in the frame, with the field to try again."""
    item = queue("mail").push(1)
    queue("mail").pop()
    response = find(viewer, "mail", item.id)
    assert response.status_code == 404
    assert "It may have been popped or acknowledged." in text(response)
    assert 'id="find-id"' in text(response)


@cases("sought", ["x", "AAAA", "a/b", "../..", "<b>", "\u202e", "é", "\ud800", "%00", "A" * 9_000])
def test_what_is_no_id_of_the_queue_is_said_so(viewer, queue, sought):
    """404, and what was asked for is shown clipped and escaped."""
    response = find(viewer, "mail", sought.encode("utf-8", "surrogatepass"))
    assert response.status_code == 404
    assert "None of the 5 queues has an item or a task with this id." in text(response)
    assert "<b>" not in text(response)
    assert "\u202e" not in text(response)
    assert len(response.content) < 20_000


def test_an_id_of_another_queue_leads_there(viewer, queue):
    """Wherever it was asked for; the queue of the page comes first."""
    item = queue("mail").push(1)
    assert find(viewer, "quakes", item.id).url == of("mail", item)


def test_the_queue_of_the_page_is_read_alone(viewer, queue, watched):
    """If it has the item: beside many queues it costs no more."""
    item = queue("mail").push(1)
    taken = []
    for _ in range(2):
        watched.reads.clear()
        assert find(viewer, "mail", item.id).status_code == 302
        taken.append(len(watched.reads))
        for number in range(20):
            queue(f"user-{number}").push(1)
    assert taken[0] == taken[1]


def test_a_queue_that_is_not_there(viewer):
    """It is said so."""
    assert find(viewer, "none", "x").status_code == 404


@pytest.mark.parametrize("query", ["", "?id=", "?id=++", "?id=%00", "?id=" + "x" * 14_001])
def test_an_id_must_be_given(viewer, query):
    """400 in the frame, with the field."""
    response = viewer.get(FIND + query)
    assert response.status_code == 400
    assert "This address is not valid." in text(response)
    assert 'id="find-id"' in text(response)
