"""Tasks with limits by key: never more than these at once, each ends once, nothing polls."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import io
import json
import logging
import re
import time

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import override_settings
from django.utils import timezone

from fdbqueue.metrics.operations import label_of
from fdbqueue.service import NAME, run
from fdbqueue.tasks import abort, call, chain, group, group_result, task
from fdbqueue.tasks.compat import IN_DJANGO, BaseTaskBackend, InvalidTask, task_backends
from fdbqueue.tasks.key_limit_queues import LIMITED, limits_key, member_name, parsed
from fdbqueue.tasks.task_worker import TaskWorker
from tests.cases import cases
from tests.concurrency.conftest import clock
from tests.engines.children import wait_until
from tests.pages.addresses import LIST, of, text
from tests.tasks import jobs, limited_jobs
from tests.tasks.killing import Workers
from tests.tasks.stored import FAILED, READY, SUCCESSFUL, stored
from tests.tasks.working import working

__all__ = ["clock"]

DEADLINE_SECONDS = 60


@pytest.fixture(autouse=True)
def _nothing_ran():
    limited_jobs.running.clear()
    limited_jobs.most.clear()
    limited_jobs.begun.clear()
    limited_jobs.gate.clear()
    yield
    limited_jobs.gate.set()


@contextlib.contextmanager
def counted(database):
    """Count the transactions that are begun meanwhile."""
    kind, numbers = type(database), []
    create = kind.create_transaction

    def create_transaction(self):
        numbers.append(1)
        return create(self)

    kind.create_transaction = create_transaction
    try:
        yield lambda: len(numbers)
    finally:
        kind.create_transaction = create


def test_a_worker_runs_limited_tasks_within_their_limits(backend, work):
    """Eight threads, three keys, two at a time each: all of that, and no more."""
    results = [
        limited_jobs.two_a_customer.enqueue(customer, number)
        for number in range(20)
        for customer in ("a", "b", "c")
    ]
    plain = [jobs.note.enqueue(number) for number in range(20)]
    worker = work(threads=8)
    assert worker.succeeded == 80
    assert limited_jobs.most == {"a": 2, "b": 2, "c": 2}
    assert [stored(one).return_value for one in results] == [n for n in range(20) for _ in "abc"]
    assert {stored(one).status for one in plain} == {SUCCESSFUL}


def test_the_whole_function_has_one_limit_without_a_key(backend, work):
    """In the order in which they were enqueued."""
    for number in range(10):
        limited_jobs.one_at_all.enqueue(number)
    work(threads=4)
    assert limited_jobs.begun == [("all", number) for number in range(10)]
    assert limited_jobs.most == {"all": 1}


def test_a_call_without_a_key_has_no_limit(backend, work):
    """It is in the queue itself."""
    limited_jobs.one_a_customer.enqueue(None, 1)
    assert backend.queue("default").size() == 1
    limited_jobs.one_a_customer.enqueue("a", 2)
    assert backend.queue("default").size() == 1
    assert work().succeeded == 2


def test_keys_of_any_characters(backend, work):
    """Each has a queue of its own, whatever is in it; a long one, too."""
    keys = ["a", "A", "a.b", "a_b", "é", "/../", "*", " ", "x" * 200, "x" * 199 + "y", "_"]
    names = [member_name("tasks-default", "path", key) for key in [*keys, None]]
    assert len({*names}) == len(names)
    assert all(NAME.fullmatch(name) for name in names)
    assert [parsed(name).key for name in names[:8]] == keys[:8]
    assert {parsed(name).queue for name in names} == {"tasks-default"}
    assert parsed(names[-1]).key is None
    assert parsed(names[8]).key.startswith("xxx")
    for number, key in enumerate(keys):
        limited_jobs.one_a_customer.enqueue(key, number)
    assert work(threads=3).succeeded == len(keys)
    assert sorted(limited_jobs.most) == sorted(keys)


def test_priority_and_run_after_within_a_key(backend, work):
    """As in any queue: the highest priority first, and nothing before its time."""
    later = timezone.now() + datetime.timedelta(hours=1)
    limited_jobs.one_a_customer.enqueue("a", 1)
    limited_jobs.one_a_customer.using(priority=5).enqueue("a", 2)
    delayed = limited_jobs.one_a_customer.using(run_after=later, priority=9).enqueue("a", 3)
    assert work(threads=2).succeeded == 2
    assert limited_jobs.begun == [("a", 2), ("a", 1)]
    assert stored(delayed).status is READY


def test_a_limited_task_is_found_as_any_other(backend, work):
    """Its result, its queue's name, an abort, its retries, its end among those of its queue."""
    result = limited_jobs.fail.enqueue("a")
    aborted = limited_jobs.one_a_customer.enqueue("b", 1)
    for one in (result, aborted):
        assert (stored(one).status, stored(one).task.queue_name) == (READY, "default")
    assert abort(aborted.id) == "aborted"
    assert stored(aborted).status is FAILED
    work()
    found = stored(result)
    assert (found.status, found.attempts, found.task.queue_name) == (FAILED, 3, "default")
    assert limited_jobs.begun == [("a", "fail")] * 3
    records = backend.records
    assert run(backend.catalog.database, records.ended_queues) == ["tasks-default"]


