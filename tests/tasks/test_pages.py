"""Tasks in the pages of their queues, and the page of a task."""

from __future__ import annotations

import datetime
import functools
import html
import re
import shlex
import sys

import pytest
from django.apps import apps
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

import fdbqueue
from fdbqueue.columns import DASH
from fdbqueue.columns.text import lasting
from fdbqueue.pages import readings
from fdbqueue.service import run
from fdbqueue.tasks import abort, call, chain, group, group_result
from fdbqueue.tasks.columns import shown_attempts
from fdbqueue.tasks.compat import TaskResultStatus, task_backends
from fdbqueue.tasks.pages import functions_and_schedules
from fdbqueue.tasks.records import AttemptFailure, Attempts, is_id, unknown_call
from fdbqueue.tasks.schedules import DueSchedules
from fdbqueue.tasks.states import TaskState
from fdbqueue.tasks.task_worker import TaskWorker
from tests.cases import cases
from tests.injection import time_ahead
from tests.pages import watched_engine
from tests.pages.addresses import LIST, first, following, of, previous, text
from tests.pages.conftest import person
from tests.tasks import expiring_jobs, letters, limited_jobs, retry_jobs, timed_jobs
from tests.tasks.conftest import backend_of

QUEUE = "tasks-default"
PAGE = of(QUEUE)
ACROSS = f"{LIST}-/"


@pytest.fixture
def fdbqueue_queues():
    """A queue of other items."""
    return {"mail": {"kind": "fifo"}, "numbers": {"kind": "priority"}}


@pytest.fixture(autouse=True)
def backend(empty_queues, settings, db):
    """A backend whose tasks are in queues of the test's own."""
    return backend_of(settings)


@pytest.fixture
def queue(backend):
    """The queue of the tasks."""
    return backend.queue("default")


@pytest.fixture
def work(backend):
    """Run what is ready."""

    def work():
        TaskWorker(backend, follow=False, worker="w<1>").run()

    return work


@pytest.fixture
def watched(settings, monkeypatch):
    """The same queues on the same engine, with each read and write noted."""
    settings.FDBQUEUE = {**settings.FDBQUEUE, "ENGINE": "tests.pages.watched_engine"}
    # a queue that nothing takes from costs some reads more, and the machine may be slow
    monkeypatch.setattr("fdbqueue.columns.attention_causes.WORKERLESS_SECONDS", 3_600)
    watched_engine.reads.clear()
    watched_engine.writes.clear()
    return watched_engine


def page_of(task_id, name=QUEUE):
    """Return the address of a task's page."""
    return f"{of(name)}tasks/{task_id}/"


def table(response, caption="items-caption"):
    """Return the rows of a table: the text of each cell by its heading."""
    markup = text(response).partition(f'id="{caption}"')[2].partition("</table>")[0]
    headings = [plain(found) for found in re.findall(r'<th scope="col"[^>]*>(.*?)</th>', markup)]
    rows = re.findall(r"<tr[^>]*>\s*(<t[hd](?! scope=\"col\").*?)</tr>", markup, re.DOTALL)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    return [dict(zip(headings, map(plain, row), strict=True)) for row in cells]


def facts(response):
    """Return the facts of a task's page."""
    markup = text(response).partition('id="metadata-caption"')[2].partition("</table>")[0]
    rows = re.findall(r'<th scope="row">(.*?)</th><td>(.*?)</td>', markup, re.DOTALL)
    return {plain(heading): plain(value) for heading, value in rows}


def plain(markup):
    """Return the text of some markup."""
    markup = markup.replace("<wbr>", "")
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", markup))).strip()


def command(response, number=1, name="command"):
    """Return a command that a page shows, as its arguments behind ``manage.py``."""
    found = re.search(rf'<code id="{name}-{number}">(.*?)</code>', text(response))
    words = shlex.split(html.unescape(found[1]))
    assert words[:2] == ["python", "manage.py"]
    return words[2:]


# The lists


def test_a_ready_task(viewer):
    """It reads as its function, its arguments, its priority and its attempts; in their order."""
    letters.send.enqueue("ada", urgent=True, copies=[1, None])
    letters.send.using(priority=5).enqueue("grace")
    response = viewer.get(PAGE)
    later, earlier = table(response)
    assert later["Function"] == "send"
    assert (later["Arguments"], later["Priority"]) == ('"grace"', "5")
    assert earlier["Arguments"] == '"ada", urgent=true, copies=[1, null]'
    assert earlier["State"] == "Ready"
    assert earlier["Attempts"] == "0 of 5"
    assert " ago" in earlier["Enqueued"]
    shown = text(response)
    assert 'title="tests.tasks.letters.send"' in shown
    assert "Tasks 1 to 2" in shown
    assert "Lowest priority" not in shown
    assert 'id="table-priorities"' not in shown


@pytest.mark.parametrize(("seconds", "ago"), [(1_200, "10 min ago"), (3_600, "50 min ago")])
def test_a_task_runs_since_its_lease_began(viewer, queue, backend, seconds, ago):
    """However long the lease is, and what the backend says of the length of leases."""
    ahead = 600 - seconds
    before = timezone.now()
    with time_ahead(ahead):
        task = letters.send.enqueue("ada")
        queue.lease(worker="anna", seconds=seconds)
    after = timezone.now()
    (row,) = table(viewer.get(PAGE + "?state=leased"))
    assert row["Running since"] == ago
    task.refresh()
    assert task.status is TaskResultStatus.RUNNING
    since = task.last_attempted_at - datetime.timedelta(seconds=ahead)
    assert before <= since <= after


def test_a_running_task(viewer, queue, backend):
    """It reads with its worker and since when it runs; a lost worker and an abort read as such."""
    task = letters.send.enqueue("ada")
    queue.lease(worker="host:<1>", seconds=60)
    (row,) = table(viewer.get(PAGE + "?state=leased"))
    assert (row["State"], row["Worker"], row["Attempts"]) == ("Running", "host:<1>", "1 of 5")
    assert " ago" in row["Running since"]
    abort(task.id)
    (row,) = table(viewer.get(PAGE + "?state=leased"))
    assert row["State"] == "Running, abort requested"
    letters.send.enqueue("grace")
    queue.lease(worker="gone", seconds=0.001)
    states = {row["State"] for row in table(viewer.get(PAGE + "?state=leased"))}
    assert states == {"Running, abort requested", "Worker lost"}


