"""The worker: how tasks run and end, and what their results say."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace

import pytest
from django.utils import timezone

from fdbqueue.exceptions import CorruptItem
from fdbqueue.service import Item, transactions
from fdbqueue.service.tools import presence
from fdbqueue.service.transactions import run
from fdbqueue.tasks import abort, at_end, compat, enqueue_at_end
from fdbqueue.tasks.ends import Attempt
from fdbqueue.tasks.exceptions import ReturnValueTooLarge
from fdbqueue.tasks.records import encoded
from fdbqueue.tasks.runner import Loop, TaskRunner
from fdbqueue.tasks.source import TaskSource
from fdbqueue.tasks.time_limits import TimeLimits
from tests.engines.children import wait_until
from tests.tasks import jobs
from tests.tasks.stored import FAILED, READY, RUNNING, SUCCESSFUL, stored


def test_many_tasks_in_threads(backend, work):
    """Each runs once."""
    results = [jobs.note.enqueue(number) for number in range(100)]
    worker = work(threads=4)
    assert sorted(jobs.done) == list(range(100))
    assert (worker.succeeded, worker.failed, worker.lost) == (100, 0, 0)
    assert [backend.get_result(one.id).return_value for one in results] == list(range(100))


def test_a_task_that_fails_again_and_again(backend, work, caplog):
    """It ends FAILED after its attempts, with an error for each, and is a dead letter."""
    result = jobs.fail.enqueue("badly")
    worker = work(worker="anna")
    result.refresh()
    assert result.status is FAILED
    assert jobs.done == ["badly"] * 3
    assert result.worker_ids == ["anna"] * 3
    assert [error.exception_class for error in result.errors] == [LookupError] * 3
    assert "in fail\n" in result.errors[0].traceback
    assert "fdbqueue/tasks/runner.py" not in result.errors[0].traceback
    assert result.finished_at is not None
    assert worker.failed == 3
    (dead,) = backend.queue("default").page(state="dead").items
    assert dead.reason == "builtins.LookupError\nbadly"
    (reason,) = backend.queue("default").dead_by_reason()
    assert reason.reason == "builtins.LookupError"


def test_a_redriven_task_runs_as_if_it_had_never_failed(backend, work):
    """The attempts begin anew."""
    result = jobs.fail.enqueue("badly")
    work()
    assert backend.queue("default").redrive() == 1
    result.refresh()
    assert result.status is READY
    assert (result.errors, result.worker_ids, result.finished_at) == ([], [], None)
    work()
    result.refresh()
    assert result.status is FAILED
    assert len(result.errors) == 3


@pytest.mark.parametrize("ends_well", [True, False])
def test_a_record_that_becomes_shorter_leaves_nothing_behind(backend, work, ends_well):
    """Ten long tracebacks take several keys; after a redrive, or an end, fewer."""
    result = jobs.fail_at_length.enqueue(ends_well)
    work()
    assert len(stored(result).errors) == (9 if ends_well else 10)
    if not ends_well:
        backend.queue("default").redrive()
        assert stored(result).errors == []
        work(limit=1)
        assert len(stored(result).errors) == 1


def test_between_attempts_a_task_is_ready_and_its_error_is_known(configure, work):
    """It waits as the backoff says."""
    backend = configure(backoff=lambda error, result: 60 * result.attempts)
    waiting = jobs.fail_by_the_backend.enqueue()
    work()
    waiting.refresh()
    assert waiting.status is READY
    assert len(waiting.errors) == waiting.attempts == 1
    assert backend.queue("default").counts().delayed == 1


def test_a_result_of_any_length_up_to_the_limit(configure, work):
    """Longer than FoundationDB's values; and one that is too long fails, and says so."""
    configure(backoff=jobs.never)
    short, long = jobs.long.enqueue(250_000), jobs.long.enqueue(1_000_001)
    work()
    assert stored(short).return_value == "x" * 250_000
    (error,) = stored(long).errors
    assert error.exception_class_path == "fdbqueue.tasks.exceptions.ReturnValueTooLarge"


def test_a_result_is_as_long_as_its_json_is_stored(configure, work):
    """Compact, and in UTF-8, in any language; lone surrogates, which have none, as escapes."""
    backend = configure(max_result_bytes=30, backoff=jobs.never)
    fits = ["é" * 14, "語" * 9 + "x", "\udce9" * 4 + "xxxx", [1] * 14]
    too_long = ["é" * 14 + "x", "語" * 9 + "xx", "\udce9" * 4 + "xxxxx", [1] * 15]
    results = [[jobs.give.enqueue(n, at) for at in range(4)] for n in range(2)]
    jobs.given[:] = fits, too_long
    work()
    assert [stored(one).return_value for one in results[0]] == fits
    for one in results[0]:
        record = backend.found(one.id).record
        assert len(encoded(record["value"])) in {29, 30}
    errors = [stored(one).errors[0] for one in results[1]]
    assert {error.exception_class for error in errors} == {ReturnValueTooLarge}
    assert {"size_bytes=31" in error.traceback for error in errors} == {True}