def test_a_key_is_free_while_a_failed_attempt_pauses(backend, work):
    """For an hour, and others of its key run meanwhile; a dead letter does not count either."""
    result = limited_jobs.fail_for_an_hour.enqueue("a")
    work()
    assert stored(result).status is READY
    assert limited_jobs.fail_for_an_hour.enqueue("a") != result
    assert work().failed == 1


def test_limited_and_unlimited_tasks_take_turns(backend, work):
    """Neither waits for all of the other, and the unlimited ones keep their order."""
    for number in range(30):
        jobs.note.using(priority=number % 3).enqueue(("plain", number))
        limited_jobs.one_a_customer.enqueue(f"c{number % 2}", number)
    order = []
    work(prefetch=1, on_end=lambda end: order.append(end.call.task.rpartition(".")[2]))
    half = order[:30]
    assert 10 <= half.count("note") <= 20
    plain = [number % 3 for _, number in jobs.done]
    assert plain == sorted(plain, reverse=True)


def test_a_full_key_keeps_nothing_else_back(backend):
    """Its tasks wait; those of other keys, and those without a limit, run meanwhile."""
    held = limited_jobs.hold.enqueue("full")
    more = [limited_jobs.hold.enqueue("full") for _ in range(3)]
    with working(limited_jobs.gate, threads=2):
        wait_until(lambda: limited_jobs.begun == [("full", "hold")])
        others = [limited_jobs.one_a_customer.enqueue("full", number) for number in range(5)]
        plain = [jobs.note.enqueue(number) for number in range(20)]
        wait_until(lambda: all(stored(one).is_finished for one in (*plain, *others)))
        assert [stored(one).status for one in more] == [READY] * 3
        limited_jobs.gate.set()
        wait_until(lambda: all(stored(one).status is SUCCESSFUL for one in (held, *more)))


def test_a_limited_task_comes_while_the_worker_is_busy(backend):
    """It has its turn although the worker's own queue is never empty."""
    with working(limited_jobs.gate) as worker:
        for number in range(300):
            jobs.note.enqueue(number)
        wait_until(lambda: jobs.done)
        result = limited_jobs.one_a_customer.enqueue("a", 1)
        wait_until(lambda: stored(result).is_finished)
        assert worker.succeeded < 300 or backend.queue("default").size() == 0


# The rate


def test_the_rate_of_a_key(backend, work):
    """An attempt takes a token; without one a task waits, and only those of its key do."""
    results = [limited_jobs.one_an_hour.enqueue("a", number) for number in range(2)]
    other = limited_jobs.one_an_hour.enqueue("b", 1)
    with working(limited_jobs.gate):
        wait_until(lambda: stored(results[0]).is_finished and stored(other).is_finished)
        assert stored(jobs.note.enqueue(1)).status
        assert stored(results[1]).status is READY


def test_what_is_given_back_before_it_began_has_its_token_again(backend):
    """It was leased ahead, behind a task that takes long."""
    source = TaskWorker(backend, ["default"], threads=1)._source
    result = limited_jobs.one_an_hour.enqueue("a", 1)
    for _ in range(3):
        (item,) = source.lease(2, seconds=60, worker="me")
        source.settle([item])
        assert stored(result).status is READY
    (item,) = source.lease(2, seconds=60, worker="me")
    limited_jobs.one_an_hour.enqueue("a", 2)
    assert source.lease(2, seconds=60, worker="me") == []