def test_scheduled_tasks(viewer, work):
    """Those with a time of their own, and those that wait for another attempt."""
    letters.wait.enqueue("ada")
    work()
    at = timezone.now() + datetime.timedelta(hours=3, minutes=5)
    letters.send.using(run_after=at).enqueue("grace")
    rows = {row["Function"]: row for row in table(viewer.get(PAGE + "?state=delayed"))}
    assert rows["wait"]["State"] == "Retry scheduled"
    assert rows["wait"]["Attempts"] == "1 of 5"
    assert rows["send"]["State"] == "Scheduled"
    assert "in 3" in rows["send"]["Runs after"]


def test_failed_tasks_by_exception(viewer, work, queue, capsys):
    """Each exception has a number, a link that shows its tasks alone, and a command that works."""
    for name in ("ada", "grace"):
        letters.refuse.enqueue(name)
    letters.lose.enqueue("mary")
    work()
    response = viewer.get(PAGE + "?state=dead")
    groups = table(response, "reasons-caption")
    assert [(row["Exception"], row["Tasks"]) for row in groups] == [
        ("tests.tasks.letters.Refused", "2"),
        ("LookupError", "1"),
    ]
    assert len(table(response)) == 3
    address = html.unescape(re.search(r'<a id="reason-1" href="([^"]+)"', text(response))[1])
    chosen = table(viewer.get(PAGE + address))
    assert {row["Function"] for row in chosen} == {"refuse"}
    assert chosen[0]["Attempts"] == "2 of 2"
    assert chosen[0]["Last error"].startswith("no <b>route</b> to grace Traceback")
    assert chosen[1]["Last error"].startswith("no <b>route</b> to ada Traceback")
    assert "In all rows: tests.tasks.letters.Refused" in plain(text(viewer.get(PAGE + address)))
    errors = [row["Last error"] for row in table(response)]
    assert any(error.startswith("Refused : no <b>route</b> to ada") for error in errors)
    assert 'raise Refused(f"no <b>route</b>' in chosen[0]["Last error"]
    assert "<b>" not in text(response)
    call_command(*command(response, 1, "redrive"), "--no-input")
    assert (queue.counts().ready, queue.counts().dead) == (2, 1)
    assert {row["Attempts"] for row in table(viewer.get(PAGE))} == {"0 of 2"}


def test_tasks_that_are_done(viewer, work):
    """The latest first, in pages that lead forward and back, each task once."""
    for number in range(60):
        letters.send.enqueue(number)
    work()
    response = viewer.get(PAGE + "?state=done&limit=25")
    pages = [response]
    while following(response):
        response = viewer.get(PAGE + following(response))
        pages.append(response)
    found = [int(row["Arguments"]) for page in pages for row in table(page)]
    assert found == list(range(59, -1, -1))
    assert [len(table(page)) for page in pages] == [25, 25, 10]
    (row,) = table(pages[0])[:1]
    assert row["Returned"] == '{"sent": 59}'
    assert re.fullmatch(r"[\d.]+ m?s", row["Duration"])
    assert row["Attempts"] == "1 of 5"
    back = viewer.get(PAGE + previous(pages[2]))

    def called(response):
        return [row["Arguments"] for row in table(response)]

    assert called(back) == called(pages[1])
    assert called(viewer.get(PAGE + previous(back))) == called(pages[0])
    assert called(viewer.get(PAGE + first(pages[2]))) == called(pages[0])


def aborted_page(viewer, parameters=""):
    """Return the page of the aborted tasks."""
    return viewer.get(f"{PAGE}?state=aborted{parameters}")


def test_tasks_that_were_aborted(viewer, work):
    """The latest first, without those that failed, succeeded or wait."""
    letters.lose.enqueue("dead")
    letters.send.enqueue("done")
    work()
    for number in range(3):
        abort(letters.send.enqueue(number).id)
    letters.send.enqueue("waits")
    response = aborted_page(viewer)
    rows = table(response)
    assert [row["Arguments"] for row in rows] == ["2", "1", "0"]
    assert (rows[0]["Function"], rows[0]["Attempts"]) == ("send", "0 of 5")
    assert " ago" in rows[0]["Ended"]
    assert table(aborted_page(viewer, "&function=long")) == []


def test_aborted_tasks_among_failed_ones(viewer, work, queue, monkeypatch):
    """A page looks at a bounded number of failed tasks, and the next goes on from there."""
    monkeypatch.setattr("fdbqueue.pages.item_list.MAX_ITEMS_SEARCHED", 30)
    abort(letters.send.enqueue("aborted").id)
    for number in range(40):
        letters.lose.enqueue(number)
    work()
    assert queue.counts().dead == 40
    response = aborted_page(viewer)
    assert table(response) == []
    assert "0 hits in 30 items looked at" in plain(text(response))
    on = re.search(r'id="search-on" href="([^"]+)"', text(response))[1]
    (row,) = table(viewer.get(PAGE + html.unescape(on)))
    assert row["Arguments"] == '"aborted"'


def test_an_aborted_task_that_had_failed_before(viewer, work, queue):
    """It is listed once, with its last end, however long its record is."""
    task = letters.lose.enqueue("x" * 120_000)
    work()
    queue.redrive()
    abort(task.id)
    (row,) = table(aborted_page(viewer))
    assert row["Arguments"] == "Too long to show here"


def test_a_long_result_in_a_list(viewer, work):
    """It takes one read as all others; its page has it all."""
    task = letters.long.enqueue(300_000)
    work()
    (row,) = table(viewer.get(PAGE + "?state=done"))
    assert row["Returned"] == "Too long to show here"
    assert (row["Function"], row["Duration"]) == ("long", DASH)
    assert "x" * 300_000 in text(viewer.get(page_of(task.id)))


def test_the_result_of_a_done_task_is_gone(viewer, work, backend):
    """The list shows what its index says, and the task's page is not there."""
    task = letters.send.enqueue("ada")
    work()
    run(backend.catalog.database, lambda tr: backend.records.remove(tr, task.id))
    (row,) = table(viewer.get(PAGE + "?state=done"))
    assert row["Function"] == "send"
    assert viewer.get(page_of(task.id)).status_code == 404


@pytest.mark.parametrize("wanted", ["tests.tasks.letters.long", "letters.long", "long"])
def test_tasks_of_one_function(viewer, work, wanted):
    """A whole path or the end of one chooses them, in every tab."""
    for _ in range(3):
        letters.send.enqueue("ada")
    letters.long.enqueue(1)
    (row,) = table(viewer.get(f"{PAGE}?function={wanted}"))
    assert row["Function"] == "long"
    work()
    response = viewer.get(f"{PAGE}?state=done&function={wanted}")
    (row,) = table(response)
    assert row["Function"] == "long"
    assert "4 items looked at; there are no more." in plain(text(response))
    assert "None of these tasks matches." in text(viewer.get(PAGE + "?state=done&function=on"))


