"""The metrics: a real scrape, parsed by Prometheus's own parser."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import fdb.tuple
import pytest
from django.core.checks import run_checks
from django.test import Client
from fdb.subspace_impl import Subspace
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain_text
from rest_framework.authtoken.models import Token

from fdbqueue import access
from fdbqueue.exceptions import CorruptItem, LeaseLost
from fdbqueue.service import FifoQueue, run
from tests.cases import cases
from tests.commands.spoiling import spoil
from tests.presences import write_rows

ROOT = Path(__file__).resolve().parents[2]
ADDRESS, TOKEN = "/metrics/", "a-token-of-some-length"


@pytest.fixture
def bearer(settings):
    """A client that has the token."""
    settings.FDBQUEUE_METRICS_TOKEN = TOKEN
    return Client(headers={"Authorization": f"Bearer {TOKEN}"})


def samples(answer, parse=plain_text):
    """Return the samples of a scrape: names and labels, to values."""
    assert answer.status_code == 200
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parse(answer.content.decode())
        for sample in family.samples
    }


def sample(found, name, **labels):
    """Return one of them, None where it is not there."""
    return found.get((name, frozenset(labels.items())))


def growth(bearer, work, name, **labels):
    """Return by how much a sample grows while something is done."""
    before = sample(samples(bearer.get(ADDRESS)), name, **labels) or 0
    work()
    return (sample(samples(bearer.get(ADDRESS)), name, **labels) or 0) - before


def test_sizes_are_those_of_the_engine(queues, bearer):
    """Each state of each queue of the setting, pushed to or not."""
    mail = queues.queue("mail")
    mail.push_many(range(5))
    mail.push("later", delay=60)
    mail.lease()
    queues.queue("tried").push("x")
    for _ in range(2):
        queues.queue("tried").nack(queues.queue("tried").lease())
    found = samples(bearer.get(ADDRESS))
    states = {
        state: sample(found, "fdbqueue_items", queue="mail", state=state)
        for state in ("ready", "leased", "delayed", "dead")
    }
    assert states == {"ready": 4, "leased": 1, "delayed": 1, "dead": 0}
    assert sample(found, "fdbqueue_items", queue="tried", state="dead") == 1
    assert sample(found, "fdbqueue_items", queue="quakes", state="ready") == 0
    assert sample(found, "fdbqueue_queues", queue="quakes") == 1
    assert sample(found, "fdbqueue_engine_up") == 1
    assert sample(found, "fdbqueue_sizes_complete") == 1


def test_ages_are_those_of_the_oldest_ready_items(queues, bearer, clock):
    """In seconds; 0 for an empty queue."""
    queues.queue("quakes").push("x", 2.5)
    clock.advance(90)
    queues.queue("quakes").push("y", 1.5)
    found = samples(bearer.get(ADDRESS))
    assert sample(found, "fdbqueue_oldest_item_age_seconds", queue="quakes") == 90
    assert sample(found, "fdbqueue_oldest_item_age_seconds", queue="mail") == 0


def corrupt(queue, *key):
    """Store what cannot be decoded under a key of a queue."""
    packed = queue.subspace.pack(key)
    run(queue.database, lambda tr: tr.set(packed, b"\xff"))


def test_a_head_that_cannot_be_decoded(queues, bearer, clock):
    """It is counted by its end; the age is that of what waits behind it, not 0."""
    mail = queues.queue("mail")
    corrupt(mail, 0, b"r")
    found = samples(bearer.get(ADDRESS))
    assert sample(found, "fdbqueue_oldest_item_age_seconds", queue="mail") is None
    assert sample(found, "fdbqueue_undecodable_heads", queue="mail", end="max") == 1
    mail.push("x")
    clock.advance(900)
    with pytest.raises(CorruptItem):
        mail.pop()
    found = samples(bearer.get(ADDRESS))
    assert sample(found, "fdbqueue_oldest_item_age_seconds", queue="mail") == 900
    assert sample(found, "fdbqueue_undecodable_heads", queue="mail", end="min") == 1
    assert sample(found, "fdbqueue_undecodable_heads", queue="mail", end="max") == 0
    assert sample(found, "fdbqueue_undecodable_heads", queue="quakes", end="min") == 0


def test_the_age_of_a_head_that_cannot_be_decoded(queues, bearer, clock):
    """A text that is not JSON has its push time behind it: ItemsWaitTooLong fires, too."""
    for name in ("mail", "quakes"):
        queue = queues.queue(name)
        spoil(queue, queue.push("x"))
    clock.advance(900)
    found = samples(bearer.get(ADDRESS))
    for name in ("mail", "quakes"):
        assert sample(found, "fdbqueue_undecodable_heads", queue=name, end="min") == 1
        assert sample(found, "fdbqueue_oldest_item_age_seconds", queue=name) == 900


def test_heads_of_a_pattern_are_added_up(queues, bearer, clock):
    """One queue that is blocked is seen among many, and the age is of those that are known."""
    for number in range(3):
        corrupt(queues.queue(f"user-{number}"), 9 * (number - 1), b"r")
        queues.queue(f"user-{number}").push("x", delay=600)
    queues.queue("user-5").push("x")
    clock.advance(30)
    found = samples(bearer.get(ADDRESS))
    assert sample(found, "fdbqueue_undecodable_heads", queue="user-*", end="min") == 3
    assert sample(found, "fdbqueue_oldest_item_age_seconds", queue="user-*") == 30


def test_an_age_that_is_not_known_is_left_out(queues, bearer):
    """A codec without times gives none while the queue has items, and 0 while it is empty."""
    name = "fdbqueue_oldest_item_age_seconds"
    assert sample(samples(bearer.get(ADDRESS)), name, queue="raw") == 0
    queues.queue("raw").push(b"x")
    found = samples(bearer.get(ADDRESS))
    assert sample(found, name, queue="raw") is None
    assert sample(found, "fdbqueue_queues", queue="raw") == 1


def test_queues_of_a_pattern_are_added_up_under_it(queues, bearer, clock):
    """However many users there are, there is one label."""
    queues.queue("user-2").push_many(range(3))
    clock.advance(30)
    for name in ("user-1", "user-3"):
        queues.queue(name).push("x")
    found = samples(bearer.get(ADDRESS))
    assert sample(found, "fdbqueue_items", queue="user-*", state="ready") == 5
    assert sample(found, "fdbqueue_queues", queue="user-*") == 3
    assert sample(found, "fdbqueue_oldest_item_age_seconds", queue="user-*") == 30
    assert not [labels for _, labels in found if ("queue", "user-1") in labels]


def test_paused_queues(queues, bearer):
    """1 or 0 for a queue, and how many of a pattern are paused; a paused queue is not unhealthy."""
    queues.queue("quakes").pause(reason="deploying")
    for number in range(3):
        queues.queue(f"user-{number}").push("x")
    queues.queue("user-1").pause()
    found = samples(bearer.get(ADDRESS))
    assert sample(found, "fdbqueue_paused", queue="quakes") == 1
    assert sample(found, "fdbqueue_paused", queue="mail") == 0
    assert sample(found, "fdbqueue_paused", queue="user-*") == 1
    assert sample(found, "fdbqueue_engine_up") == 1
    assert Client().get("/health/ready/").status_code == 200
    queues.queue("quakes").resume()
    assert sample(samples(bearer.get(ADDRESS)), "fdbqueue_paused", queue="quakes") == 0


def test_workers_by_their_state(queues, bearer):
    """Both states are there from the first scrape on."""
    name = "fdbqueue_workers"
    found = samples(bearer.get(ADDRESS))
    assert [sample(found, name, state=state) for state in ("alive", "lost")] == [0, 0]
    write_rows(queues.presences, {"name": "ada"}, {"name": "bob"})
    write_rows(queues.presences, {"name": "abe"}, silent_seconds=60)
    found = samples(bearer.get(ADDRESS))
    assert [sample(found, name, state=state) for state in ("alive", "lost")] == [2, 1]


def test_too_many_queues_are_not_all_read(queues, bearer, monkeypatch):
    """It says so, and the queues with names of their own are all there."""
    monkeypatch.setattr(access, "MAX_PATTERNED", 2)
    for number in range(3):
        queues.queue(f"user-{number}").push("x")
    queues.queue("quakes").push("x", 1)
    found = samples(bearer.get(ADDRESS))
    assert sample(found, "fdbqueue_sizes_complete") == 0
    assert sample(found, "fdbqueue_queues", queue="user-*") == 2
    assert sample(found, "fdbqueue_items", queue="quakes", state="ready") == 1


def test_of_too_many_members_those_are_read_that_have_something(queues, bearer, monkeypatch):
    """Under the one label of their family, whatever their names."""
    monkeypatch.setattr(access, "MAX_PATTERNED", 2)
    for number in range(5):
        queues.queue(f"user-{number}").push("x")
    while queues.several(["user-*"]).pop():
        pass
    queues.queue("user-4").push_many(range(7))
    found = samples(bearer.get(ADDRESS))
    assert sample(found, "fdbqueue_items", queue="user-*", state="ready") == 7
    assert sample(found, "fdbqueue_queues", queue="user-*") == 2
    of_items = [dict(labels)["queue"] for name, labels in found if name == "fdbqueue_items"]
    assert {label for label in of_items if label.startswith("user-")} == {"user-*"}


def test_operations_are_counted_and_timed(queues, bearer):
    """By the queue's name in the setting and what was done, with the items."""

    def push():
        queues.queue("user-7").push_many(range(3))

    labels = {"queue": "user-*", "operation": "push_many"}
    assert growth(bearer, push, "fdbqueue_operation_seconds_count", **labels) == 1
    assert growth(bearer, push, "fdbqueue_operation_items_total", **labels) == 3
    assert growth(bearer, push, "fdbqueue_operation_seconds_sum", **labels) > 0
    last = {**labels, "le": "+Inf"}
    assert growth(bearer, push, "fdbqueue_operation_seconds_bucket", **last) == 1