def test_a_worker_that_does_not_stay_waits_for_the_rate(backend, work):
    """As for any queue that limits keep items back in."""
    for number in range(10):
        limited_jobs.hundred_a_second.enqueue("a", number)
    began = time.monotonic()
    assert work(threads=2).succeeded == 10
    assert time.monotonic() - began >= 0.08


def test_the_rate_holds_over_several_processes(configure, environment, tmp_path):
    """Three workers begin twenty of a key in a second, and one more, together."""
    backend = configure(lease_seconds=60)
    workers = Workers(environment, 3, "--threads", "2")
    try:
        began = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        results = [
            limited_jobs.write_a_time.enqueue(str(tmp_path), key, number)
            for number in range(40)
            for key in ("a", "b")
        ]
        wait_until(lambda: all(stored(one).is_finished for one in results), DEADLINE_SECONDS)
    finally:
        workers.stop()
    lines = [line.split() for file in tmp_path.iterdir() for line in file.read_text().splitlines()]
    assert len(lines) == len(results)
    for key in ("a", "b"):
        times = sorted(int(at) for one, _, at in lines if one == key)
        assert times[-1] - began >= 39 / 20 * 1e9
    assert backend.queue("default").size() == 0


# Changes


def with_limits(job, **limits):
    """Return a task with other limits, as new code would have it."""
    return dataclasses.replace(job, **limits)


def test_a_raised_limit_counts_at_once(backend):
    """Also for keys that wait for a moment, and of which nothing is enqueued."""
    results = [limited_jobs.hold.enqueue(key) for key in ("a", "a", "b", "b")]
    with working(limited_jobs.gate, threads=4):
        wait_until(lambda: len(limited_jobs.begun) == 2)
        with_limits(limited_jobs.hold, max_running=2).enqueue("c")
        wait_until(lambda: len(limited_jobs.begun) == 4)
        limited_jobs.gate.set()
        wait_until(lambda: all(stored(one).is_finished for one in results))


def test_a_raised_rate_counts_at_once(backend):
    """Nobody waits for the hour that was to pass."""
    results = [limited_jobs.one_an_hour.enqueue("a", number) for number in range(4)]
    with working(limited_jobs.gate):
        wait_until(lambda: stored(results[0]).is_finished)
        with_limits(limited_jobs.one_an_hour, rate="1000/s").enqueue("b", 0)
        wait_until(lambda: all(stored(one).is_finished for one in results))


def test_a_lowered_limit_lets_nothing_begin_until_enough_has_ended(backend, work):
    """What runs runs on."""
    wide = with_limits(limited_jobs.hold, max_running=3)
    results = [wide.enqueue("a") for _ in range(6)]
    with working(limited_jobs.gate, threads=6):
        wait_until(lambda: len(limited_jobs.begun) >= 1)
        # this worker has said its own limit by now, which is 1
        held = len(limited_jobs.begun)
        assert held <= 3
        assert sum(stored(one).status is READY for one in results) >= 3
        limited_jobs.gate.set()
        wait_until(lambda: all(stored(one).is_finished for one in results))


def test_without_a_row_one_of_a_key_runs_at_a_time(backend, work):
    """So also if it cannot be read: nothing is taken for unlimited."""
    for number in range(6):
        limited_jobs.two_a_customer.enqueue("a", number)
    (name,) = [name for name in backend.catalog.names() if name.startswith(LIMITED)]
    key = limits_key(backend.records.prefix, name)
    for row in (None, b"{", b"[]", b'{"max_leased": 0}', b'{"rate": "1"}'):
        run(backend.catalog.database, functools.partial(write_row, key=key, row=row))
        items = backend.catalog.queue(name).lease_many(5)
        assert len(items) == 1
        backend.catalog.queue(name).requeue(items[0])


def write_row(tr, key, row):
    """Write the row of limits, or remove it."""
    if row is None:
        tr.clear(key)
    else:
        tr[key] = row


# Nothing polls