@pytest.mark.parametrize("state", ["ready", "done"])
def test_a_search_is_bounded(viewer, work, monkeypatch, state):
    """It looks at so many tasks, says so, and continues from there."""
    monkeypatch.setattr("fdbqueue.pages.item_list.MAX_ITEMS_SEARCHED", 30)
    tasks = [functools.partial(letters.send.enqueue, number) for number in range(35)]
    tasks.append(functools.partial(letters.long.enqueue, 1))
    for enqueue in tasks if state == "ready" else reversed(tasks):
        enqueue()
    if state == "done":
        work()
    response = viewer.get(f"{PAGE}?state={state}&function=long")
    assert table(response) == []
    assert "0 hits in 30 items looked at" in plain(text(response))
    on = re.search(r'id="search-on" href="([^"]+)"', text(response))[1]
    (row,) = table(viewer.get(PAGE + html.unescape(on)))
    assert row["Function"] == "long"


def test_a_tab_drops_the_filters_it_does_not_have(viewer, work):
    """The order, the text and the exception are not kept where they mean nothing."""
    shown = text(viewer.get(PAGE + "?state=dead&q=a&end=max&exception=e&function=f"))
    addresses = dict(re.findall(r'id="tab-(\w+)" href="([^"]+)"', shown))
    assert html.unescape(addresses["done"]) == "?function=f&state=done#fdbqueue-live"
    assert (
        html.unescape(addresses["leased"]) == "?end=max&function=f&q=a&state=leased#fdbqueue-live"
    )


@cases(
    ("query", "message"),
    [
        ("state=done&end=max", "they have no other order."),
        ("state=aborted&end=max", "they have no other order."),
        ("state=dead&end=until", "Items in this state have no such order."),
        ("state=ready&end=died", "Items in this state have no such order."),
        ("state=done&q=ada", "are not searched by their arguments."),
        ("state=aborted&q=ada", "are not searched by their arguments."),
        ("exception=KeyError", "Only failed tasks have an exception."),
        ("state=done&exception=KeyError", "Only failed tasks have an exception."),
    ],
)
def test_what_does_not_fit_a_tab(viewer, query, message):
    """An order or a filter is never ignored: the page says why it has none."""
    response = viewer.get(f"{PAGE}?{query}")
    assert response.status_code == 400
    assert message in plain(text(response))


@cases(
    "query",
    [
        "state=gone",
        "state=done&after=x",
        "state=done&after=1-",
        "state=done&after=-1-a",
        "state=aborted&after=x",
        f"state=done&before={'9' * 30}-a",
        f"function={'x' * 400}",
        "state=dead&exception=a%00b",
    ],
)
def test_bad_parameters(viewer, query):
    """They are pointed out in the frame."""
    response = viewer.get(f"{PAGE}?{query}")
    assert response.status_code == 400
    assert "errornote" in text(response)
    assert "Home</a>" in text(response)


# What is not a task, or whose code is gone


def test_an_item_that_is_no_task(viewer, queue):
    """It reads as what it is, with a link to its own page."""
    item = queue.push({"to": "<i>ada</i>"})
    queue.push(None)
    rows = table(viewer.get(PAGE))
    assert [row["Function"] for row in rows] == ["Not a task"] * 2
    assert [row["Arguments"] for row in rows] == ['{"to": "<i>ada</i>"}', "null"]
    assert of(QUEUE, item) in text(viewer.get(PAGE))
    response = viewer.get(of(QUEUE, item))
    assert response.status_code == 200
    assert facts(response)["Task"] == "Not a task"


@pytest.mark.parametrize("state", ["ready", "leased", "delayed", "dead"])
@pytest.mark.parametrize("task_id", ["", "a/b", "..", "x" * 20_000, "\u202eid", "ok-1"])
def test_a_call_that_no_backend_has_written(viewer, queue, task_id, state):
    """Nothing of it is trusted: it is shown, escaped, and linked only where there can be a page."""
    path = "antigravity.<b>\u202efly</b>"
    call = {"id": task_id, "task": path, "args": ["<b>"], "kwargs": {"<b>": 1}, "backend": "<b>"}
    item = queue.push(call, delay=3_600 if state == "delayed" else None)
    if state == "dead":
        queue.bury(item.id, reason="<b>why</b>")
    if state == "leased":
        queue.lease()
    response = viewer.get(f"{PAGE}?state={state}")
    assert response.status_code == 200
    (row,) = table(response)
    if is_id(task_id):
        assert row["Function"] == "<b>\\u202efly</b>"
        assert row["Arguments"] == '"<b>", <b>=1'
    else:
        assert row["Function"] == "Not a task"
    assert "<b>" not in text(response)
    assert ("/tasks/" in text(response)) == (task_id == "ok-1")
    assert viewer.get(of(QUEUE, item)).status_code == 200
    assert viewer.get(f"{PAGE}?state={state}&function=fly&q=x").status_code == 200
    assert "antigravity" not in sys.modules


def test_a_task_whose_code_is_gone(viewer, queue, work, backend):
    """It reads as any other, but for the number of attempts that it might have had."""
    task = letters.send.enqueue("ada")
    (item,) = queue.page().items
    queue.remove(item.id)
    gone = {**item.value, "task": "shop.gone.send", "max_attempts": 1}
    new = queue.push(gone, item.priority)
    (row,) = table(viewer.get(PAGE))
    assert (row["Function"], row["Attempts"]) == ("send", "0")
    record = {"queue": QUEUE, "item": new.id}
    run(queue.database, lambda tr: backend.records.write(tr, task.id, record))
    work()
    (row,) = table(viewer.get(PAGE + "?state=dead"))
    assert row["Last error"].startswith("TaskUnknown : ")
    found = facts(viewer.get(page_of(task.id)))
    assert (found["State"], found["Function"]) == ("Failed", "shop.gone.send")


# The page of a task


def test_the_page_of_a_waiting_task(viewer, capsys):
    """It has the call, and the command that aborts it, which works."""
    at = timezone.now() + datetime.timedelta(hours=3, minutes=5)
    task = letters.send.using(run_after=at, priority=7).enqueue("<b>ada</b>", copies=[1])
    response = viewer.get(page_of(task.id))
    found = facts(response)
    assert found["State"] == "Scheduled"
    assert found["Function"] == "tests.tasks.letters.send"
    assert found["Attempts"] == "0 of 5"
    assert (found["Priority"], found["Task id"]) == ("7", task.id)
    assert "in 3" in found["Asked to run after"]
    shown = text(response)
    assert "<h1>Task send</h1>" in shown
    assert "&lt;b&gt;ada&lt;/b&gt;" in shown
    assert "<b>ada" not in shown
    assert "No worker has begun it." in shown
    assert "Return value" not in shown
    call_command(*command(response))
    found = facts(viewer.get(page_of(task.id)))
    assert found["State"] == "Aborted"
    assert "Item" not in found


