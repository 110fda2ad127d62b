"""What a reader of some queues sees of tasks: the same whether there are hidden ones or not."""

from __future__ import annotations

import re

import pytest
from rest_framework.test import APIClient

from fdbqueue.columns import DASH
from fdbqueue.tasks import call, chain, group
from fdbqueue.tasks.compat import task_backends
from fdbqueue.tasks.outbox.models import OutboxTask
from fdbqueue.tasks.pages import functions_and_schedules, outbox
from fdbqueue.tasks.schedules import DueSchedules
from fdbqueue.tasks.worker import TaskWorker
from tests.injection import time_ahead
from tests.pages import rules
from tests.pages.addresses import LIST, of, text
from tests.pages.conftest import person
from tests.tasks import letters, limited_jobs
from tests.tasks.test_pages import page_of, plain, rows_in

QUEUE, HIDDEN = "tasks-default", "tasks-other"
ACROSS = f"{LIST}-/"
#: What differs between two looks at the same: tokens, moments, how long ago they were.
_CHANGING = re.compile(
    r'csrfmiddlewaretoken" value="[^"]*|\d\d:\d\d:\d\d|datetime="[^"]*"'
    r"|(less than a|[\d.,]+)\s(ms|s|min|minutes?)\b"
)


@pytest.fixture(autouse=True)
def backend(empty_queues, settings, db):
    """A backend, one of whose queues readers may view, and another one with an outbox."""
    apps = {*settings.INSTALLED_APPS, "fdbqueue.tasks"}
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, *apps.difference(settings.INSTALLED_APPS)]
    kind = {"BACKEND": "fdbqueue.tasks.FdbQueueBackend", "QUEUES": ["default", "other"]}
    boxed = {**kind, "OPTIONS": {"outbox": True, "queue_prefix": "boxed-"}}
    settings.TASKS = {"default": kind, "boxed": boxed}
    return task_backends["default"]


@pytest.fixture
def work(backend):
    """Run what is ready, all but what the outbox has."""

    def work(*names):
        TaskWorker(backend, names, follow=False).run()

    return work


@pytest.fixture
def sees(settings, monkeypatch):
    """Let every user view the queues with some names, and no other."""
    settings.FDBQUEUE = {**settings.FDBQUEUE, "API": {"AUTHORIZER": "tests.pages.rules.may_see"}}

    def sees(*names):
        monkeypatch.setattr(rules, "SEEN", {*names})

    sees(QUEUE, "boxed-default")
    return sees


@pytest.fixture
def reader(sees):
    """Somebody who is told about these queues alone."""
    return person("reader")


def told(response, *ids):
    """Return all that a page tells, without some ids."""
    markup = _CHANGING.sub("", text(response))
    for one in ids:
        markup = markup.replace(one, "ID")
    return response.status_code, markup


def outline(response):
    """Return the lines of the group on a task's page."""
    markup = text(response).partition('class="fdbqueue-outline"')[2].partition("</ul>")[0]
    return [plain(one) for one in re.findall(r"<li.*?</li>", markup)]


# The outbox


def enqueue_boxed(name, count, *, aside=0):
    """Enqueue tasks that have waited for long, the first of which are set aside."""
    letter = letters.send.using(backend="boxed", queue_name=name)
    ids = [letter.enqueue(name).id for _ in range(count)]
    rows = OutboxTask.objects.filter(result_id__in=ids)
    rows.update(enqueued_us=1_700_000_000_000_000 + len(name))
    rows.filter(result_id__in=ids[:aside]).update(set_aside_us=1, problem=f"no {name}")
    return ids