def test_a_worker_whose_tasks_are_all_over_their_limits_asks_for_nothing(backend):
    """A waiter looks again after five seconds, as ever: nothing else happens."""
    full = [limited_jobs.hold.enqueue(f"k{number % 3}") for number in range(12)]
    slow = [limited_jobs.one_an_hour.enqueue("a", number) for number in range(5)]

    def are_quiet():
        with counted(backend.catalog.database) as count:
            time.sleep(3.0)
        return count() <= 18  # two workers look and keep house; a poll would be many more

    with working(limited_jobs.gate, threads=3), working(limited_jobs.gate, threads=2):
        wait_until(lambda: len(limited_jobs.begun) == 4)
        wait_until(are_quiet)
        limited_jobs.gate.set()
        wait_until(lambda: all(stored(one).is_finished for one in full))
    assert sum(stored(one).status is READY for one in slow) == 4


# What is shown


def test_what_is_shown_of_a_task_that_its_limit_keeps_back(backend, capsys):
    """Why it waits, and for what; until it has ended."""
    held, waits = [limited_jobs.hold.enqueue("a") for _ in range(2)]
    slow = [limited_jobs.one_an_hour.enqueue("b", number) for number in range(2)]
    with working(limited_jobs.gate, threads=3):
        wait_until(lambda: stored(slow[0]).is_finished and limited_jobs.begun)
        call_command("tasks_show", waits.id)
        text = capsys.readouterr().out
        assert "Ready; as many of its key run as may" in text
        assert "a: 1 of 1 run" in text
        call_command("tasks_show", waits.id, "--json")
        found = json.loads(capsys.readouterr().out)
        limits = {"key": "a", "max_running": 1, "rate": None, "burst": None, "running": 1}
        assert found["limits"] == {**limits, "held_by": "max_running"}
        assert found["queue_name"] == "default"
        call_command("tasks_show", slow[1].id)
        text = capsys.readouterr().out
        assert "Ready; as many of its key have begun as may" in text
        assert "b: at most 1/h begin" in text
        call_command("tasks_show", held.id)
        assert "Running" in capsys.readouterr().out
        limited_jobs.gate.set()
        wait_until(lambda: stored(waits).is_finished)
    call_command("tasks_show", waits.id, "--json")
    assert json.loads(capsys.readouterr().out)["limits"] is None


def listed(command, capsys, *options):
    """Return the names of what a command prints, and the numbers of the family of limited tasks."""
    call_command(command, "--json", *options)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return {line["name"] for line in lines if "tasks" in line["name"]}, lines[-1]


def test_keys_are_shown_as_a_part_of_their_queue(backend, work, capsys):
    """As one family from the first key on; its sums have what is dead, too."""
    limited_jobs.fail.enqueue("a")
    work()
    family = "limited.tasks-default.*"
    assert listed("queue_list", capsys)[0] == {family}
    names, sums = listed("queue_list", capsys, "--rates")
    assert (names, sums["members"], sums["dead"]) == ({family}, 0, 1)
    limited_jobs.one_a_customer.enqueue("b", 1)
    jobs.note.enqueue(1)
    assert listed("queue_list", capsys)[0] == {family, "tasks-default"}
    names, sums = listed("queue_list", capsys, "--rates")
    assert (names, sums["members"], sums["ready"]) == ({family, "tasks-default"}, 1, 1)
    labels = {label_of(name) for name in backend.catalog.names() if "tasks" in name}
    assert labels == {"tasks-default"}


def test_the_list_says_what_keys_need_attention(backend, work, admin_client):
    """Under the name of their queue; the link leads to the failed tasks of the key."""
    limited_jobs.fail.enqueue("a")
    work()
    (name,) = [name for name in backend.catalog.names() if name.startswith(LIMITED)]
    page = text(admin_client.get(LIST))
    attention = page.partition('id="attention-heading"')[2].partition("</section>")[0]
    assert re.search(rf'href="{re.escape(of(name))}\?state=dead"[^>]*>tasks-default', attention)


# Groups, schedules


def test_the_log_calls_a_key_by_its_queue(backend, work, clock, caplog):
    """What its attempts come to, and that leases have expired."""
    limited_jobs.fail.enqueue("a")
    assert TaskWorker(backend, ["default"])._source.lease(1, seconds=60, worker="gone")
    clock.advance(3_600)
    with caplog.at_level(logging.INFO, "fdbqueue.service"):
        work()
    found = {(one.msg, one.queue) for one in caplog.records if hasattr(one, "queue")}
    assert found >= {(text, "tasks-default") for text in ("leases expired", "an item was given up")}
    assert {queue for _, queue in found} == {"tasks-default"}