def test_async_tasks_run_in_one_loop(backend, work):
    """All in one thread, whatever thread leased them."""
    results = [jobs.double.enqueue(number) for number in range(20)]
    work(threads=4)
    assert [stored(one).return_value for one in results] == [*range(0, 40, 2)]
    assert {*jobs.done} == {"fdbqueue-tasks-loop"}


def test_a_task_whose_code_is_gone_fails_and_is_shown(configure, work):
    """After its attempts, and its result can be read."""
    backend = configure(backoff=jobs.at_once, max_attempts=2)
    result = jobs.note.enqueue(1)
    item = backend.queue("default").pop()
    backend.queue("default").push({**item.value, "task": "tests.tasks.jobs.gone"})
    old = {**item.value, "id": "of-an-earlier-life", "task": "no.such.module"}
    backend.queue("default").push(old)
    worker = work()
    assert worker.failed == 2 * 2
    reasons = {item.reason for item in backend.queue("default").page(state="dead").items}
    assert {reason.partition("\n")[0] for reason in reasons} == {
        "fdbqueue.tasks.exceptions.TaskUnknown"
    }
    gone = backend.get_result(result.id) if backend.found(result.id) else None
    assert gone is None or gone.task.name == "gone"


@pytest.mark.parametrize(
    "value",
    [
        *(None, 7, "x", [], {}, {"id": 7}, {"id": "x", "task": "y", "args": 1, "kwargs": {}}),
        {"id": "x" * 20_000, "task": "y", "args": [], "kwargs": {}, "backend": "default"},
        {"id": "x", "task": "y" * 200_000, "args": [], "kwargs": {}, "backend": "default"},
    ],
)
def test_an_item_that_is_no_task_fails(backend, work, value):
    """It does not go round for ever."""
    backend.queue("default").push(value)
    assert work().failed == 1
    assert backend.queue("default").counts().dead == 1


def test_an_item_that_cannot_be_decoded_fails(backend, work):
    """The other tasks run."""
    queue = backend.queue("default")
    result, after = jobs.note.enqueue(1), jobs.note.enqueue(2)
    place = queue.parts.store.keys.place_named(queue.peek().id)

    def spoil(tr):
        tr[queue.parts.store.keys.key(place)] = b"spoilt"

    run(queue.database, spoil)
    with pytest.raises(CorruptItem):
        queue.peek()
    work()
    assert stored(after).status is SUCCESSFUL
    spoilt = stored(result)
    assert spoilt.status is FAILED
    assert spoilt.errors[0].exception_class_path == "fdbqueue.tasks.exceptions.TaskBuried"


# What a running task sees and does


def test_a_running_task(backend, at_work):
    """Its status, its worker, and when it began."""
    at_work(worker="anna")
    result = jobs.wait.enqueue()
    assert jobs.begun.wait(60)
    result.refresh()
    assert result.status is RUNNING
    assert result.worker_ids == ["anna"]
    assert result.enqueued_at <= result.started_at == result.last_attempted_at
    jobs.gate.set()
    wait_until(lambda: stored(result).is_finished)
    assert stored(result).return_value == "waited"


def test_a_worker_is_known_while_it_works(backend, work, at_work, monkeypatch):
    """With what it does; and no more when it has ended."""
    monkeypatch.setattr(presence, "BEAT_SECONDS", 0.01)
    rows = backend.catalog.presences
    at_work(worker="anna")
    jobs.wait.enqueue()

    def running():
        return [row for row in rows.read().rows if row.running == 1]

    wait_until(running)
    (row,) = running()
    assert (row.name, row.kind, row.threads) == ("anna", "tasks", 1)
    assert row.queues == "tasks-default, tasks-other"
    jobs.gate.set()
    wait_until(lambda: [row for row in rows.read().rows if (row.running, row.done) == (0, 1)])
    work(worker="bob")
    assert {row.name for row in rows.read().rows} == {"anna"}