@pytest.mark.parametrize(
    ("names", "label"),
    [(["user-*"], "user-*"), (["user-*", "mail"], "user-*"), (["mail", "user-*"], "mail")],
    ids=str,
)
def test_takes_that_find_nothing_are_counted_under_the_first_name(queues, bearer, names, label):
    """A queue, or a pattern of the setting."""
    labels = {"queue": label, "operation": "pop"}
    name = "fdbqueue_operation_seconds_count"
    assert growth(bearer, queues.several(names).pop, name, **labels) == 1


def test_failures_are_counted_by_their_code(queues, bearer):
    """Codes are few, whatever the messages are."""
    mail = queues.queue("mail")
    mail.push("x")
    lease = mail.lease()
    mail.ack(lease)

    def fail():
        with pytest.raises(LeaseLost):
            mail.ack(lease)

    labels = {"queue": "mail", "operation": "ack", "error": "lease_lost"}
    assert growth(bearer, fail, "fdbqueue_operation_failures_total", **labels) == 1


def test_conflicts_are_counted(queues, bearer, settings):
    """By FoundationDB's code, retried or not."""
    key = fdb.tuple.pack((*settings.FDBQUEUE["PREFIX"], "key"))

    def conflict():
        runs = []

        def change(tr):
            runs.append(tr[key].wait())
            if len(runs) == 1:
                run(queues.database, lambda other: other.set(key, b"theirs"))
            tr.clear(key)

        run(queues.database, change)

    assert growth(bearer, conflict, "fdbqueue_engine_errors_total", code="1020") == 1