def test_the_page_of_a_failed_task(viewer, work, queue, capsys):
    """It has each attempt with its worker and traceback, and the command that runs it again."""
    task = letters.refuse.enqueue("ada")
    work()
    response = viewer.get(page_of(task.id))
    found = facts(response)
    assert (found["State"], found["Attempts"]) == ("Failed", "2 of 2")
    shown = text(response)
    attempts = [plain(one) for one in re.findall(r"<h3>(.*?)</h3>", shown)]
    assert attempts == ["Attempt 2: Failed", "Attempt 1: Failed"]
    assert shown.count("w&lt;1&gt;") == 2
    assert shown.count("Error: <bdi>tests.tasks.letters.Refused</bdi>") == 2
    assert shown.count("Traceback (most recent call last):") == 2
    assert "no &lt;b&gt;route&lt;/b&gt; to ada" in shown
    assert "<details open" not in shown.partition("fdbqueue-attempts")[2]
    item = re.search(rf'href="({re.escape(PAGE)}items/[^"]+)"', shown)[1]
    assert page_of(task.id) in text(viewer.get(item))
    call_command(*command(response), "--no-input")
    assert facts(viewer.get(page_of(task.id)))["State"] == "Ready"
    assert queue.counts().dead == 0


def test_the_page_of_a_failed_task_says_why_first(viewer, work):
    """The state, the message and the last traceback come before everything else, unfolded."""
    task = letters.refuse.enqueue("ada")
    work()
    shown = text(viewer.get(page_of(task.id)))
    why, _section, rest = shown.partition('class="fdbqueue-why ')[2].partition("</section>")
    assert why.startswith("fdbqueue-why-bad")
    assert plain(re.search(r"<h2[^>]*>(.*?)</h2>", why, re.DOTALL)[1]) == "Failed attempts: 2 of 2"
    assert "<bdi>no &lt;b&gt;route&lt;/b&gt; to ada</bdi></p>" in why
    assert '<details id="traceback-2" class="fdbqueue-figures" open>' in why
    assert '<details id="traceback-1" class="fdbqueue-figures">' in rest
    behind = ("metadata-caption", "arguments-heading", "command-1")
    places = [rest.index(f'id="{name}"') for name in behind]
    assert places == sorted(places)


def test_the_page_of_a_task_over_its_time_limit(viewer, work, settings):
    """It names the limit, and the list of dead letters the exception."""
    options = {"timeout": 0.3, "grace_seconds": 0.2}
    settings.TASKS = {"default": {**settings.TASKS["default"], "OPTIONS": options}}
    task = timed_jobs.sleep.enqueue()
    TaskWorker(task_backends["default"], follow=False).run()
    shown = text(viewer.get(page_of(task.id)))
    why, _section, _rest = shown.partition('class="fdbqueue-why ')[2].partition("</section>")
    assert "longer than the task&#x27;s time limit: seconds=0.3" in why
    assert "TaskTimeout" in why
    (group,) = table(viewer.get(PAGE + "?state=dead"), "reasons-caption")
    assert group["Exception"] == "fdbqueue.tasks.exceptions.TaskTimeout"


def steps(response):
    """Return the steps of a task: what happened, and what it did since the step before."""
    markup = text(response).partition('class="fdbqueue-course"')[2].partition("</ol>")[0]
    found = re.findall(r'-step">(.*?)</span> <span class="fdbqueue-took">(.*?)<', markup)
    return [(plain(what), re.sub(r"[\d.]+ (ms|s)$", "…", took)) for what, took in found]


def test_the_course_of_a_failed_task(viewer, work):
    """What happened is in order, each step with what the task did before it, and how long."""
    task = letters.refuse.enqueue("ada")
    work()
    assert steps(viewer.get(page_of(task.id))) == [
        ("Enqueued", ""),
        ("Attempt 1 began", "waited …"),
        ("Attempt 1 failed", "ran …"),
        ("Attempt 2 began", "waited …"),
        ("Failed", "ran …"),
    ]


def test_the_course_of_tasks_that_have_not_ended(viewer, work, queue):
    """It ends with what they do now: they wait, or run."""
    task = letters.wait.enqueue("ada")
    work()
    failed = [("Enqueued", ""), ("Attempt 1 began", "waited …"), ("Attempt 1 failed", "ran …")]
    found = steps(viewer.get(page_of(task.id)))
    assert found == [*failed, ("Retry scheduled", "waits for …")]
    task = letters.send.enqueue("ada")
    assert steps(viewer.get(page_of(task.id))) == [("Enqueued", ""), ("Ready", "waits for …")]
    queue.lease(seconds=60)
    found = steps(viewer.get(page_of(task.id)))
    assert found == [*failed[:2], ("Running", "for …")]


def test_the_page_of_a_task_refreshes_until_it_has_ended(viewer, work):
    """A part comes without the frame; that of a task which has ended asks for no other."""
    task = letters.send.enqueue("ada")
    whole = viewer.get(page_of(task.id))
    assert f'hx-get="{page_of(task.id)}" hx-trigger="every 5s"' in text(whole)
    part = viewer.get(page_of(task.id), headers={"HX-Request": "true"})
    assert part.headers["X-Fdbqueue-Live"] == "1"
    assert "<html" not in text(part)
    assert "hx-swap-oob" not in text(part)
    assert 'hx-trigger="every 5s"' in text(part)
    assert facts(part)["State"] == "Ready"
    work()
    part = viewer.get(page_of(task.id), headers={"HX-Request": "true"})
    assert facts(part)["State"] == "Successful"
    assert "hx-get" not in text(part)
    assert "hx-get" not in text(viewer.get(page_of(task.id)))


def test_a_message_of_several_lines_and_of_none():
    """It is what the traceback ends with; an exception without one has none."""
    (attempt,) = shown_attempts(failed_with("ValueError: one\n\n  two"))
    assert attempt.message == "one\n\n  two"
    (attempt,) = shown_attempts(failed_with("ValueError"))
    assert attempt.message == ""
    (attempt,) = shown_attempts(failed_with("ValueError: " + "x" * 5_000))
    assert len(attempt.message) == 1_001


def failed_with(end):
    """Return what is known of a task that failed once, with this end of its traceback."""
    traceback = f'Traceback (most recent call last):\n  File "a: b", line 1\n{end}\n'
    error = AttemptFailure("builtins.ValueError", traceback)
    attempts = Attempts(("w",), (error,), 1, 1)
    return TaskState("id", unknown_call("id"), TaskResultStatus.FAILED, attempts, 1, 2)


