"""A codec is one class in the table of codecs: REST, items files and pages ask it."""

from __future__ import annotations

import html
import json
from decimal import Decimal, InvalidOperation

import pytest
from django.core.management import CommandError, call_command
from rest_framework.test import APIClient

import fdbqueue
from fdbqueue.exceptions import InvalidInput
from fdbqueue.service import Codec, Stored
from fdbqueue.service.codecs import CODECS
from fdbqueue.service.options import ALLOWED, Choice
from fdbqueue.testing import empty_queues
from tests.pages.addresses import of, text

PRICES = [Decimal("1.50"), Decimal("1E+400"), Decimal("0.10")]


class DecimalCodec(Codec):
    """Decimal numbers, in JSON as strings."""

    name = "decimal"
    in_json = "a string with the number"

    def encode(self, value, pushed_at, attempts):
        """Return the digits."""
        if not isinstance(value, Decimal):
            raise TypeError("it is not a Decimal")
        return str(value).encode()

    def decode(self, data):
        """Return the number."""
        return Stored(self.from_json(data.decode()))

    def to_json(self, value):
        """Return the digits."""
        return str(value)

    def from_json(self, value):
        """Return the number in a string."""
        try:
            return Decimal(value)
        except InvalidOperation:
            raise ValueError("it is not a decimal number") from None


@pytest.fixture(autouse=True)
def prices(monkeypatch):
    """A queue with a codec that is in the table when it is read, as if it stood in its file."""
    monkeypatch.setitem(CODECS, "decimal", DecimalCodec)
    monkeypatch.setitem(ALLOWED, "codec", Choice(tuple(CODECS)))  # a wider table
    with empty_queues({"prices": {"kind": "fifo", "codec": "decimal"}, "mail": {"kind": "fifo"}}):
        yield


@pytest.fixture
def api(admin_user):
    """A client who may do everything."""
    client = APIClient()
    client.default_format = "json"
    client.force_authenticate(admin_user)
    return client


def test_rest_converts_its_values(api):
    """REST pushes and shows the JSON that the codec makes of them, and refuses the rest."""
    pushed = api.post("/api/queues/prices/push/", {"value": "1.50"})
    assert (pushed.status_code, pushed.json()["value"]) == (201, "1.50")
    item = fdbqueue.queue("prices").peek()
    assert item is not None
    assert item.value == Decimal("1.50")
    refused = api.post("/api/queues/prices/push/", {"items": [{"value": "1"}, {"value": "x"}]})
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_value")
    assert (refused.json()["index"], refused.json()["codec"]) == (1, "decimal")
    assert api.get("/api/queues/prices/").json()["codec"] == "decimal"
    popped = api.post("/api/queues/prices/pop/", {}).json()["items"]
    assert [each["value"] for each in popped] == ["1.50"]


def test_an_items_file_restores_its_values(tmp_path):
    """What is drained to a file is the codec's JSON, and is read back by it."""
    queue, file = fdbqueue.queue("prices"), tmp_path / "prices.ndjson"
    queue.push_many(PRICES)
    call_command("queue_drain", "prices", output=str(file))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["value"] for line in lines] == ["1.50", "1E+400", "0.10"]
    call_command("queue_push", "prices", str(file), "--items")
    assert [item.value for item in queue.pop_many(9)] == PRICES
    file.write_text('"x"\n')
    with pytest.raises(CommandError, match="Line 1: it is not a decimal number"):
        call_command("queue_push", "prices", str(file))


@pytest.mark.django_db
def test_pages_show_its_values(admin_client):
    """The list, the search and the page of an item show them as Python writes them."""
    queue = fdbqueue.queue("prices")
    queue.push_many(PRICES)
    found = admin_client.get(of("prices"), {"q": "1.5"})
    shown = html.unescape(text(found))
    assert "Decimal('1.50')" in shown
    assert "Decimal('0.10')" not in shown
    item = queue.peek()
    assert item is not None
    assert "Decimal('1.50')" in html.unescape(text(admin_client.get(of("prices", item))))


def test_its_items_move_where_their_values_are_taken():
    """Another codec that has no such value refuses the item, which stays where it is."""
    queue = fdbqueue.queue("prices")
    queue.push_many(PRICES)
    with pytest.raises(InvalidInput):
        queue.move_many(fdbqueue.queue("mail"), 2)
    assert queue.size() == len(PRICES)