def test_queues_that_the_setting_does_not_know_share_a_label(queues, bearer, settings):
    """A program may make any number of them."""
    space = Subspace((*settings.FDBQUEUE["PREFIX"], "own"))
    own = FifoQueue(queues.database, space, name="my own")
    labels = {"queue": "other", "operation": "push"}

    def push():
        own.push("x")

    assert growth(bearer, push, "fdbqueue_operation_seconds_count", **labels) == 1


def test_openmetrics_for_who_asks_for_it(queues, bearer):
    """As Prometheus does; the strict parser reads it."""
    accept = "application/openmetrics-text; version=1.0.0"
    answer = bearer.get(ADDRESS, headers={"Accept": accept})
    assert answer["Content-Type"].startswith("application/openmetrics-text")
    assert sample(samples(answer, openmetrics), "fdbqueue_engine_up") == 1


@cases("version", ["abc", "1.0.0-rc1", ".", "1..0", "9" * 5_000, "1=2", "1; x", ""])
@cases("media", ["application/openmetrics-text", "text/plain"])
def test_a_version_that_nobody_knows(queues, bearer, media, version):
    """It is ignored, and the metrics are in a format that can be read."""
    accept = f"{media};version={version}, text/html;q=0.5"
    answer = bearer.get(ADDRESS, headers={"Accept": accept})
    assert answer.status_code == 200
    is_open = answer["Content-Type"].startswith("application/openmetrics-text")
    found = samples(answer, *([openmetrics] if is_open else []))
    assert sample(found, "fdbqueue_engine_up") == 1


