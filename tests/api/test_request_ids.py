"""Ids of requests: in the response, in problems, and in the records of logs."""

from __future__ import annotations

import logging
import re

import pytest
from django.test import Client

from fdbqueue.api import request_ids
from fdbqueue.api.request_ids import RequestIdFilter
from tests.api.test_errors import FAILING, MAIL
from tests.cases import cases

LONGEST = "x" * request_ids.MAX_CHARACTERS


@pytest.mark.parametrize("given", ["7", "a.b_c~d:e+f/g=h@i-j", "Root=1-67891233-abcdef", LONGEST])
def test_a_well_formed_id_is_kept(api, given):
    """The response has the id that the client sent, whatever the status."""
    for path, status in (("/api/queues/", 200), ("/api/queues/nope/", 404), ("/api/queues", 404)):
        response = api.get(path, headers={"X-Request-ID": given})
        assert (response.status_code, response["X-Request-ID"]) == (status, given)


@cases("given", ["", " ", "a b", "a,b", 'a"b', "é", "a\tb", "<b>", LONGEST + "x"])
def test_an_id_that_is_not_well_formed_is_replaced(api, given):
    """The request is served, under an id that the API made."""
    response = api.get("/api/queues/", headers={"X-Request-ID": given})
    assert response.status_code == 200
    assert re.fullmatch("[0-9a-f]{32}", response["X-Request-ID"])


def test_each_request_has_an_id_of_its_own(api):
    """No two requests without an id get the same, and none is left when they have ended."""
    found = {api.get("/api/queues/")["X-Request-ID"] for _ in range(3)}
    assert len(found) == 3
    assert request_ids.current() is None


def test_an_error_is_logged_with_its_id(client_with, settings, caplog):
    """The response leads to the record that says what went wrong."""
    settings.FDBQUEUE = {"ENGINE": FAILING, "OPTIONS": {"code": 1510}, "QUEUES": MAIL}
    client = client_with("view_queue")
    with caplog.at_level(logging.ERROR, logger="fdbqueue.api"):
        response = client.get("/api/queues/mail/", headers={"X-Request-ID": "seven"})
    assert response["X-Request-ID"] == "seven"
    (record,) = [each for each in caplog.records if each.name == "fdbqueue.api.errors"]
    assert record.__dict__["request_id"] == "seven"


@pytest.fixture
def records():
    """The records that Django logs of requests, with the filter on their handler."""
    found = []

    class Kept(logging.Handler):
        def emit(self, record):
            found.append(record)

    handler = Kept()
    handler.addFilter(RequestIdFilter())
    logger = logging.getLogger("django.request")
    logger.addHandler(handler)
    yield found
    logger.removeHandler(handler)


def test_the_filter_adds_the_id_to_records_of_others(api, records):
    """Django's own, which is logged when the view has ended, has the id of the request."""
    response = api.get("/api/queues/nope/")
    (record,) = records
    assert record.__dict__["request_id"] == response["X-Request-ID"]


def test_records_of_other_requests_have_no_id(db, queues, records):
    """Where the project asks for a default, they have that; else they are left as they are."""
    Client().get("/nowhere/")
    (record,) = records
    assert not hasattr(record, "request_id")
    assert RequestIdFilter(default="-").filter(record)
    assert record.__dict__["request_id"] == "-"