def test_the_lease_of_a_long_task_is_extended(configure, at_work):
    """It is not taken for dead, and the result still says when it began."""
    backend = configure(lease_seconds=3)
    at_work()
    result = jobs.wait.enqueue()
    assert jobs.begun.wait(60)
    since = timezone.now()
    (item,) = backend.queue("default").page(state="leased").items

    def is_extended():
        (now,) = backend.queue("default").page(state="leased").items
        return now.until > item.until

    wait_until(is_extended)
    again = stored(result)
    assert again.status is RUNNING
    assert again.enqueued_at <= again.started_at <= since
    jobs.gate.set()
    wait_until(lambda: stored(result).is_finished)
    assert stored(result).attempts == 1


def test_what_a_task_enqueues_at_its_end_is_enqueued_once(backend, work):
    """With its end, or not at all."""
    result = jobs.chain.enqueue(3)
    work()
    assert jobs.done == [3, 2, 1, 0]
    assert stored(result).status is SUCCESSFUL
    jobs.done.clear()
    failed = jobs.chain_and_fail.enqueue()
    work()
    assert jobs.done == []
    assert stored(failed).status is FAILED


def test_a_function_for_the_end_that_fails_makes_the_task_fail(backend, work):
    """With its own error, after its attempts."""
    result = jobs.fail_at_the_end.enqueue("at the end")
    work()
    failed = stored(result)
    assert failed.status is FAILED
    assert [error.exception_class for error in failed.errors] == [LookupError] * 2


@pytest.mark.parametrize(
    ("task", "args"),
    [
        (jobs.leave_at_the_end, ()),
        pytest.param(jobs.write_at_the_end, (1, 100_001), id="a value that is too large"),
        pytest.param(jobs.write_at_the_end, (120, 90_000), id="a transaction that is too large"),
    ],
)
def test_a_function_for_the_end_does_not_end_the_worker(backend, work, task, args):
    """The attempt has failed, and is not tried again as if the engine had."""
    results = [task.enqueue(*args), jobs.note.enqueue("after")]
    worker = work()
    assert (worker.succeeded, worker.failed, worker.lost) == (1, 2, 0)
    failed, after = map(stored, results)
    assert (failed.status, failed.attempts) == (FAILED, 2)
    assert after.status is SUCCESSFUL


@pytest.mark.parametrize("is_late", [True, False])
def test_a_function_for_the_end_that_always_takes_too_long(backend, work, monkeypatch, is_late):
    """It is called twice in an attempt; one that takes long, and not too long, succeeds."""
    monkeypatch.setattr(transactions, "_TOO_LONG_SECONDS", -1)
    result = jobs.read_at_the_end.enqueue(is_late)
    if is_late:
        work()
        assert len(jobs.done) == 2 * 2
        assert stored(result).status is FAILED
    else:
        work(limit=1)
        assert len(jobs.done) == 1
        assert stored(result).status is SUCCESSFUL


def test_long_results_that_end_together(configure, db):
    """Where they are too large for one transaction, each has its own; the next lease too."""
    backend = configure(max_result_bytes=5_000_000)
    results = [jobs.long.enqueue(5_000_000 - 2) for _ in range(2)]
    after = jobs.note.enqueue("after")
    queue = backend.queue("default")
    source = TaskSource(queue, backend.records, lease_seconds=60)
    run_task = TaskRunner(backend, source, "a worker").run
    items = source.lease(2, seconds=60, worker="a worker")
    for item in items:
        run_task(item)
    (leased,) = source.lease(1, seconds=60, worker="a worker", done=items)
    assert leased.value["id"] == after.id
    assert all(source.forget(item)[1].is_done for item in items)
    assert {stored(result).status for result in results} == {SUCCESSFUL}


def test_outside_of_a_task_there_is_no_end():
    """The functions say so."""
    with pytest.raises(RuntimeError):
        at_end(lambda tr: None)
    with pytest.raises(RuntimeError):
        enqueue_at_end(jobs.note, 1)


def test_a_task_that_waits_is_aborted_at_once(backend, work):
    """It has failed, and does not run."""
    result = jobs.note.enqueue(1)
    assert abort(result.id) == "aborted"
    assert abort(result.id) == "ended"
    work()
    assert jobs.done == []
    aborted = stored(result)
    assert aborted.status is FAILED
    assert aborted.finished_at is not None
    assert aborted.errors[0].exception_class_path == "fdbqueue.tasks.exceptions.TaskAborted"
    counts = backend.queue("default").counts()
    assert (counts.ready, counts.dead) == (0, 0)
    with pytest.raises(compat.TaskResultDoesNotExist):
        abort("nope")