def test_the_page_of_a_running_task_says_how_far_it_has_come(viewer, backend, queue):
    """With a bar if it says of how much; and what else it has noted."""
    task = letters.send.enqueue("ada")
    item = queue.lease(worker="host:1", seconds=60)
    record = {**backend.found(task.id).record, "running": 0, "metadata": {"<b>": [1, 2]}}
    run(queue.database, lambda tr: backend.records.write(tr, task.id, record))
    assert "Progress" not in facts(viewer.get(page_of(task.id)))
    record["progress"] = [1234.5, 5000]
    run(queue.database, lambda tr: backend.records.write(tr, task.id, record))
    response = viewer.get(page_of(task.id))
    assert facts(response)["Progress"] == "1,234.5 of 5,000, 24 %"
    assert '<progress max="100" value="24.7"' in text(response)
    assert "Metadata" in text(response)
    assert "&lt;b&gt;" in text(response)
    assert 'hx-trigger="every 5s"' in text(response)
    record["progress"] = [7, None]
    run(queue.database, lambda tr: backend.records.write(tr, task.id, record))
    response = viewer.get(page_of(task.id))
    assert facts(response)["Progress"] == "7"
    assert "<progress" not in text(response)
    queue.nack(item)  # the progress was the attempt's
    assert "Progress" not in facts(viewer.get(page_of(task.id)))


def test_the_page_of_a_task_of_a_group(viewer, work, backend):
    """It has the whole as a tree, with the tasks in other queues that the reader may view."""
    other = letters.refuse.using(queue_name="other")
    parts = [call(letters.send, "ada"), chain(call(letters.lose, "x"), letters.send)]
    result = group([*parts, call(other, "<b>")]).then(letters.send).enqueue()
    work()
    first, nested, refused = result.parts()
    response = viewer.get(page_of(first.id))
    markup = text(response).partition('class="fdbqueue-outline"')[2].partition("</ul>")[0]
    lines = [plain(one) for one in re.findall(r"<li.*?</li>", markup)]
    assert lines == [
        "Group of 3: 3 ended, 2 failed Failed",
        "tests.tasks.letters.send Successful",
        "Chain of 2: 1 ended, 1 failed Failed",
        "tests.tasks.letters.lose Failed",
        "tests.tasks.letters.send",
        "tests.tasks.letters.refuse Failed",
        "then: tests.tasks.letters.send",
    ]
    assert markup.count('aria-current="true"') == 1
    addresses = re.findall(r'href="([^"]+)"', markup)
    lost, _ = nested.result().parts()
    assert addresses == [
        page_of(result.id),
        page_of(lost.id),
        page_of(refused.id, "tasks-other"),
    ]
    assert [viewer.get(address).status_code for address in addresses] == [200] * 3
    assert '<progress max="100" value="100.0"' in markup
    assert "Failed" in facts(viewer.get(page_of(lost.id)))["State"]


def test_the_page_of_a_group(viewer, work):
    """It is the tree, under each queue of its tasks; theirs lead to it."""
    parts = [call(letters.send, "ada"), call(letters.send.using(queue_name="other"), "bob")]
    result = group(parts).enqueue()
    response = viewer.get(page_of(result.id))
    assert "<h1>Group of 2: 0 ended, 0 failed</h1>" in text(response)
    assert f"tasks_abort {result.id}</code>" in text(response)
    assert 'hx-trigger="every 5s"' in text(response)
    one, other = result.parts()
    for address in (page_of(one.id), page_of(other.id, "tasks-other")):
        assert f'href="{address}"' in text(response)
    assert f'href="{page_of(result.id)}"' in text(viewer.get(page_of(one.id)))
    work()
    response = viewer.get(page_of(result.id, "tasks-other"))
    assert "<h1>Group of 2: 2 ended, 0 failed</h1>" in text(response)
    assert "tasks_abort" not in text(response)
    assert "hx-trigger" not in text(response)
    assert viewer.get(page_of("0" * 32)).status_code == 404
    alone = group([call(letters.send, "ada")]).enqueue()
    assert viewer.get(page_of(alone.id, "tasks-other")).status_code == 404


def test_the_page_of_a_task_that_is_done(viewer, work):
    """It has what the task returned, how long it took, and links to others of its function."""
    task = letters.send.enqueue("ada", note="<b>")
    work()
    response = viewer.get(page_of(task.id))
    found = facts(response)
    assert found["State"] == "Successful"
    assert re.fullmatch(r"[\d.]+ m?s", found["Last attempt took"])
    assert "Attempt 1: Successful" in text(response)
    assert "Return value" in text(response)
    assert "&quot;&lt;b&gt;&quot;" in text(response)
    assert 'id="command-1"' not in text(response)
    others = html.unescape(re.search(r'id="same-function" href="([^"]+)"', text(response))[1])
    assert len(table(viewer.get(others))) == 1


def test_tasks_that_are_not_there(viewer, backend, work):
    """Unknown ones, those of another queue, and ids that cannot be, are 404 in the frame."""
    other = letters.send.using(queue_name="other").enqueue("ada")
    assert viewer.get(page_of(other.id, "tasks-other")).status_code == 200
    mail = fdbqueue.queue("mail").push("ada")
    for address in (
        page_of(other.id),
        page_of("nope"),
        page_of("%E2%80%AE<b>"),
        page_of("x" * 65),
        page_of(other.id, "mail"),
        page_of(mail.id, "mail"),
    ):
        response = viewer.get(address)
        assert response.status_code == 404
        assert "Task not found" in text(response)
        assert "<b>" not in text(response)
        assert "Home</a>" in text(response)
    assert "Queue not found" in text(viewer.get(page_of("a", "nope")))
    assert viewer.get(page_of("a", "tasks-else")).status_code == 404


def test_the_plain_pages(viewer, work):
    """They are the same, under their own addresses."""
    task = letters.send.enqueue("ada")
    work()
    shown = text(viewer.get(f"/queues/{QUEUE}/?state=done"))
    assert f'href="/queues/{QUEUE}/tasks/{task.id}/"' in shown
    assert facts(viewer.get(f"/queues/{QUEUE}/tasks/{task.id}/"))["State"] == "Successful"


# Who may look, and what it costs


def test_who_may_look(viewer):
    """Who may not view the queue gets nothing, whether or not there is such a task."""
    task = letters.send.enqueue("ada")
    pusher = person("pusher", "push_queue", "pop_queue", "lease_queue", "manage_queue")
    for address in (page_of(task.id), page_of("nope"), PAGE + "?state=done"):
        assert pusher.get(address).status_code == 403
        assert Client().get(address).status_code == 302
        assert viewer.post(address).status_code == 405