def test_an_engine_that_is_away_does_not_fail_the_scrape(settings, bearer, caplog):
    """It is said to be away, there are no sizes, and what this process did is there."""
    settings.FDBQUEUE = {"ENGINE": "tests.api.silent_engine", "QUEUES": {"mail": {"kind": "fifo"}}}
    first, second = (samples(bearer.get(ADDRESS)) for _ in range(2))
    before = sample(first, "fdbqueue_engine_errors_total", code="1031") or 0
    assert sample(second, "fdbqueue_engine_errors_total", code="1031") == before + 1
    found = second
    assert sample(found, "fdbqueue_engine_up") == 0
    assert not [name for name, _ in found if name == "fdbqueue_items"]
    assert "the sizes of the queues cannot be read" in {record.msg for record in caplog.records}


def test_a_scrape_costs_a_bounded_number_of_transactions(settings, tmp_path, bearer, monkeypatch):
    """Many queues share one, workers have one, and nothing is written."""
    from tests.pages import watched_engine

    names = [f"queue-{number}" for number in range(50)]
    settings.FDBQUEUE = {
        "ENGINE": "tests.pages.watched_engine",
        "OPTIONS": {"path": tmp_path / "queues.sqlite3", "durability": "normal"},
        "QUEUES": {name: {"kind": "fifo"} for name in names},
    }
    monkeypatch.setattr("fdbqueue.columns.queue_rows.QUEUES_AT_ONCE", 20)
    watched_engine.transactions.clear()
    watched_engine.writes.clear()
    found = samples(bearer.get(ADDRESS))
    assert len([name for name, _ in found if name == "fdbqueue_queues"]) == 50
    assert (len(watched_engine.transactions), watched_engine.writes) == (3 + 1, [])


@pytest.mark.parametrize(
    "header",
    [None, "Bearer", "Bearer ", "Bearer wrong-token-of-some-length", f"Basic {TOKEN}", TOKEN],
)
def test_nobody_reads_them_without_the_token(settings, queues, header):
    """401, and no metrics; the answer is not kept."""
    settings.FDBQUEUE_METRICS_TOKEN = TOKEN
    answer = Client(headers={"Authorization": header} if header else {}).get(ADDRESS)
    assert (answer.status_code, answer.content) == (401, b"")
    assert answer["WWW-Authenticate"] == "Bearer"
    assert "no-store" in answer["Cache-Control"]


