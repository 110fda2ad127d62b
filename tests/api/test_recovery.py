"""Requests whose outcome nobody knew: their keys find it out."""

from __future__ import annotations

import pytest

from fdbqueue import conf
from tests.api.test_idempotency import ALL, contents, ids_of, post

UNSURE = "tests.api.unsure_engine"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("pop/", {"limit": 2}),
        ("lease/", {}),
        ("push/", {"value": 1}),
        ("push/", {"items": [{"value": 1}, {"value": 2}]}),
    ],
)
def test_a_lost_outcome_is_found_by_its_key(client_with, settings, tmp_path, path, body):
    """What was answered with 503 because nobody knew is had once, and shown to the retry."""
    options = {"path": tmp_path / "queues.sqlite3"}
    setting = {"OPTIONS": options, "QUEUES": {"mail": {"kind": "fifo"}}}
    settings.FDBQUEUE = setting
    queue = conf.catalog().queue("mail")
    before = {queue.push(value).id for value in "abc"}
    client = client_with(*ALL)
    settings.FDBQUEUE = {**setting, "ENGINE": UNSURE}
    lost = post(client, path, body, "key")
    assert (lost.status_code, lost.json()["code"]) == (503, "outcome_unknown")
    settings.FDBQUEUE = setting
    queue = conf.catalog().queue("mail")
    after = contents(queue)
    found = post(client, path, body, "key")
    assert found["Idempotent-Replayed"] == "true"
    assert contents(queue) == after
    assert (ids_of(found) <= before) == (path != "push/")
    ready = {item_id for item_id, state in after if state == "ready"}
    assert ids_of(found).isdisjoint(ready) == (path != "push/")


def test_a_lost_answer_is_found_while_the_outcome_is_still_unknown(client_with, settings, tmp_path):
    """A replay writes nothing, so that it does not depend on a commit."""
    settings.FDBQUEUE = {
        "ENGINE": UNSURE,
        "OPTIONS": {"path": tmp_path / "queues.sqlite3"},
        "QUEUES": {"mail": {"kind": "fifo"}},
    }
    client = client_with(*ALL)
    assert post(client, "push/", {"value": 1}, "key").status_code == 503
    again = post(client, "push/", {"value": 1}, "key")
    assert (again.status_code, again["Idempotent-Replayed"]) == (201, "true")
    assert client.get("/api/queues/mail/").json()["counts"]["ready"] == 1