def test_pages_only_read(viewer, work, queue, watched):
    """No page of a task or of its queue writes a key."""
    ids = [letters.send.enqueue("ada").id, letters.refuse.enqueue("ada").id]
    work()
    ids.append(letters.send.enqueue("ada").id)
    queue.lease()
    watched.writes.clear()
    for state in ("ready", "leased", "delayed", "dead", "aborted", "done"):
        assert viewer.get(f"{PAGE}?state={state}&function=send").status_code == 200
    for task_id in ids:
        assert viewer.get(page_of(task_id)).status_code == 200
    assert watched.writes == []


def test_what_a_list_costs(viewer, work, queue, watched):
    """One read for each task that was tried or is done, none for the others.

    In the order of time there are two more for each item.
    """

    def reads(query):
        watched.reads.clear()
        assert viewer.get(PAGE + query).status_code == 200
        return len(watched.reads)

    found = []
    for count in (10, 20):
        for _ in range(10):
            letters.send.enqueue("ada")
            letters.wait.enqueue("ada")
        ready = reads("")
        letters.send.enqueue("ada")
        assert reads("") == ready
        work()
        queue.push({})
        delayed = reads("?state=delayed&end=min"), reads("?state=delayed")
        found.append((count, ready, reads("?state=done"), *delayed))
    (_, ready, done, delayed, due), (_, ready_then, done_then, delayed_then, due_then) = found
    assert ready_then == ready + 1  # when the first delay ends
    failed = 1  # the record of what was no task, which the tab of aborted ones asks for
    assert done_then == done + 11 + failed
    assert delayed_then == delayed + 10 + failed
    assert due_then == due + 10 + 20 + failed


def test_other_queues_pay_nothing(viewer, watched, monkeypatch):
    """Their pages show items, and do the same reads as without the app of the tasks."""
    found = []
    for name in ("mail", "numbers"):  # then their formats are known
        fdbqueue.queue(name).push("ada")
        fdbqueue.queue(name).pop()
    app = apps.get_app_config("fdbqueue_tasks")
    for path in (app.fdbqueue_reading, ""):
        monkeypatch.setattr(app, "fdbqueue_reading", path)
        for name in ("mail", "numbers"):
            queue = fdbqueue.queue(name)
            item = queue.push("ada")
            watched.reads.clear()
            assert viewer.get(of(name, item)).status_code == 200
            shown = text(viewer.get(of(name)))
            assert "Items 1 to 1" in shown
            found.append((name, len(watched.reads)))
            assert readings.reading_of(queue) is readings.ITEMS
            queue.clear()
    assert found[:2] == found[2:]


def test_durations():
    """They are in milliseconds below a second, and in at most two units above."""
    shown = {
        -1: "0 ms",
        0.0004: "0.4 ms",
        0.0123: "12 ms",
        1.25: "1.2 s",
        59.4: "59 s",
        60: "1 min",
        125: "2 min 5 s",
        3_600: "1 h",
        86_399: "23 h 59 min",
        86_400: "1 day",
        7 * 86_400 + 7_200: "7 days 2 h",
    }
    assert {seconds: lasting(seconds) for seconds in shown} == shown


def test_running_tasks_are_among_the_leases_of_all_queues(viewer, queue):
    """By the name of the function, with a link to the task; an item that is none has its own."""
    result = letters.send.enqueue("ada")
    queue.lease(seconds=60, worker="w<1>")
    odd = queue.push({"id": 1})
    queue.lease(seconds=90)
    markup = text(viewer.get(ACROSS + "workers/"))
    address = f"{of(QUEUE)}tasks/{result.id}/"
    assert f'href="{address}">send</a>' in markup
    assert f'href="{of(QUEUE, odd)}"' in markup
    assert "w&lt;1&gt;" in markup


def test_failed_tasks_are_among_the_failures_of_all_queues(viewer, work):
    """By their exception, which leads to those of the queue."""
    letters.lose.enqueue("ada")
    work()
    markup = text(viewer.get(ACROSS + "failures/"))
    found = re.search(rf'href="({of(QUEUE)}\?state=dead&amp;exception=[^"]*)"', markup)[1]
    assert "Traceback" in text(viewer.get(html.unescape(found)))


def test_an_id_of_a_task_leads_to_it_from_the_list(viewer, work):
    """By a redirect, whatever state it is in."""
    done = letters.send.enqueue("ada")
    work()
    waits = letters.send.enqueue("bob")
    for result in (done, waits):
        response = viewer.get(ACROSS + "find/", {"id": result.id})
        assert (response.status_code, response.url) == (302, f"{of(QUEUE)}tasks/{result.id}/")
    assert viewer.get(ACROSS + "find/", {"id": "A" * 32}).status_code == 404


def test_an_id_of_a_group_leads_to_its_page(viewer, work, backend):
    """That of the whole, also if it is nested, and if no task of it is stored any more."""
    inner = chain(call(letters.send, "eve"), call(letters.send, "bob"))
    result = group([inner, call(letters.send, "ada")]).enqueue()
    within = result.parts()[0].id
    work()
    for part in (*group_result(within).parts(), result.parts()[1]):
        run(backend.catalog.database, lambda tr, one=part.id: backend.records.remove(tr, one))
    for sought in (result.id, within):
        response = viewer.get(ACROSS + "find/", {"id": sought})
        assert (response.status_code, response.url) == (302, page_of(result.id))
    assert viewer.get(page_of(result.id)).status_code == 200
    for wrong in (f"{result.id}.7", f"{result.id}.", f"{result.id}.1.1", f"{'A' * 32}.1", ".1"):
        assert viewer.get(ACROSS + "find/", {"id": wrong}).status_code == 404, wrong


FUNCTIONS, SCHEDULES = f"{ACROSS}functions/", f"{ACROSS}schedules/"


def rows_in(response):
    """Return the texts of the cells of each row."""
    markup = text(response).partition('id="rows-caption"')[2].partition("<tbody")[2]
    rows = re.findall(r"<tr.*?</tr>", markup.partition("</table>")[0], re.DOTALL)
    return [
        [plain(one) for one in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)] for row in rows
    ]