def test_limited_tasks_in_a_group(backend, work):
    """They are within their limits, and what follows comes once."""
    made = group([call(limited_jobs.two_a_customer, "a", number) for number in range(12)])
    result = made.then(call(jobs.note)).enqueue()
    assert work(threads=6).failed == 0
    found = group_result(result.id)
    assert (found.status, found.succeeded) == (SUCCESSFUL, 12)
    assert limited_jobs.most["a"] <= 2
    assert len(jobs.done) == 1


# Bad input


@pytest.mark.parametrize("key", ["its own", "{customer}", "{0}-{number}"])
def test_a_step_whose_key_needs_the_value_that_it_is_given(backend, work, key):
    """Its key is made when it is enqueued; whether the code names it, or a call gives a text."""
    step = limited_jobs.say if key == "its own" else limited_jobs.say.using(concurrency_key=key)
    inner = group([call(step, 1), call(step, 2)]).then(limited_jobs.say)
    result = chain(call(limited_jobs.say, "a"), inner).enqueue()
    work(limit=1)
    names = {"{0}-{number}": ["a-1", "a-2"]}.get(key, ["a"])
    path = limited_jobs.say.module_path
    expected = [member_name("tasks-default", path, name) for name in names]
    assert sorted({*expected}) == sorted(name for name in backend.catalog.names() if _size(name))
    parts = group_result(result.parts()[1].id).parts()
    assert {part.queue for part in parts} == {*expected}
    work()
    group_id = result.parts()[1].id
    *before, after = limited_jobs.begun
    assert sorted(before) == [("a", 0), ("a", 1), ("a", 2)]  # keys take turns
    assert after == (group_id, 0)
    assert group_result(result.id).status is SUCCESSFUL


def _size(name):
    return task_backends["default"].catalog.queue(name).size()


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("5", "LookupError: no customer is a number"),
        (None, "AttributeError: 'NoneType' object has no attribute 'isdigit'"),
        ("x" * 201, f"{InvalidTask.__name__}: A concurrency_key is a text of 1 to 200 characters"),
    ],
)
def test_a_step_that_has_no_key_has_failed(backend, work, value, problem):
    """Its part says why; the step before has succeeded, and the chain has failed."""
    first = jobs.note.using(queue_name="default")
    result = chain(call(first, value), limited_jobs.say).enqueue()
    work()
    result.refresh()
    assert (result.status, result.succeeded, result.failed) == (FAILED, 1, 1)
    assert result.parts()[1].problem.startswith(problem)


def test_a_step_whose_code_is_gone_has_failed(backend, work, monkeypatch):
    """Nothing is known of its key."""
    result = chain(call(limited_jobs.say, "a"), limited_jobs.two_a_customer).enqueue()
    monkeypatch.delattr(limited_jobs, "two_a_customer")
    work()
    assert result.parts()[1].problem.startswith("TaskUnknown: No task has this path")


def test_a_step_whose_limits_are_gone_has_none(backend, work, monkeypatch):
    """It is enqueued as any other."""
    result = chain(call(limited_jobs.say, "a"), call(limited_jobs.two_a_customer, 1)).enqueue()
    plain = dataclasses.replace(limited_jobs.two_a_customer, concurrency_key=None, max_running=None)
    monkeypatch.setattr(limited_jobs, "two_a_customer", plain)
    work(limit=1)
    assert result.parts()[1].queue == "tasks-default"


def test_keys_that_a_step_may_not_have(backend):
    """A function of a call cannot be kept; a unique key may depend on the value."""
    own = limited_jobs.say.using(concurrency_key=lambda *_: "b")
    with pytest.raises(InvalidTask, match="cannot be kept until its task is enqueued"):
        chain(call(limited_jobs.say, "a"), own).enqueue()
    unique = jobs.note.using(queue_name="default", unique_key=lambda value, more: value)
    with pytest.raises(InvalidTask, match="has a unique key"):
        chain(call(limited_jobs.say, "a"), unique).enqueue()
    assert backend.catalog.names() == []


