"""Where the page of a queue of tasks opens, what it says of today, and where limited tasks are."""

from __future__ import annotations

import datetime
import html
import logging
import re
from zoneinfo import ZoneInfo

import pytest

from fdbqueue.service import now_us
from fdbqueue.tasks import abort
from fdbqueue.tasks.task_worker import TaskWorker
from tests.injection import time_ahead
from tests.pages import watched_engine
from tests.pages.addresses import LIST, of, text
from tests.pages.conftest import person
from tests.tasks import letters, limited_jobs
from tests.tasks.conftest import backend_of

QUEUE = "tasks-default"
PAGE = of(QUEUE)
_HOUR = 3_600


@pytest.fixture
def backend(empty_queues, settings, db):
    """A backend whose tasks are in queues of the test's own."""
    return backend_of(settings, max_attempts=1)


@pytest.fixture
def queue(backend):
    """The queue of the tasks."""
    return backend.queue("default")


@pytest.fixture
def work(backend):
    """Run what is ready."""
    return lambda: TaskWorker(backend, follow=False, worker="w").run()


@pytest.fixture
def viewer(backend):
    """Somebody who may view queues."""
    return person("viewer", "view_queue")


def opened(page):
    """Return the name of the tab that a page shows."""
    return re.search(r'id="tab-(\w+)"[^>]*aria-current="page"', text(page))[1]


def address(page, tab):
    """Return where a tab of a page leads."""
    return html.unescape(re.search(rf'id="tab-{tab}" href="([^"]+)"', text(page))[1])


def today(page):
    """Return the figures of today, by their names."""
    found = re.findall(r'id="figure-(\w+)-today" href="[^"]*">([^<]*)<', text(page))
    return dict(found)


def test_a_queue_opens_where_something_is(viewer, queue, work, backend):
    """Ready tasks first, then those that run, have failed, are scheduled, are done."""
    assert opened(viewer.get(PAGE)) == "ready"
    letters.send.enqueue("ada")
    work()
    found = [opened(viewer.get(PAGE))]
    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    letters.send.using(run_after=later).enqueue("ada")
    found.append(opened(viewer.get(PAGE)))
    letters.lose.enqueue()
    work()
    found.append(opened(viewer.get(PAGE)))
    letters.send.enqueue("ada")
    queue.lease(seconds=60, worker="w")
    found.append(opened(viewer.get(PAGE)))
    letters.send.enqueue("ada")
    found.append(opened(viewer.get(PAGE)))
    assert found == ["done", "delayed", "dead", "leased", "ready"]
    rows = text(viewer.get(PAGE)).partition('id="items-caption"')[2]
    assert rows.count('<th scope="row"') == 1


def test_the_tab_that_was_opened_stays(viewer, work):
    """Every link of the page names it, and so does what refreshes it."""
    letters.send.enqueue("ada")
    work()
    page = viewer.get(PAGE)
    (live,) = re.findall(r'hx-get="([^"]+)"', text(page))
    assert html.unescape(live) == f"{PAGE}?state=done"
    assert address(page, "ready") == "?state=ready#fdbqueue-live"
    letters.send.enqueue("ada")
    assert opened(viewer.get(html.unescape(live))) == "done"
    assert opened(viewer.get(PAGE + "?refresh=0")) == "ready"


@pytest.mark.parametrize("asked", ["state=ready", "function=send", "end=max", "q=ada"])
def test_who_asks_for_tasks_gets_these(viewer, work, asked):
    """And no others, if there are none."""
    letters.send.enqueue("ada")
    work()
    assert opened(viewer.get(f"{PAGE}?{asked}")) == "ready"


def test_to_open_costs_nothing(viewer, work, queue, settings):
    """As many reads as to ask for that tab, at whatever it opens."""
    settings.FDBQUEUE = {**settings.FDBQUEUE, "ENGINE": "tests.pages.watched_engine"}

    def reads(query):
        watched_engine.reads.clear()
        assert viewer.get(PAGE + query).status_code == 200
        return len(watched_engine.reads)

    for _ in range(3):
        letters.send.enqueue("ada")
    work()
    assert reads("") == reads("?state=done")
    letters.lose.enqueue()
    work()
    assert reads("") == reads("?state=dead")
    letters.send.enqueue("ada")
    assert reads("") == reads("?state=ready")


def test_what_ended_today(viewer, work):
    """Since midnight in the project's zone; an aborted task has failed, as its status says."""
    assert today(viewer.get(PAGE)) == {"done": "0", "dead": "0"}
    with time_ahead(-30 * _HOUR):
        letters.send.enqueue("ada")
        letters.lose.enqueue()
        work()
    letters.send.enqueue("ada")
    letters.send.enqueue("ada")
    letters.lose.enqueue()
    work()
    abort(letters.send.enqueue("ada").id)
    assert today(viewer.get(PAGE)) == {"done": "2", "dead": "2"}


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Asia/Kolkata", "America/Los_Angeles"])
def test_today_begins_at_midnight_of_the_project(viewer, work, settings, zone):
    """Not at that of UTC."""
    settings.TIME_ZONE = zone
    now = datetime.datetime.fromtimestamp(now_us() / 1_000_000, ZoneInfo(zone))
    gone = now - now.replace(hour=0, minute=0, second=0, microsecond=0)
    with time_ahead(-gone.total_seconds() - 600):
        letters.send.enqueue("yesterday")
        work()
    assert today(viewer.get(PAGE))["done"] == "0"
    with time_ahead(24 * _HOUR - gone.total_seconds() + 600):
        letters.send.enqueue("tomorrow")
        work()
        assert today(viewer.get(PAGE))["done"] == "1"