def test_a_task_that_was_leased_ahead_is_not_run_once_it_is_aborted(backend, work):
    """Neither by the next worker, where the one that leased it is stopped."""
    result = jobs.note.enqueue("aborted")
    queue = backend.queue("default")
    source = TaskSource(queue, backend.records, lease_seconds=60)
    source.lease(1, seconds=60, worker="a worker")
    assert abort(result.id) == "asked"
    assert source.give_back("a worker") == []
    work()
    assert jobs.done == []
    (*_, error) = stored(result).errors
    assert error.exception_class_path == "fdbqueue.tasks.exceptions.TaskAborted"


def test_a_task_that_blocks_the_loop_does_not_hold_up_its_end():
    """The thread of the loop is left behind, as those of other tasks are."""
    loop, begun, release = Loop(), threading.Event(), threading.Event()

    async def block():
        begun.set()
        release.wait(60)

    limits = TimeLimits(grace_seconds=1, lease_seconds=60, on_over=print)
    attempt = Attempt(None, Item(None, None, "1", queue="q"), 60.0)
    args = [SimpleNamespace(limits=limits), attempt, None, block, [], {}]
    running = threading.Thread(target=loop.run, args=args)
    running.start()
    assert begun.wait(60)
    closing = threading.Thread(target=loop.close)
    closing.start()
    try:
        closing.join(60)
        assert not closing.is_alive()
    finally:
        release.set()
        running.join(60)
        closing.join(60)


def test_a_running_task_sees_that_it_is_to_end(backend, at_work):
    """It is not run again."""
    at_work()
    result = jobs.wait_for_abort.enqueue()
    assert jobs.begun.wait(60)
    assert abort(result.id) == "asked"
    wait_until(lambda: stored(result).is_finished)
    aborted = stored(result)
    assert aborted.status is FAILED
    assert aborted.attempts == 1


# The signals


def test_the_signals_of_a_task(backend, work):
    """Started before, finished once it is committed; the class is the sender."""
    received = []

    def start(sender, task_result, **_):
        received.append(("started", sender, task_result.id, task_result.status))

    def finish(sender, task_result, **_):
        assert backend.get_result(task_result.id) == task_result
        received.append(("finished", sender, task_result.id, task_result.status))

    compat.task_started.connect(start)
    compat.task_finished.connect(finish)
    try:
        done, failed = jobs.note.enqueue(1), jobs.fail.enqueue("x")
        work()
    finally:
        compat.task_started.disconnect(start)
        compat.task_finished.disconnect(finish)
    kind = type(backend)
    assert sorted(received) == sorted(
        [
            ("started", kind, done.id, RUNNING),
            ("finished", kind, done.id, SUCCESSFUL),
            *[("started", kind, failed.id, RUNNING)] * 3,
            ("finished", kind, failed.id, FAILED),
        ]
    )


def test_a_receiver_that_fails_is_logged(backend, work, caplog):
    """The worker goes on."""

    def refuse(**_):
        raise LookupError("refused")

    compat.task_finished.connect(refuse)
    try:
        results = [jobs.note.enqueue(number) for number in range(3)]
        with caplog.at_level(logging.ERROR, "fdbqueue.tasks.task_worker"):
            work()
    finally:
        compat.task_finished.disconnect(refuse)
    assert all(stored(one).status is SUCCESSFUL for one in results)
    assert len([one for one in caplog.records if one.name == "fdbqueue.tasks.task_worker"]) == 3


# Which tasks


def test_a_worker_of_some_queues(backend, work):
    """By name, in their order, and without those that are left out."""
    for name in ("default", "other"):
        jobs.note.using(queue_name=name).enqueue(name)
    work(["other"])
    assert jobs.done == ["other"]
    jobs.note.using(queue_name="other").enqueue("other again")
    work(excluded=["default"])
    assert jobs.done == ["other", "other again"]
    jobs.note.using(queue_name="other").enqueue("last")
    work(["other", "default"])
    assert jobs.done == ["other", "other again", "last", "default"]


def test_a_worker_with_a_limit(backend, work):
    """It runs as many tasks."""
    for number in range(5):
        jobs.note.enqueue(number)
    work(limit=3)
    assert jobs.done == [0, 1, 2]


def test_without_results_nothing_is_kept_of_successful_tasks(configure, work):
    """A retention of 0."""
    backend = configure(retention={"successful": 0})
    result = jobs.note.enqueue(1)
    work()
    assert jobs.done == [1]
    with pytest.raises(compat.TaskResultDoesNotExist):
        result.refresh()

    def rows(tr):
        return [row.key for row in tr[backend.records._results.range()]]

    assert run(backend.catalog.database, rows) == []