@cases(
    ("options", "text"),
    [
        ({"max_running": 0}, "max_running may be None, or a whole number from 1"),
        ({"max_running": -1}, "max_running"),
        ({"max_running": 1.5}, "max_running"),
        ({"max_running": True}, "max_running"),
        ({"max_running": "2"}, "max_running"),
        ({"rate": "100"}, "rate may be None, or a text such as"),
        ({"rate": "0/m"}, "rate"),
        ({"rate": 100}, "rate"),
        ({"burst": 2}, "burst is for a task that has a rate"),
        ({"rate": "1/s", "burst": 0}, "burst"),
        ({"concurrency_key": "a"}, "max_running or a rate"),
        ({"concurrency_key": 5, "max_running": 1}, "concurrency_key may be a text"),
        ({"concurrency_key": "", "max_running": 1}, "1 to 200 characters"),
        ({"concurrency_key": "x" * 201, "max_running": 1}, "200 characters; not of 201"),
        ({"queue_name": "x" * 60, "max_running": 1}, "too long a name"),
    ],
)
def test_what_limits_may_not_be(configure, options, text):
    """Each is refused where the task is made."""
    configure(queues=())
    with pytest.raises(InvalidTask, match=text):
        task(**options)(jobs.note.func)


@pytest.mark.parametrize("key", [5, "", "x" * 201])
def test_what_the_key_of_a_call_may_not_be(backend, key):
    """Nothing is enqueued."""
    with pytest.raises(InvalidTask, match="A concurrency_key is a text of 1 to 200"):
        limited_jobs.one_a_customer.enqueue(key, 1)
    assert backend.catalog.names() == []


def test_a_key_that_does_not_fit_the_arguments(backend):
    """Nothing is enqueued."""
    wrong = dataclasses.replace(limited_jobs.two_a_customer, concurrency_key="{nobody}")
    with pytest.raises(InvalidTask, match="does not fit the arguments"):
        wrong.enqueue("a", 1)


def test_limits_are_the_codes_to_say(backend):
    """A call may have another key, and no other limit."""
    with pytest.raises(TypeError, match="max_running"):
        limited_jobs.hold.using(max_running=5)
    limited_jobs.one_a_customer.using(concurrency_key="z").enqueue("a", 1)
    (name,) = backend.catalog.names()
    assert parsed(name).key == "z"


def test_other_backends_keep_no_limits(configure):
    """Django's own run tasks at once, in tests; any other is refused."""
    configure()
    djangos = "django.tasks" if IN_DJANGO else "django_tasks"
    tasks = {
        "default": {"BACKEND": f"{djangos}.backends.immediate.ImmediateBackend"},
        "foreign": {"BACKEND": "tests.tasks.test_key_limits.ForeignBackend"},
    }
    with override_settings(TASKS=tasks):
        made = task(max_running=1)(jobs.note.func)
        assert made.call(5) == 5
        with pytest.raises(InvalidTask, match="ForeignBackend, which keeps no limits"):
            task(backend="foreign", max_running=1)(jobs.note.func)


class ForeignBackend(BaseTaskBackend):
    """A backend of somebody else's."""

    supports_async_task = True

    def enqueue(self, task, args, kwargs):
        """Enqueue nothing."""
        raise NotImplementedError


# Names, and queues of any name


def test_backends_whose_queues_have_any_name(configure, work):
    """A worker of one queue takes its limited tasks alone."""
    configure(queues=())
    limited_jobs.one_a_customer.using(queue_name="mail").enqueue("a", 1)
    limited_jobs.one_a_customer.using(queue_name="mail-2").enqueue("a", 2)
    assert work(["mail"]).succeeded == 1
    assert limited_jobs.begun == [("a", 1)]
    assert work(excluded=["mail-2"]).succeeded == 0
    assert work().succeeded == 1
    assert limited_jobs.begun == [("a", 1), ("a", 2)]


def test_a_command_refuses_a_queue_of_limited_tasks_that_there_is_not(backend, work):
    """A mistyped name is no empty queue; the right one is in the doctor's rows."""
    limited_jobs.fail.enqueue("a")
    work()
    with pytest.raises(CommandError, match="nothing was ever pushed into it") as caught:
        call_command("queue_redrive", "limited.tasks-default.shop.tasks.fail.a", interactive=False)
    assert caught.value.returncode == 3
    out = io.StringIO()
    call_command("queue_doctor", "--json", stdout=out)
    (name,) = set(re.findall(r"limited[.]tasks-default[.]\w+[.]a\b", out.getvalue()))
    call_command("queue_redrive", name, interactive=False, stdout=out)
    assert out.getvalue().endswith(f"Redrove 1 dead item in '{name}'.\n")