@pytest.mark.parametrize("count", [0, 1, 5])
def test_hidden_rows_of_an_outbox(reader, sees, monkeypatch, count):
    """They take no place among the first rows, and are in no sum, and in no warning."""
    monkeypatch.setattr(outbox, "_MAX_SHOWN", 2)
    enqueue_boxed("other", 7, aside=3)
    limited = limited_jobs.one_a_customer.using(backend="boxed", queue_name="other")
    for number in range(3):
        limited.enqueue(str(number), number)
    enqueue_boxed("default", count, aside=count // 2)
    pages = (ACROSS + "outbox/", ACROSS + "outbox/?sort=oldest", LIST)
    found = [told(reader.get(page)) for page in pages]
    assert [row[2] for row in rows_in(reader.get(pages[0]))] == ["boxed-default"] * min(count, 4)
    OutboxTask.objects.exclude(queue="boxed-default").delete()
    assert [told(reader.get(page)) for page in pages] == found
    assert ("trouble-outbox" in found[2][1]) is (count > 0)
    sees(QUEUE)
    assert "other" not in text(reader.get(pages[0]))
    assert "trouble-outbox" not in text(reader.get(LIST))


def test_hidden_rows_of_very_many_queues(reader, monkeypatch):
    """Whatever the number of names, all rows that may be seen are counted and shown."""
    monkeypatch.setattr("fdbqueue.tasks.outbox.outbox_columns._NAMES_AT_ONCE", 2)
    monkeypatch.setattr(outbox, "_MAX_SHOWN", 4)
    limited = limited_jobs.one_a_customer.using(backend="boxed")
    for number in range(5):
        limited.using(queue_name="other").enqueue(f"{number}", number)
    ids = [limited.enqueue(f"{number}", number).id for number in range(5)]
    response = reader.get(ACROSS + "outbox/")
    assert [row[0] for row in rows_in(response)] == ids[:4]
    assert "4 of 5 rows were read" in text(response)


# Tasks by their ids


def test_hidden_tasks_are_not_found_by_their_ids(reader, work):
    """Nothing tells them from tasks that are not there, at whatever address, in whatever state."""
    hidden = letters.send.using(queue_name="other")
    ids = [hidden.enqueue("ended").id]
    work("other")
    ids += [hidden.enqueue("waits").id, chain(call(hidden, "first"), letters.send).enqueue().id]
    for address in (
        page_of,
        lambda one: f"{of(QUEUE)}items/?id={one}",
        lambda one: f"{ACROSS}find/?id={one}",
        lambda one: page_of(one, HIDDEN),
    ):
        nothing = told(reader.get(address("0" * 32)), "0" * 32)
        assert [told(reader.get(address(one)), one) for one in ids] == [nothing] * len(ids)


def test_limited_tasks_belong_to_their_home(reader, backend, work):
    """Who may view the queue of a task sees it before and after its end, whatever its key."""
    ended = limited_jobs.one_a_customer.enqueue("ada", 1)
    work()
    waits = limited_jobs.one_a_customer.enqueue("bob", 2)
    member = backend.found(waits.id).record["queue"]
    assert member not in rules.SEEN
    for result, name in ((ended, QUEUE), (waits, member)):
        response = reader.get(ACROSS + "find/", {"id": result.id})
        assert (response.status_code, response.url) == (302, page_of(result.id, name))
        assert reader.get(response.url).status_code == 200
    listed = text(reader.get(LIST))
    assert of("limited.tasks-default.*") in listed
    assert member not in listed
    assert reader.get(of(member)).status_code == 200
    hidden = limited_jobs.one_a_customer.using(queue_name="other").enqueue("bob", 3)
    assert reader.get(of(backend.found(hidden.id).record["queue"])).status_code == 403


def test_a_key_may_be_all_that_a_reader_sees(reader, sees, backend, work):
    """Neither other keys nor the home are seen with it; what has ended is the home's."""
    ended = [limited_jobs.one_a_customer.enqueue(one, 0).id for one in ("ada", "bob")]
    ended.append(letters.send.enqueue("ended").id)
    work()
    mine, other = [limited_jobs.one_a_customer.enqueue(one, 1).id for one in ("ada", "bob")]
    plain_one = letters.send.enqueue("waits").id
    name, others = [backend.found(one).record["queue"] for one in (mine, other)]
    sees(name)
    assert reader.get(page_of(mine, name)).status_code == 200
    assert reader.get(ACROSS + "find/", {"id": mine}).url == page_of(mine, name)
    hidden = [*ended, other, plain_one]
    for address in (lambda one: page_of(one, name), lambda one: f"{ACROSS}find/?id={one}"):
        nothing = told(reader.get(address("0" * 32)), "0" * 32)
        assert [told(reader.get(address(one)), one) for one in hidden] == [nothing] * len(hidden)
    assert [reader.get(of(one)).status_code for one in (QUEUE, others)] == [403, 403]


def test_rest_shows_limited_tasks_to_who_may_view_their_home(reader, admin_user, sees, backend):
    """It lists and reads their queues, and no others; what may be done with them is unchanged."""
    for name in ("default", "other"):
        limited_jobs.one_a_customer.using(queue_name=name).enqueue("ada", 1)
    client = APIClient()
    client.force_authenticate(admin_user)
    seen, hidden = sorted(name for name in backend.catalog.names() if name.startswith("limited"))
    answer = client.get("/api/queues/").json()
    assert [(one["name"], one["home"]) for one in answer["queues"]] == [(seen, QUEUE)]
    assert client.get(f"/api/queues/{seen}/items/").status_code == 200
    assert client.get(f"/api/queues/{hidden}/items/").status_code == 403
    assert client.post(f"/api/queues/{seen}/pause/", {}, format="json").status_code == 403
    sees(HIDDEN)
    assert client.get(f"/api/queues/{seen}/items/").status_code == 403


# Groups


def in_groups(part, work, *queues):
    """Run a group with a part, and return the page's address of its first task, and all ids."""
    first = call(letters.send, "ada")
    result = group([first, chain(part, letters.send), call(letters.send, "bob")]).enqueue()
    work(*queues)
    ids = [one.id for one in (*result.parts(), *result.parts()[1].result().parts())]
    return page_of(result.parts()[0].id), [result.id, *ids]


def test_how_hidden_tasks_of_a_group_have_ended(reader, work, backend, sees):
    """Neither their lines tell it, nor the sums; who may view them is told."""
    found = []
    for letter, queues in ((letters.send, ()), (letters.lose, ()), (letters.send, ("default",))):
        hidden = call(letter.using(queue_name="other"), "<b>")
        address, ids = in_groups(hidden, work, *queues)
        response = reader.get(address)
        found.append(outline(response))
        hidden_id = ids[4]
        assert hidden_id not in text(response)
        sees(QUEUE, HIDDEN)
        lines = outline(reader.get(address))
        assert any(line.startswith("Chain of 2: ") for line in lines)
        assert page_of(hidden_id, HIDDEN) in text(reader.get(address)) or queues
        sees(QUEUE)
    assert found[0][:4] == [
        "Group of 3",
        "tests.tasks.letters.send Successful",
        "Chain of 2",
        "a task of another queue",
    ]
    assert [lines[:4] for lines in found[1:]] == [found[0][:4]] * 2
    assert [lines[5:] for lines in found] == [["tests.tasks.letters.send Successful"]] * 3


def test_sums_of_a_group_whose_queues_may_all_be_viewed(reader, work, monkeypatch):
    """They are shown, however many parts are not; and of limited parts to who views their home."""
    monkeypatch.setattr("fdbqueue.tasks.group_outlines._MAX_PARTS", 1)
    limited = call(limited_jobs.one_a_customer, "ada", 1)
    result = group([call(letters.send, "ada"), limited, call(letters.send, "bob")]).enqueue()
    work()
    page = page_of(result.parts()[0].id)
    assert outline(reader.get(page))[0] == "Group of 3: 3 ended, 0 failed Successful"
    monkeypatch.setattr("fdbqueue.tasks.group_outlines._MAX_PARTS", 20)
    assert outline(reader.get(page))[2] == "tests.tasks.limited_jobs.one_a_customer Successful"
    (address,) = {*re.findall(rf'href="({LIST}limited[.][^"]*)"', text(reader.get(page)))}
    assert reader.get(address).status_code == 200


@pytest.mark.parametrize("most", [0, 100], ids=["unknown", "known"])
def test_the_queues_of_a_tree_may_not_be_known(reader, sees, work, monkeypatch, most):
    """Then who may view all queues of the backend is told how far it is."""
    monkeypatch.setattr("fdbqueue.tasks.groups._MAX_QUEUES", most)
    result = group([call(letters.send, "ada")]).enqueue()
    work()
    page = page_of(result.parts()[0].id)
    assert outline(reader.get(page))[0].startswith("Group of 1: 1 ended") is (most > 0)
    sees(QUEUE, HIDDEN)
    assert outline(reader.get(page))[0].startswith("Group of 1: 1 ended")


# Schedules


@pytest.fixture
def schedule(settings):
    """Set the schedules of the backend, and return it."""

    def schedule(**schedules):
        every = {"task": "tests.tasks.letters.send", "args": ["ada"], "every": 60}
        found = {name: {**every, "queue_name": queue} for name, queue in schedules.items()}
        options = {**settings.TASKS["default"], "OPTIONS": {"schedules": found}}
        settings.TASKS = {**settings.TASKS, "default": options}
        return task_backends["default"]

    return schedule


def test_what_became_of_a_hidden_task_of_a_schedule(reader, sees, schedule, work):
    """Of a schedule that had another queue before, its latest task is hidden."""
    backend = schedule(one="other")
    periodic = DueSchedules(backend, backend.catalog)
    periodic.enqueue_due()
    with time_ahead(seconds=120):
        assert periodic.enqueue_due() == 1
    schedule(one="default")
    waits = told(reader.get(ACROSS + "schedules/"))
    work("other")
    assert told(reader.get(ACROSS + "schedules/")) == waits
    (row,) = rows_in(reader.get(ACROSS + "schedules/"))
    assert row[5:] == [DASH, QUEUE]
    sees(QUEUE, HIDDEN)
    (row,) = rows_in(reader.get(ACROSS + "schedules/"))
    assert row[5:] == ["Successful", QUEUE]


def test_hidden_schedules_take_no_place(reader, schedule, monkeypatch):
    """However many there are, all that may be seen are read, and no others counted."""
    monkeypatch.setattr(functions_and_schedules, "MAX_SCHEDULES", 2)
    seen = {"seen": "default", "too": "default"}
    schedule(**{f"hidden{number}": "other" for number in range(3)}, **seen)
    found = told(reader.get(ACROSS + "schedules/"))
    assert len(rows_in(reader.get(ACROSS + "schedules/"))) == 2
    schedule(**seen)
    assert told(reader.get(ACROSS + "schedules/")) == found
    schedule(**seen, more="default")
    assert "more schedules than were read" in text(reader.get(ACROSS + "schedules/"))
