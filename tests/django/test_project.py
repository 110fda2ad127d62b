"""The demo project."""

from __future__ import annotations


def test_its_first_address_leads_to_the_pages(client):
    """Whoever opens what ``make run`` prints is not met by an error."""
    response = client.get("/")
    assert (response.status_code, response["Location"]) == (302, "/admin/")
