"""The demo project."""

from __future__ import annotations


def test_its_first_address_leads_to_the_pages(client):
    """Whoever opens what ``make run`` prints is not met by an error."""
    response = client.get("/")
    assert (response.status_code, response["Location"]) == (302, "/admin/")


def test_a_browser_that_asks_for_an_icon_leaves_no_line_in_the_log(client, caplog):
    """Each browser does, and there is none."""
    assert client.get("/favicon.ico").status_code == 204
    assert caplog.records == []