def test_functions_are_listed_with_their_figures(viewer, work):
    """Those with the most failures first; with links to their tasks that have ended."""
    for name in ("ada", "bob", "eve"):
        letters.send.enqueue(name)
    letters.refuse.enqueue("ada")
    letters.send.using(queue_name="other").enqueue("joe")
    work()
    response = viewer.get(FUNCTIONS)
    found = rows_in(response)
    assert [row[:3] for row in found] == [
        ["tests.tasks.letters.refuse", "2", "2"],
        ["tests.tasks.letters.send", "4", "0"],
    ]
    assert found[1][6:8] == ["4", "0"]
    assert found[1][11] == "tasks-default , tasks-other"
    link = re.search(rf'href="({PAGE}\?state=done[^"]*send)"', text(response))[1]
    assert len(table(viewer.get(html.unescape(link)))) == 3
    assert [row[0] for row in rows_in(viewer.get(FUNCTIONS + "?function=SEND"))] == [found[1][0]]
    assert rows_in(viewer.get(FUNCTIONS + "?sort=runs"))[0] == found[1]
    assert "None of the functions" in text(viewer.get(FUNCTIONS + "?function=nobody"))


def test_the_name_of_a_function_leads_to_its_tasks(viewer, work):
    """In its queue; of one that ran from several, to these."""
    letters.send.enqueue("ada")
    letters.lose.enqueue("ada")
    letters.send.using(queue_name="other").enqueue("joe")
    work()
    markup = text(viewer.get(FUNCTIONS)).replace("<wbr>", "")
    names = re.findall(r'<th scope="row"[^>]*><a href="([^"]*)"><bdi>([^<]*)</bdi></a>', markup)
    found = {name.rpartition(".")[2]: html.unescape(address) for address, name in names}
    assert found["lose"] == f"{PAGE}?state=dead&function=tests.tasks.letters.lose"
    assert found["send"] == "?function=tests.tasks.letters.send"
    assert len(table(viewer.get(found["lose"]))) == 1
    assert len(rows_in(viewer.get(FUNCTIONS + found["send"]))) == 1


def test_how_long_tasks_waited_is_beside_how_long_they_took(viewer, work):
    """For their first attempt: since they were enqueued, or might run."""
    with time_ahead(-40):
        letters.send.enqueue("ada")
    work()
    (row,) = rows_in(viewer.get(FUNCTIONS))
    assert re.fullmatch(r"\d+ s|1 min( \d+ s)?", row[5]), row
    assert row[5] == row[10]


def test_counts_of_a_function_lead_to_its_tasks(viewer, work):
    """Runs to those that are done, failures to those that failed; never to an empty list."""
    for name in ("ada", "bob"):
        letters.send.enqueue(name)
    letters.refuse.enqueue("ada")
    work()
    markup = text(viewer.get(FUNCTIONS))
    links = [html.unescape(one) for one in re.findall(r'<td[^>]*><a href="([^"]*)"', markup)]
    found = {}
    for address in links:
        state, function = re.search(r"state=(\w+)&function=.*\.(\w+)$", address).groups()
        found.setdefault((state, function), []).append(len(table(viewer.get(address))))
    assert found == {("dead", "refuse"): [1] * 5, ("done", "send"): [2] * 3}  # one of the queue
    named = re.findall(rf'href="({PAGE}[^"]*refuse)" title="{QUEUE}">{QUEUE}<', markup)
    assert ["state=dead" in one for one in named] == [True]


@pytest.mark.parametrize(
    ("letter", "state"),
    [(letters.hesitate, "done"), (letters.wait, "delayed"), (letters.lose, "dead")],
)
def test_failed_attempts_lead_to_tasks_that_have_not_failed(
    viewer, work, monkeypatch, letter, state
):
    """To those that were tried again, or wait for it; and to failed ones if they may be there."""
    letter.enqueue("ada")
    work()

    def addresses():
        markup = text(viewer.get(FUNCTIONS))
        found = re.findall(rf'<a href="({PAGE}[?]state=[^"]*)"', markup)
        return [html.unescape(one) for one in found]

    assert {re.search(r"state=(\w+)", one)[1] for one in addresses()} == {state}
    assert [len(table(viewer.get(one))) for one in addresses()] == [1] * 6
    monkeypatch.setattr(functions_and_schedules, "MAX_FAILED", -1)
    assert "state=dead" in addresses()[2]
    elsewhere = text(viewer.get(f"{PAGE}?state=dead&function={letter.module_path}x"))
    assert 'id="else-done"' in elsewhere
    assert 'id="else-delayed"' in elsewhere


@cases("address", [FUNCTIONS, SCHEDULES])
@cases("query", ["?sort=nothing", "?page=0", "?start=1", "?sort=name&sort=next", "?page=x"])
def test_parameters_that_these_pages_do_not_have(viewer, address, query):
    """Are pointed out."""
    assert viewer.get(address + query).status_code == 400


@pytest.mark.parametrize("address", [FUNCTIONS, SCHEDULES])
def test_these_pages_only_read(viewer, address, client, watched):
    """For those who may view queues; there is nothing yet."""
    assert viewer.get(address).status_code == 200
    assert not watched.writes
    assert viewer.post(address).status_code == 405
    assert person("nobody").get(address).status_code == 403
    assert client.get(address).status_code == 302


def test_what_is_left_out_of_the_functions_is_said(viewer, work, monkeypatch):
    """By queue; each has its share, and neither is missing."""
    for name in ("default", "other"):
        for letter in (letters.send, letters.refuse, letters.lose):
            letter.using(queue_name=name).enqueue("ada")
    work()
    assert "All attempts that ended in 2 queues" in text(viewer.get(FUNCTIONS))
    monkeypatch.setattr(functions_and_schedules, "MAX_COUNTERS", 4)
    response = viewer.get(FUNCTIONS)
    assert {row[11] for row in rows_in(response)} == {"tasks-default , tasks-other"}
    said = plain(re.search(r'id="left-out">(.*?)</p>', text(response), re.DOTALL)[1])
    words = "of the last hour, only the functions that are last by name; "
    assert f"tasks-default : {words}" in said
    assert f"tasks-other : {words}" in said
    monkeypatch.setattr(functions_and_schedules, "MAX_NAMED", 2)
    assert "and 2 more." in text(viewer.get(FUNCTIONS))


def test_a_function_with_markup_in_its_name(viewer, queue, work):
    """Is unknown to the workers: all such are one row, without their names."""
    for number in range(3):
        path = f"<script>alert({number})</script>.f"
        queue.push({"id": "x", "task": path, "args": [], "kwargs": {}, "backend": "default"})
    work()
    found = rows_in(viewer.get(FUNCTIONS))
    assert [row[0] for row in found] == ["Unknown to its worker"]
    assert int(found[0][1]) >= 3


def scheduled(settings, schedules):
    """Set the schedules of the backend, and return it."""
    options = {**settings.TASKS["default"], "OPTIONS": {"schedules": schedules}}
    settings.TASKS = {"default": options}
    return task_backends["default"]


