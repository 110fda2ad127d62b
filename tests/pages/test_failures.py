"""What a page says when something is not there, or when nothing answers."""

from __future__ import annotations

import pytest

from tests.cases import cases
from tests.pages.addresses import LIST, of, text

HOSTILE_NAMES = ["nope", "nobody-*", "user- ", "%00", "%3Cscript%3Ealert(1)", "x" * 3000]


def unreachable(kind, tmp_path):
    """Return the settings of an engine that cannot answer."""
    blocked = tmp_path / "secret-folder"
    if kind == "no such folder":
        blocked.write_text("a file where a folder is needed")
        path = blocked / "queues.sqlite3"
    elif kind == "another file":
        path = blocked
        path.write_bytes(b"this is no SQLite file, for all its length. " * 99)
    else:
        return {"ENGINE": "tests.pages.silent_engine", "OPTIONS": {}}
    return {"ENGINE": "fdbqueue.engines.embedded", "OPTIONS": {"path": path}}


@pytest.fixture(params=["no such folder", "another file", "no answer"])
def broken(request, settings, tmp_path):
    """The queues on an engine that cannot answer."""
    settings.FDBQUEUE = {**settings.FDBQUEUE, **unreachable(request.param, tmp_path)}


@cases("name", HOSTILE_NAMES)
def test_a_name_that_is_no_queues_is_not_found(viewer, name):
    """404 in the admin's frame, with the way back, and the name is not repeated."""
    for address in (of(name), of(name) + "items/AAAA/"):
        response = viewer.get(address)
        assert response.status_code == 404
        assert "There is no queue with this name." in text(response)
        assert f'<a href="{LIST}">Back to the queues</a>' in text(response)
        assert "<script>alert" not in text(response)


def test_an_item_popped_meanwhile_is_said_to_be_gone(viewer, queue):
    """404, with the way back to its queue."""
    item = queue("mail").push(1)
    assert viewer.get(of("mail", item)).status_code == 200
    queue("mail").pop()
    response = viewer.get(of("mail", item))
    assert response.status_code == 404
    assert "It may have been popped or acknowledged." in text(response)
    assert f'<a href="{of("mail")}">Back to the queue mail</a>' in text(response)


def test_an_item_of_an_engine_that_does_not_answer(viewer, queue, settings, tmp_path):
    """Its page says so too: it is not called gone."""
    item = queue("mail").push(1)
    settings.FDBQUEUE = {**settings.FDBQUEUE, **unreachable("no answer", tmp_path)}
    assert viewer.get(of("mail", item)).status_code == 503


def test_the_log_says_why_there_is_no_answer(viewer, broken, caplog):
    """Those who run the server get the cause that viewers do not."""
    viewer.get(LIST)
    (record,) = [record for record in caplog.records if record.name == "fdbqueue.pages"]
    assert record.getMessage() == "a page could not read the queues"
    assert record.exc_info


def test_the_rest_of_the_admin_goes_on(viewer, broken):
    """The index and the app's page need no queue."""
    assert viewer.get("/admin/").status_code == 200
    assert viewer.get("/admin/fdbqueue/").status_code == 200


def test_a_wrong_setting_is_no_traceback(viewer, settings):
    """503 and the command that explains it; the setting's content is not told."""
    settings.FDBQUEUE = {"QUEUES": {"secret-name": {"kind": "heap"}}}
    response = viewer.get(LIST)
    assert response.status_code == 503
    assert "manage.py check" in text(response)
    assert "secret-name" not in text(response)