@pytest.mark.parametrize("token", [None, "", "short", 1234567890123456789])
def test_a_missing_or_bad_token_lets_nobody_in(settings, queues, token):
    """Not even who sends that very one."""
    settings.FDBQUEUE_METRICS_TOKEN = token
    client = Client(headers={"Authorization": f"Bearer {token or ''}"})
    assert client.get(ADDRESS).status_code == 401


def test_a_token_outside_ascii_is_just_wrong(settings, queues):
    """No error, and no metrics."""
    settings.FDBQUEUE_METRICS_TOKEN = TOKEN
    client = Client(headers={"Authorization": "Bearer t\u00e4ken-of-some-length"})
    assert client.get(ADDRESS).status_code == 401


def test_users_need_the_permission_to_view_all_queues(queues, user_with):
    """Who is logged in without it gets 403."""
    for permissions, status in [((), 403), (("view_queue",), 200), (("pop_queue",), 403)]:
        client = Client()
        client.force_login(user_with(*permissions))
        assert client.get(ADDRESS).status_code == status


@pytest.mark.parametrize("scheme", ["Token", "Bearer"])
def test_a_token_of_the_rest_api_lets_nobody_in(queues, user_with, scheme):
    """Though its user may view all queues."""
    token = Token.objects.create(user=user_with("view_queue"))
    client = Client(headers={"Authorization": f"{scheme} {token.key}"})
    assert client.get(ADDRESS).status_code == 401


def test_only_reading_is_possible(queues, bearer):
    """No other method is."""
    assert bearer.post(ADDRESS).status_code == 405
    assert bearer.head(ADDRESS).status_code == 200


@pytest.mark.parametrize("token", ["short", b"bytes-of-some-length", ""])
def test_the_check_of_the_token(settings, token):
    """A token that lets nobody in is reported; none at all is fine."""
    settings.FDBQUEUE_METRICS_TOKEN = token
    assert "fdbqueue_metrics.E001" in {message.id for message in run_checks()}
    settings.FDBQUEUE_METRICS_TOKEN = None
    assert "fdbqueue_metrics.E001" not in {message.id for message in run_checks()}


def test_the_check_of_the_shared_folder(monkeypatch, tmp_path):
    """A folder that is not there is reported: nothing would be measured."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path / "missing"))
    assert "fdbqueue_metrics.E002" in {message.id for message in run_checks()}
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    assert "fdbqueue_metrics.E002" not in {message.id for message in run_checks()}


@pytest.mark.parametrize("name", ["", "missing", "file"])
def test_a_shared_folder_that_is_not_there(monkeypatch, tmp_path, queues, bearer, caplog, name):
    """The scrape still gives the sizes, which are the engine's; the check and the log tell why."""
    (tmp_path / "file").touch()
    folder = str(tmp_path / name) if name else ""
    queues.queue("mail").push("x")
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", folder)
    assert "fdbqueue_metrics.E002" in {message.id for message in run_checks()}
    found = samples(bearer.get(ADDRESS))
    assert sample(found, "fdbqueue_items", queue="mail", state="ready") == 1
    assert not [name for name, _ in found if name.startswith("fdbqueue_operation")]
    text = "the folder that processes share is not there"
    assert [record.folder for record in caplog.records if record.msg == text] == [folder]


def test_nothing_else_needs_prometheus(tmp_path):
    """The package works, and its service is not observed, where the client is not installed."""
    code = """
import sys
sys.modules["prometheus_client"] = None
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "rest_framework",
                    "fdbqueue"],
    FDBQUEUE={"OPTIONS": {"path": sys.argv[1]}, "QUEUES": {"mail": {"kind": "fifo"}}},
)
django.setup()
import fdbqueue
from fdbqueue.service import instrumentation
import fdbqueue.health.urls
fdbqueue.queue("mail").push("x")
print(fdbqueue.queue("mail").pop().value, instrumentation.observers)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "queues.sqlite3")],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("x ()\n", "")