def test_schedules_are_listed_with_their_latest_task(viewer, settings, monkeypatch):
    """Next first: when it is due, and what became of the latest one."""
    call = {"task": "tests.tasks.letters.send", "args": ["<ada>"]}
    backend = scheduled(
        settings,
        {
            "often": {**call, "every": 1},
            "nightly <b>": {**call, "cron": "0 3 * * *", "queue_name": "other"},
        },
    )
    periodic = DueSchedules(backend, backend.catalog)
    periodic.enqueue_due()
    with time_ahead(seconds=2):
        assert periodic.enqueue_due() == 1
        TaskWorker(backend, follow=False, worker="w<1>").run()
        response = viewer.get(SCHEDULES)
    found = rows_in(response)
    assert [row[:3] for row in found] == [
        ["often", "tests.tasks.letters.send", "every 1 s"],
        ["nightly <b>", "tests.tasks.letters.send", f"cron 0 3 * * * {settings.TIME_ZONE}"],
    ]
    assert re.fullmatch(r"Successful ?, \d+ s ago", found[0][4])
    assert found[0][5:] == [QUEUE]
    done = f"{PAGE}?state=done&amp;function=tests.tasks.letters.send"
    assert f'<a href="{done}"><bdi>often</bdi></a>' in text(response)
    assert found[1][4:] == [DASH, "tasks-other"]
    task = re.search(rf'href="({PAGE}tasks/[^"]*)"', text(response))[1]
    assert viewer.get(task).status_code == 200
    assert [row[0] for row in rows_in(viewer.get(SCHEDULES + "?schedule=NIGHT"))] == ["nightly <b>"]


def test_a_schedule_whose_queue_is_not_known(viewer, settings):
    """Is listed without one."""
    scheduled(settings, {"one": {"task": "not.imported.here", "every": 60}})
    assert [row[0] for row in rows_in(viewer.get(SCHEDULES))] == ["one"]


def test_more_schedules_than_are_read(viewer, settings, monkeypatch):
    """The page says so."""
    monkeypatch.setattr(functions_and_schedules, "MAX_SCHEDULES", 2)
    call = {"task": "tests.tasks.letters.send", "args": ["ada"], "every": 60}
    scheduled(settings, {str(number): call for number in range(3)})
    response = viewer.get(SCHEDULES)
    assert len(rows_in(response)) == 2
    assert "more schedules than were read" in text(response)


def test_running_tasks_are_chosen_by_their_worker(viewer, queue):
    """By a part of the name; tasks in other states have none."""
    for worker in ("w<1>", "v"):
        letters.send.enqueue("ada")
        queue.lease(seconds=60, worker=worker)
    assert len(table(viewer.get(PAGE + "?state=leased&worker=W%3C"))) == 1
    assert viewer.get(PAGE + "?state=done&worker=w").status_code == 400


def test_the_tabs_of_ended_tasks_have_counts(viewer, work, monkeypatch):
    """What the index says: of many done ones that there are more, of many failed ones nothing."""

    def counts():
        found = dict(re.findall(r'id="tab-(\w+)"[^>]*>(.*?)</a>', text(viewer.get(PAGE))))
        return plain(found["aborted"]), plain(found["done"])

    assert counts() == ("Aborted 0", "Done 0")
    for number in range(4):
        letters.send.enqueue(number)
    letters.lose.enqueue("mary")
    work()
    abort(letters.send.enqueue("late").id)
    assert counts() == ("Aborted 1", "Done 4")
    monkeypatch.setattr("fdbqueue.tasks.pages.ended._MAX_COUNTED", 3)
    monkeypatch.setattr("fdbqueue.tasks.pages.ended._MAX_READ", 1)
    assert counts() == ("Aborted", "Done 3+")


# Limits by key


def test_the_page_of_a_task_that_its_limit_keeps_back(viewer, backend, work):
    """It says why, and by which limit; it is there when the task has ended, too."""
    _, waits = [limited_jobs.one_at_all.enqueue(number) for number in range(2)]
    name = backend.found(waits.id).record["queue"]
    held = backend.catalog.queue(name).lease(seconds=60)
    shown = facts(viewer.get(page_of(waits.id, name)))
    assert shown["State"] == "Ready; as many of its key run as may"
    assert shown["Limit"] == "1 of 1 run"
    backend.catalog.queue(name).requeue(held)
    assert facts(viewer.get(page_of(waits.id, name)))["State"] == "Ready"
    work()
    for place in (name, QUEUE):
        shown = facts(viewer.get(page_of(waits.id, place)))
        assert shown["State"] == "Successful"
        assert "Limit" not in shown


def test_limited_tasks_are_among_the_functions_and_the_failures(viewer, work):
    """Of their queue, and of the queue of their key."""
    limited_jobs.one_at_all.enqueue(1)
    limited_jobs.fail.enqueue("a")
    work()
    found = {row[0].rpartition(".")[2]: row for row in rows_in(viewer.get(FUNCTIONS))}
    assert found["one_at_all"][1:3] == ["1", "0"]
    assert found["fail"][1:3] == ["3", "3"]
    assert found["fail"][11] == QUEUE
    (address,) = {*re.findall(r'href="([^"]+[?]name=[^"]+)"', text(viewer.get(FUNCTIONS)))}
    start = address.partition("name=")[2].removesuffix("%2A")
    listed = text(viewer.get(address))
    assert f'id="dead-{start}a"' in listed
    assert len(re.findall(r'id="queue-', listed)) == 1
    markup = text(viewer.get(ACROSS + "failures/"))
    assert "LookupError" in markup
    done = table(viewer.get(f"{PAGE}?state=done"))
    assert len([row for row in done if "one_at_all" in " ".join(row.values())]) == 1


def test_a_task_that_asks_to_run_again_and_one_that_expires(work, viewer):
    """Their pages say why the one waits, and that the other never ran; a reason is no markup."""
    retry_jobs.given[:] = 3_600, "<b>closed</b>"
    waiting, expiring = retry_jobs.ask_for.enqueue(), expiring_jobs.within_a_minute.enqueue()
    assert "Expires" in facts(viewer.get(page_of(expiring.id)))
    with time_ahead(61):
        work()
    page = viewer.get(page_of(waiting.id))
    assert facts(page)["Waits because"] == "<b>closed</b>"
    assert "<b>closed" not in text(page)
    assert "Asked to run again" in text(page)
    page = viewer.get(page_of(expiring.id))
    assert facts(page)["State"] == "Expired"
    assert "Not run" in text(page)
    assert "TaskExpired" in text(viewer.get(f"{PAGE}?state=dead"))
