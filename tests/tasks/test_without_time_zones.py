"""With ``USE_TZ = False``, where Django's own times have no zone, everything is still shown."""

from __future__ import annotations

import datetime
import html
import json
import re
from urllib.parse import parse_qs, urljoin

import pytest
from django.utils import timezone

import fdbqueue
from fdbqueue.tasks import call, group
from fdbqueue.tasks.schedules import DueSchedules
from fdbqueue.tasks.task_worker import TaskWorker
from tests.called import called
from tests.injection import time_ahead
from tests.pages.addresses import LIST, text
from tests.pages.conftest import person
from tests.tasks import letters
from tests.tasks.conftest import backend_of

QUEUE = "tasks-default"
SCHEDULES = f"{LIST}-/schedules/"
STATES = ("ready", "leased", "delayed", "dead")
SEND = "tests.tasks.letters.send"


@pytest.fixture
def fdbqueue_queues():
    """Queues of other items, and a family."""
    return {"mail": {"kind": "fifo"}, "numbers": {"kind": "priority"}, "user-*": {"kind": "fifo"}}


@pytest.fixture
def backend(empty_queues, settings, db):
    """A backend with schedules, in a project whose times have no zone."""
    settings.USE_TZ, settings.TIME_ZONE = False, "Asia/Kolkata"
    calls = {"task": SEND, "args": ["ada"]}
    schedules = {"often": {**calls, "every": 1}, "nightly": {**calls, "cron": "0 3 * * *"}}
    return backend_of(settings, queues=("default",), schedules=schedules)


@pytest.fixture
def filled(backend):
    """Items and tasks in every state, and the id of a task of each."""
    mail, numbers = fdbqueue.queue("mail"), fdbqueue.queue("numbers")
    mail.push(1)
    mail.push(2, delay=600)
    mail.lease(worker="bob", seconds=600)
    mail.bury(mail.push(3).id, reason="broken")
    mail.push(4)
    numbers.push(1, priority=5)
    numbers.pause(reason="a sale")
    fdbqueue.queue("user-7").push(1)
    periodic = DueSchedules(backend, backend.catalog)
    periodic.enqueue_due()
    tasks = [one.enqueue("ada") for one in (letters.send, letters.wait, letters.lose)]
    with time_ahead(seconds=2):
        assert periodic.enqueue_due() == 1
    TaskWorker(backend, follow=False, worker="w<1>").run()
    later = timezone.now() + datetime.timedelta(hours=3, minutes=5)
    tasks.append(letters.send.using(run_after=later).enqueue("grace"))
    tasks.append(letters.send.enqueue("eve"))
    backend.queue("default").lease(worker="anna", seconds=600)
    tasks.append(letters.send.enqueue("joe"))
    return [task.id for task in tasks]


def kind(address):
    """Return what an address has in common with those whose pages are alike."""
    path, _mark, query = address.partition("?")
    parameters = parse_qs(query)
    return path, (*parameters.get("state", ()),), *sorted(parameters.keys() - {"refresh"})


def crawl(viewer, *beginning):
    """Get addresses and all that their pages link to, one of each kind; return the pages."""
    seen, left, found = set(map(kind, beginning)), list(beginning), {}
    while left:
        address = left.pop()
        response = viewer.get(address)
        assert response.status_code == 200, address
        found[address] = text(response)
        for link in re.findall(r'<a [^>]*href="([^"]+)"', found[address]):
            one = urljoin(address, html.unescape(link)).partition("#")[0]
            if one.startswith(LIST) and kind(one) not in seen:
                seen.add(kind(one))
                left.append(one)
    return found


def test_every_page(filled):
    """All that the list of queues links to, directly or not: queues, items, tasks, schedules."""
    found = crawl(person("viewer", "view_queue"), LIST, f"{LIST}?name=user-*")
    paths = {address.partition("?")[0] for address in found}
    assert {
        f"{LIST}-/{name}/" for name in ("functions", "schedules", "workers", "failures")
    } < paths
    assert {f"{LIST}{QUEUE}/tasks/{one}/" for one in filled} < paths
    for markup in found.values():
        assert not re.search(r'datetime="[^"]*(?<!\+05:30)"', markup.partition("<main")[2])


def test_a_moment_without_a_zone_is_one_of_the_project(filled):
    """A ``run_after`` that has no zone is shown like all others."""
    viewer = person("viewer", "view_queue")
    delayed = filled[3]
    markup = text(viewer.get(f"{LIST}{QUEUE}/tasks/{delayed}/"))
    shown = re.search(r"Asked to run after</th><td><time[^>]*>([^<]+) IST<", markup)
    stored = fdbqueue.queue(QUEUE).page(state="delayed").items
    (at,) = [item.until for item in stored if item.value["id"] == delayed]
    local = at.astimezone(datetime.timezone(datetime.timedelta(hours=5, minutes=30)))
    assert shown[1] == f"{local:%Y-%m-%d %H:%M:%S}"


def test_the_schedules(filled):
    """When each is due next, and for when the latest task was enqueued."""
    markup = text(person("viewer", "view_queue").get(SCHEDULES))
    row = re.search(r"<tr[^>]*>\s*<th[^>]*>(?:<[^<>]+>)+often<.*?</tr>", markup, re.DOTALL)[0]
    assert len(re.findall(r'datetime="[^"]+\+05:30"', row)) == 2


def test_the_rest_api(filled):
    """Queues and items, as programs and as people read them."""
    viewer = person("viewer", "view_queue")
    addresses = [f"/api/queues/{name}/" for name in ("mail", "numbers", "user-7", QUEUE)]
    reading = ["/api/", "/api/queues/", *addresses]
    reading += [f"{one}peek/" for one in addresses]
    reading += [f"{one}items/?state={state}" for one in addresses for state in STATES]
    for accept in ("application/json", "text/html"):
        for address in reading:
            assert viewer.get(address, headers={"accept": accept}).status_code == 200, address


def test_health_and_metrics(filled, client):
    """Both answer, and the metrics have the figures of tasks."""
    assert client.get("/health/ready/").status_code == 200
    response = person("viewer", "view_queue").get("/metrics/")
    assert response.status_code == 200
    assert 'queue="tasks-default"' in text(response)


READING = [
    "queue_list",
    "queue_list --rates",
    "queue_list --rates mail numbers",
    *(f"queue_peek {name} --state={state}" for name in ("mail", QUEUE) for state in STATES),
    "queue_doctor",
]


def test_every_command_that_reads(filled):
    """As people and as programs read it."""
    commands = [command.split() for command in READING]
    for queue in map(fdbqueue.queue, ("mail", QUEUE)):
        found = [queue.page(state=state).items[0].id for state in STATES]
        commands += [["queue_show", queue.name, item_id] for item_id in found]
    commands += [["tasks_show", task_id] for task_id in filled]
    for command in commands:
        assert called(*command)
        assert [json.loads(line) for line in called(*command, "--json").splitlines()]


def test_a_group_has_times_in_utc(backend):
    """The moment of its end is the same, whatever the project's own time."""
    before = datetime.datetime.now(datetime.timezone.utc)
    group_id = group([call(letters.send, "ada")]).enqueue().id
    TaskWorker(backend, follow=False).run()
    found = json.loads(called("tasks_show", group_id, "--json"))["finished_at"]
    ended = datetime.datetime.fromisoformat(found.replace("Z", "+00:00"))
    assert before <= ended <= datetime.datetime.now(datetime.timezone.utc)