def test_what_is_counted_of_today_is_bounded(viewer, work, monkeypatch):
    """Of more it says that there are more."""
    monkeypatch.setattr("fdbqueue.tasks.pages.ended._MAX_COUNTED", 3)
    monkeypatch.setattr("fdbqueue.tasks.pages.ended._MAX_READ", 1)
    for _ in range(3):
        letters.send.enqueue("ada")
        letters.lose.enqueue()
    work()
    assert today(viewer.get(PAGE)) == {"done": "3", "dead": "3"}
    letters.send.enqueue("ada")
    letters.lose.enqueue()
    work()
    assert today(viewer.get(PAGE)) == {"done": "3+", "dead": "3+"}


def test_what_is_not_kept_for_a_day_is_not_counted(viewer, settings, empty_queues):
    """A figure would be less than the truth."""
    backend_of(settings, retention={"successful": 3_600, "failed": None})
    assert today(viewer.get(PAGE)) == {"dead": "0"}


# Limited tasks


@pytest.fixture
def part(backend):
    """The queue of a key, with a ready task."""
    task = limited_jobs.two_a_customer.enqueue("Tonga & co", 1)
    return backend.catalog.queue(backend.found(task.id).record["queue"])


LABEL = "tasks-default: Tonga &amp; co"


def shown(page):
    """Return the text of a page, without attributes, commands, and what is folded as code."""
    body = re.sub(r"<code.*?</code>", "", text(page), flags=re.DOTALL)
    return re.sub(r"<[^>]*>", " ", body.partition("<body")[2])


def test_a_limited_queue_is_a_part_of_its_home(viewer, part, backend):
    """Wherever a page names it: by its home and its key, not as it is stored."""
    part.push({"no": "task"})
    item = part.lease(seconds=60)
    part.bury(part.peek().id, reason="broken")
    family = f"{LIST}?name=limited.tasks-default.*"
    pages = {
        path: viewer.get(path)
        for path in (
            of(part.name),
            f"{of(part.name)}?state=dead",
            f"{of(part.name)}items/{item.id}/",
            f"{of(part.name)}tasks/{item.value['id']}/",
            family,
            f"{LIST}-/workers/",
            f"{LIST}-/failures/",
        )
    }
    for path, page in pages.items():
        assert LABEL in shown(page), path
        assert "limited." not in shown(page), path
    assert "tasks-default: limited tasks" in shown(viewer.get(LIST))
    assert "limited." not in shown(viewer.get(LIST))
    assert f'<a href="{PAGE}">{QUEUE}</a>' in text(pages[of(part.name)])
    backend.catalog.family("limited.tasks-default.*").pause()
    paused = viewer.get(of(part.name))
    assert "All queues of the family tasks-default: limited tasks are paused" in shown(paused)


def test_a_limited_queue_is_found_by_what_is_shown(viewer, part):
    """By its home and its key, or by a part of these; and as it is stored, as links name it."""
    limited_jobs.two_a_customer.enqueue("Samoa", 1)
    family = "limited.tasks-default.*"
    stored = part.name.rpartition(".")[0] + ".To*"
    for name, text_in_it, count in (
        (family, "Tonga &", 1),
        (family, "tasks-default: To", 1),
        (family, "tasks-default", 2),
        (stored, "", 1),
        (family, "other: Tonga", 0),
    ):
        page = viewer.get(LIST, {"name": name, "q": text_in_it})
        assert text(page).count('id="queue-limited.') == count, (name, text_in_it)
        assert (LABEL in shown(page)) == bool(count), (name, text_in_it)


def test_a_key_may_be_any_text(viewer, backend):
    """It is shown as text, and what cannot be seen as an escape."""
    for key in ("<b>x</b>", "\u202etxt", "a\nb"):
        task = limited_jobs.two_a_customer.enqueue(key, 1)
        name = backend.found(task.id).record["queue"]
        assert "<b>x" not in text(viewer.get(of(name)))
        assert "\u202e" not in text(viewer.get(of(name)))
    assert "tasks-default: &lt;b&gt;x&lt;/b&gt;" in text(
        viewer.get(f"{LIST}?name=limited.tasks-default.*")
    )


def test_the_done_tasks_of_a_limited_queue(viewer, part, work):
    """They are in its home, where its tab leads: those of its function."""
    work()
    letters.send.enqueue("ada")
    work()
    page = viewer.get(of(part.name))
    assert opened(page) == "ready"
    assert today(page) == {}
    there = viewer.get(address(page, "done"))
    assert opened(there) == "done"
    rows = text(there).partition('id="items-caption"')[2]
    assert "two_a_customer" in rows
    assert "send" not in rows
    here = viewer.get(f"{of(part.name)}?state=done")
    assert "two_a_customer" in text(here).partition('id="items-caption"')[2]


def test_a_key_that_its_limit_holds(viewer, part, backend):
    """The list says how many run; the limit itself is not the queue's, but stored."""
    with time_ahead(-1_800):
        limited_jobs.two_a_customer.enqueue("Tonga & co", 2)
        limited_jobs.two_a_customer.enqueue("Tonga & co", 3)
    part.lease_many(2, seconds=60)
    for path in (LIST, f"{LIST}?name=limited.tasks-default.*"):
        found = shown(viewer.get(path)).partition("At its limit")[2]
        assert re.search(r"2 leased, \d", found[:300]), path


def test_the_log_names_the_home(part, work, caplog):
    """Of a task that ran."""
    caplog.set_level(logging.INFO, "fdbqueue.tasks")
    work()
    queues = {record.queue for record in caplog.records if hasattr(record, "queue")}
    assert queues == {QUEUE}
