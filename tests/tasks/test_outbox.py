"""The outbox: tasks that are enqueued in transactions of the ORM, and moved once each."""

from __future__ import annotations

import contextlib
import datetime
import json
import threading

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError
from django.db import DatabaseError, connection, transaction
from django.db.transaction import TransactionManagementError
from django.test import modify_settings, override_settings
from django.utils import timezone

from fdbqueue.exceptions import ValueTooLarge
from fdbqueue.service import run
from fdbqueue.tasks import TaskAborted, abort, call, group, group_result
from fdbqueue.tasks.backend import FdbQueueBackend
from fdbqueue.tasks.checks import check_tables
from fdbqueue.tasks.compat import (
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultStatus,
    backends,
    task_enqueued,
)
from fdbqueue.tasks.key_limit_queues import member_name
from fdbqueue.tasks.many import MAX_QUEUES
from fdbqueue.tasks.outbox import mover
from fdbqueue.tasks.outbox.models import OutboxTask
from fdbqueue.tasks.outbox.mover import ClaimLost, RowMover, move_now
from fdbqueue.tasks.records import packed, unknown_call
from fdbqueue.tasks.task_worker import TaskWorker
from tests.called import called
from tests.cases import cases
from tests.engines.children import wait_until
from tests.tasks import jobs, limited_jobs, outbox_jobs
from tests.tasks.outboxes import claims, database_at, enqueue_all, queued

pytestmark = pytest.mark.usefixtures("lasting_claims")


@pytest.fixture(autouse=True)
def _database(tmp_path, django_db_blocker):
    with django_db_blocker.unblock(), database_at(str(tmp_path / "orm.sqlite3")):
        yield


@pytest.fixture
def backend(configure):
    return configure(outbox=True)


@pytest.fixture
def in_thread(backend):
    """Run a worker in a thread."""

    @contextlib.contextmanager
    def run():
        worker = TaskWorker(backend)
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            yield worker
        finally:
            worker.stop()
            thread.join(60)
        assert not thread.is_alive()

    return run


def test_a_task_is_enqueued_with_the_transaction_of_the_orm(backend, work):
    """Its id is valid at once, before and behind the move."""
    with transaction.atomic():
        result = jobs.note.enqueue("x")
        assert backend.get_result(result.id).status is TaskResultStatus.READY
    assert backend.get_result(result.id).enqueued_at == result.enqueued_at
    assert backend.queue("default").counts().ready == 0
    work()
    assert jobs.done == ["x"]
    assert backend.get_result(result.id).return_value == "x"
    assert not OutboxTask.objects.exists()


def test_a_rollback_leaves_nothing(backend, work):
    """Whether it is that of a savepoint or of the whole transaction."""
    with transaction.atomic():
        lost = jobs.note.enqueue("lost")
        transaction.set_rollback(True)
    with transaction.atomic():
        with transaction.atomic():
            jobs.note.enqueue("lost, too")
            transaction.set_rollback(True)
        jobs.note.enqueue("kept")
    work()
    assert jobs.done == ["kept"]
    with pytest.raises(TaskResultDoesNotExist):
        backend.get_result(lost.id)


@pytest.mark.parametrize("option", ["outbox", "enqueue_on_commit"])
def test_without_autocommit_an_enqueue_needs_a_block(configure, work, option):
    """Outside one it raises, and nothing is enqueued; in one it is with the project's commit."""
    configure(**{option: True})
    transaction.set_autocommit(False)
    try:
        for enqueue in (
            lambda: jobs.note.enqueue("lost"),
            lambda: jobs.note.enqueue_many([(["lost"], {})]),
            group([call(jobs.note, "lost")]).enqueue,
        ):
            with pytest.raises(TransactionManagementError):
                enqueue()
        with transaction.atomic():
            jobs.note.enqueue("kept")
        transaction.commit()
    finally:
        transaction.set_autocommit(True)
    work()
    assert jobs.done == ["kept"]


def test_rows_keep_their_order(backend):
    """Those of a queue do, over all transactions."""
    enqueue_all(range(700))
    enqueue_all(range(700, 1_200))
    assert move_now(backend.outbox(), backend.catalog).moved == 1_200
    assert queued(backend) == [*range(1_200)]


def test_a_batch_is_bounded_by_its_size(backend):
    """Large tasks go few at a time."""
    enqueue_all(["x" * 900_000 for _ in range(8)])
    steps = []
    move_now(backend.outbox(), backend.catalog, goes_on=lambda one: not steps.append(one))
    assert len(steps) == 8
    assert backend.queue("default").counts().ready == 8


def test_a_transaction_moves_to_few_queues(backend):
    """It has five seconds, and each key has a queue: to as many as ``enqueue_many`` does."""
    with transaction.atomic():
        for number in range(MAX_QUEUES + 1):
            limited_jobs.two_a_customer.enqueue(f"c{number}", number)
        limited_jobs.two_a_customer.enqueue("c0", 0)
    steps = []
    move_now(backend.outbox(), backend.catalog, goes_on=lambda one: not steps.append(one.moved))
    assert steps == [MAX_QUEUES, MAX_QUEUES + 2]


def test_a_mover_that_was_overtaken_moves_nothing(backend):
    """What it has read is old."""
    enqueue_all(["x"])
    outbox = backend.outbox()
    old, new = RowMover(outbox, backend.catalog), RowMover(outbox, backend.catalog)
    assert old.claim()
    assert not new.claim()
    assert new.claim(by_force=True)
    with pytest.raises(ClaimLost):
        old.move()
    new.move()
    assert new.done == (1, 0)
    assert queued(backend) == ["x"]


def test_a_worker_that_stays_moves_rows_as_they_come(backend, in_thread):
    """It is woken; the process that commits need not do anything more."""
    with in_thread():
        for number in range(3):
            enqueue_all([number])
            wait_until(lambda number=number: number in jobs.done)


BAD_CALLS = {
    "no JSON": "{",
    "nested too deeply": "[" * 100_000,
    "another type": "[]",
    "no call": '{"value": {"id": "x"}}',
    "NaN": '{"value": NaN}',
    "a number that is too large": '{"value": 1e999}',
    "too large": '{"value": "' + "x" * 6_200_000 + '"}',
    "a call of another row": json.dumps({"value": {**packed(unknown_call("y", "default"))}}),
}


@pytest.mark.parametrize("call", BAD_CALLS.values(), ids=BAD_CALLS.keys())
def test_a_row_that_cannot_be_read_is_set_aside(backend, call):
    """With the reason; those before and behind it are moved."""
    before, bad, _ = enqueue_all([1, 2, 3])
    OutboxTask.objects.filter(result_id=bad.id).update(call=call)
    assert move_now(backend.outbox(), backend.catalog) == (2, 1)
    assert queued(backend) == [1, 3]
    (row,) = OutboxTask.objects.all()
    assert (row.result_id, row.set_aside_us is None) == (bad.id, False)
    assert row.problem.startswith("NotATask: ")
    assert move_now(backend.outbox(), backend.catalog) == (0, 0)
    assert backend.get_result(before.id).status is TaskResultStatus.READY
    assert backend.get_result(bad.id).status is TaskResultStatus.READY


def test_a_row_that_its_queue_refuses_is_set_aside(backend):
    """One among many, whatever is wrong with it."""
    results = enqueue_all(range(20))
    bad = OutboxTask.objects.get(result_id=results[7].id)
    call = json.loads(bad.call)
    call["unique"] = "x" * 2_000
    OutboxTask.objects.filter(pk=bad.pk).update(call=json.dumps(call))
    assert move_now(backend.outbox(), backend.catalog) == (19, 1)
    assert queued(backend) == [one for one in range(20) if one != 7]
    (row,) = OutboxTask.objects.all()
    assert "1,000 bytes" in row.problem or "1000 bytes" in row.problem
    call["unique"] = "short"
    OutboxTask.objects.update(call=json.dumps(call))
    assert backend.outbox().retry([bad.result_id]) == 1
    assert move_now(backend.outbox(), backend.catalog) == (1, 0)


def test_rows_of_a_queue_that_is_not_known_wait(backend, configure, caplog):
    """For a worker of a newer version of the project; they hold up no others."""
    with transaction.atomic():
        jobs.note.using(queue_name="other").enqueue("other")
        jobs.note.enqueue("x")
    old = configure(queues=["default"], outbox=True)
    assert move_now(old.outbox(), old.catalog, goes_on=lambda _: True) == (1, 0)
    assert "a queue that is not known" in caplog.text
    assert OutboxTask.objects.get().set_aside_us is None
    new = configure(outbox=True)
    assert move_now(new.outbox(), new.catalog) == (1, 0)
    assert queued(new, "other") == ["other"]


def mover_of(configure, *queues):
    """Return the mover of a version of the project that knows some queues; () for any."""
    backend = configure(queues=queues, outbox=True)
    return RowMover(backend.outbox(), backend.catalog)


def test_rows_of_very_many_queues_that_are_not_known(configure, caplog, monkeypatch):
    """They keep no other row back, and the log says once which they are."""
    monkeypatch.setattr(mover, "_MAX_UNKNOWN", 2)
    monkeypatch.setattr(mover, "MAX_ROWS_AT_ONCE", 4)
    old, new = mover_of(configure, "default"), mover_of(configure)
    with transaction.atomic():
        jobs.note.enqueue("first")
        for number in range(5):
            jobs.note.using(queue_name=f"new-{number}").enqueue(number)
        for number in range(9):
            limited_jobs.one_a_customer.using(queue_name="new").enqueue(f"{number}", number)
        jobs.note.enqueue("last")
    assert old.claim()
    for _ in range(2):
        old.move()
        jobs.note.enqueue("next")
    old.move()
    assert queued(backends()[0]) == ["first", "last", "next", "next"]
    known = [f"tasks-new-{number}" for number in range(5)]
    assert sorted(one.queue for one in caplog.records) == ["tasks-new", *known]
    assert new.claim()
    new.move()
    assert new.done == (14, 0)
    assert not OutboxTask.objects.exists()


def test_rows_of_an_unknown_queue_go_to_a_mover_that_knows_it(configure):
    """It takes the claim from the mover that leaves them; no other does."""
    first, second = mover_of(configure, "default"), mover_of(configure, "default")
    third, fourth = mover_of(configure), mover_of(configure)
    jobs.note.using(queue_name="other").enqueue("other")
    assert first.claim()
    assert not third.claim()
    first.move()
    assert not second.claim()
    assert third.claim()
    first.move()
    third.move()
    assert (first.done, third.done) == ((0, 0), (1, 0))
    assert not OutboxTask.objects.exists()
    assert not any(one.claim() for one in (first, second, fourth))


def test_movers_that_each_know_a_queue_alone_take_turns(configure):
    """The claim says what is left as soon as something is moved, and no more once nothing is."""
    first, second = mover_of(configure, "default"), mover_of(configure, "other")
    both = mover_of(configure)
    for name in ("other", "default"):
        jobs.note.using(queue_name=name).enqueue(name)
    assert first.claim()
    first.move(lambda _: False)  # there may be more to move
    for name in ("default", "other"):
        jobs.note.using(queue_name=name).enqueue(name)
    assert second.claim()
    second.move(lambda _: False)
    assert first.claim()
    first.move()
    assert not OutboxTask.objects.exists()
    assert (first.done.moved, second.done.moved) == (2, 2)
    assert not second.claim()
    assert not both.claim()


def test_a_claim_that_says_nothing_of_unknown_queues(configure, backend):
    """As versions before have written it."""
    first, second = mover_of(configure, "default"), mover_of(configure)
    assert first.claim()
    stored = json.loads(claims(backend)[0])
    del stored["unknown"]
    key = first._key
    run(backend.catalog.database, lambda tr: tr.set(key, json.dumps(stored).encode()))
    assert not second.claim()
    jobs.note.using(queue_name="other").enqueue("other")
    assert first.claim()
    first.move()
    assert second.claim()


def test_what_is_wrong_with_a_task_is_said_at_once(backend):
    """Nothing is inserted."""
    with pytest.raises(TypeError):
        jobs.note.enqueue(object())
    with pytest.raises(ValueTooLarge):
        jobs.note.enqueue("x" * 1_100_000)
    with pytest.raises(InvalidTask):
        jobs.note.using(queue_name="nobody's").enqueue(1)
    assert not OutboxTask.objects.exists()


def test_all_that_json_has_comes_through(backend, work):
    """Characters that databases refuse, exact integers, and floats."""
    value = ["\x00", "ž🐎", 2**70, 0.1, {"a": None}]
    enqueue_all([value])
    work()
    assert jobs.done == [value]


def test_a_task_has_its_priority_and_its_time(backend, work):
    """Once it is moved, it is ordered as all others."""
    later = timezone.now() + datetime.timedelta(days=1)
    with transaction.atomic():
        jobs.note.enqueue("usual")
        jobs.note.using(priority=5).enqueue("first")
        jobs.note.using(run_after=later).enqueue("later")
    work()
    assert jobs.done == ["first", "usual"]
    assert backend.queue("default").counts().delayed == 1


def test_a_task_keeps_its_limits(backend, work):
    """A mover says them with the task, so that no more run at a time than the code allows."""
    with transaction.atomic():
        results = [limited_jobs.two_a_customer.enqueue("ada", number, 0.2) for number in range(6)]
    assert backend.queue("default").counts().ready == 0
    limited_jobs.most.clear()
    work(threads=4)
    assert limited_jobs.most == {"ada": 2}
    assert [backend.get_result(one.id).return_value for one in results] == [*range(6)]
    assert {backend.get_result(one.id).task.queue_name for one in results} == {"default"}


def test_the_limits_of_another_task_are_refused(backend):
    """A row without a part of its queue has none, nor one with a part of another queue."""
    results = enqueue_all([1, 2, 3])
    parts = ({}, {"part": 1}, {"part": member_name("tasks-other", "path", "ada")})
    for row, part in zip(OutboxTask.objects.order_by("pk"), parts, strict=True):
        row.call = json.dumps({**json.loads(row.call), "limits": "{}", **part})
        row.save()
    assert move_now(backend.outbox(), backend.catalog) == (0, 3)
    for bad in results:
        problem = OutboxTask.objects.get(result_id=bad.id).problem
        assert problem.startswith("NotATask: its limits")


def test_a_row_with_limits_is_its_homes(backend, work):
    """Also one that versions before have written, which names the part as its queue, is moved."""
    with transaction.atomic():
        results = [limited_jobs.one_a_customer.enqueue("ada", number) for number in range(2)]
    old, new = OutboxTask.objects.order_by("pk")
    assert {old.queue, new.queue} == {"tasks-default"}
    call = json.loads(old.call)
    old.queue = call.pop("part")
    old.call = json.dumps(call)
    old.save()
    work()
    assert limited_jobs.begun[-2:] == [("ada", 0), ("ada", 1)]
    assert {backend.get_result(one.id).task.queue_name for one in results} == {"default"}


def test_unique_keys_count_when_rows_are_moved(backend, work):
    """Of two tasks with one key, the first is moved; nothing is known of the other."""
    with transaction.atomic():
        first = jobs.note.using(unique_key="k").enqueue(1)
        second = jobs.note.using(unique_key="k").enqueue(2)
    work()
    assert jobs.done == [1]
    assert backend.get_result(first.id).return_value == 1
    with pytest.raises(TaskResultDoesNotExist):
        backend.get_result(second.id)


def test_the_outbox_of_another_database(tmp_path, configure, work):
    """The transactions of that one decide."""
    with database_at(str(tmp_path / "second.sqlite3"), "second"):
        backend = configure(outbox="second")
        with transaction.atomic(using="second"):
            jobs.note.enqueue("lost")
            transaction.set_rollback(True, using="second")
        with transaction.atomic():
            enqueue_all(["kept"], using="second")
            transaction.set_rollback(True)
        assert not OutboxTask.objects.exists()
        assert OutboxTask.objects.using("second").count() == 1
        assert backend.get_result(OutboxTask.objects.using("second").get().result_id)
        work()
        assert jobs.done == ["kept"]


def test_signals_are_sent_with_the_commit(backend):
    """And none for what is rolled back."""
    seen = []

    def receive(task_result, **_):
        seen.append(task_result.args)

    task_enqueued.connect(receive)
    try:
        with transaction.atomic():
            jobs.note.enqueue("lost")
            transaction.set_rollback(True)
        with transaction.atomic():
            jobs.note.enqueue("kept")
            assert seen == []
    finally:
        task_enqueued.disconnect(receive)
    assert seen == [["kept"]]


def test_tasks_of_one_batch_may_enqueue_more(backend, work):
    """A worker that does not stay runs these, too."""
    outbox_jobs.count_down.enqueue(3)
    work()
    assert jobs.done == [3, 2, 1, 0]


def test_the_outboxes_of_two_projects_in_one_store(backend, tmp_path):
    """Each table has a claim of its own: what is moved for one is not forgotten for the other."""
    enqueue_all([1])
    move_now(backend.outbox(), backend.catalog)
    with database_at(str(tmp_path / "second.sqlite3")):
        enqueue_all([2])
        move_now(backend.outbox(), backend.catalog)
    assert len(claims(backend)) == 2
    assert queued(backend) == [1, 2]


def test_a_reader_finds_a_task_whenever_it_is_moved(backend):
    """Not in the queue, not in the table any more, but in the queue by now."""
    results = enqueue_all(range(100))
    missing = []

    def read():
        for result in results:
            try:
                backend.get_result(result.id)
            except TaskResultDoesNotExist:
                missing.append(result.id)
        connection.close()

    thread = threading.Thread(target=read)
    thread.start()
    move_now(backend.outbox(), backend.catalog)
    thread.join(60)
    assert missing == []


# The setting


def test_the_app_is_needed(configure):
    """The check says so, and an enqueue."""
    backend = configure(outbox=True)
    with modify_settings(INSTALLED_APPS={"remove": "fdbqueue.tasks.outbox"}):
        backend = configure_again(backend)
        assert [one.id for one in backend.check()] == ["fdbqueue.tasks.E006"]
        with pytest.raises(ImproperlyConfigured, match=r"fdbqueue\.tasks\.outbox"):
            jobs.note.enqueue(1)


def configure_again(backend):
    """Return a backend like another one, which has no outbox made yet."""
    return FdbQueueBackend(backend.alias, {"QUEUES": ["default"], "OPTIONS": backend.given})


@pytest.mark.parametrize(
    "options",
    [
        {"outbox": "nowhere"},
        {"outbox": 1},
        {"outbox": None},
        {"outbox": True, "enqueue_on_commit": True},
    ],
)
def test_wrong_options(configure, options):
    """The check says what is wrong."""
    assert [one.id for one in configure(**options).check()] == ["fdbqueue.tasks.E002"]


def test_the_table_is_needed(backend, tmp_path):
    """The check of databases says so."""
    assert check_tables(databases=["default"]) == []
    assert check_tables(databases=None) == []
    with database_at(str(tmp_path / "empty.sqlite3"), migrates=False):
        (found,) = check_tables(databases=["default"])
        assert found.id == "fdbqueue.tasks.W002"
        assert "migrate fdbqueue_outbox" in found.hint
        with pytest.raises(DatabaseError, match="fdbqueue_tasks_outbox"):
            jobs.note.enqueue(1)


def test_a_backend_without_an_outbox_reads_no_table(configure, django_assert_num_queries):
    """It costs nothing."""
    backend = configure()
    with django_assert_num_queries(0):
        result = jobs.note.enqueue(1)
        backend.get_result(result.id)
        with pytest.raises(TaskResultDoesNotExist):
            backend.get_result("nobody")


# The command


def test_the_command_counts_the_rows_of_any_number_of_queues(backend):
    """Each key of a limited function is one."""
    (one,) = enqueue_all([1])
    row = OutboxTask.objects.get(result_id=one.id)
    more = [
        OutboxTask(result_id=f"{number}", backend="default", queue=f"q{number}", enqueued_us=1)
        for number in range(1_500)
    ]
    OutboxTask.objects.bulk_create(more)
    assert json.loads(called("tasks_outbox", "--json"))["waiting"] == 1_501
    OutboxTask.objects.exclude(pk=row.pk).update(set_aside_us=1)
    shown = json.loads(called("tasks_outbox", "--json"))
    assert (shown["waiting"], shown["set_aside_count"]) == (1, 1_500)


def test_the_command_shows_moves_and_retries(backend):
    """And says how many rows it did that with."""
    first, second = enqueue_all([1, 2])
    assert called("tasks_outbox").startswith("2 tasks in the outbox, the oldest for ")
    OutboxTask.objects.filter(result_id=first.id).update(call="{")
    with pytest.raises(CommandError, match="1 row cannot be moved"):
        called("tasks_outbox", "--move")
    assert queued(backend) == [2]
    shown = json.loads(called("tasks_outbox", "--json"))
    assert (shown["waiting"], shown["set_aside_count"]) == (0, 1)
    assert shown["set_aside"][0]["id"] == first.id
    assert "NotATask" in called("tasks_outbox")
    assert "Set aside in the outbox" in called("tasks_show", first.id)
    assert (
        called("tasks_outbox", "--retry", second.id)
        == "Of the rows that were set aside, 0 wait again.\n"
    )
    assert called("tasks_outbox", "--retry") == "Of the rows that were set aside, 1 wait again.\n"
    assert "In the outbox" in called("tasks_show", first.id)
    with pytest.raises(CommandError):
        called("tasks_outbox", "--move")
    assert (
        called("tasks_outbox", "--remove", first.id)
        == "Of the rows that were set aside, 1 were removed.\n"
    )
    assert not OutboxTask.objects.exists()
    assert called("tasks_outbox", "--move") == "Moved 0 tasks from the outbox.\n"


def test_the_command_without_an_outbox(configure):
    """It says what is missing, and which backend has one."""
    configure()
    with pytest.raises(CommandError, match=r"has no outbox\. No other has one"):
        called("tasks_outbox")


def test_the_command_without_a_table(backend, tmp_path):
    """It says what the database says."""
    with (
        database_at(str(tmp_path / "empty.sqlite3"), migrates=False),
        pytest.raises(CommandError, match="cannot be used: OperationalError"),
    ):
        called("tasks_outbox")


def test_groups_are_enqueued_with_the_commit(backend, work):
    """They have no row; one of a transaction that is rolled back is not there."""
    with transaction.atomic():
        lost = group([call(jobs.note, "lost")]).enqueue()
        transaction.set_rollback(True)
    with transaction.atomic():
        kept = group([call(jobs.note, "kept")]).enqueue()
        assert backend.queue("default").counts().ready == 0
    work()
    assert jobs.done == ["kept"]
    assert group_result(kept.id).succeeded == 1
    with pytest.raises(TaskResultDoesNotExist):
        group_result(lost.id)


@pytest.mark.parametrize("is_set_aside", [False, True])
def test_a_task_that_waits_is_aborted_at_once(backend, work, is_set_aside):
    """It has a result that says so, and never runs."""
    others = [jobs.note.enqueue("first"), jobs.note.enqueue("last")]
    result = jobs.note.enqueue("aborted")
    if is_set_aside:
        backend.outbox().put_aside(OutboxTask.objects.get(result_id=result.id), "no reason")
    assert abort(result.id) == "aborted"
    assert abort(result.id) == "ended"
    assert OutboxTask.objects.count() == len(others)
    work()
    assert jobs.done == ["first", "last"]
    found = backend.get_result(result.id)
    assert found.status is TaskResultStatus.FAILED
    assert [one.exception_class for one in found.errors] == [TaskAborted]
    assert found.args == ["aborted"]


def test_a_row_that_cannot_be_read_is_aborted(backend):
    """Nothing is known of what it would call."""
    result = jobs.note.enqueue("x")
    OutboxTask.objects.update(call="[")
    assert abort(result.id) == "aborted"
    assert backend.get_result(result.id).status is TaskResultStatus.FAILED
    assert not OutboxTask.objects.exists()


@pytest.mark.parametrize("wrong", ["", "\x00", "x" * 65, "0" * 32, None])
def test_an_id_that_no_task_has_is_not_aborted(backend, wrong):
    """Whatever it is, no table is asked for what cannot be an id."""
    with pytest.raises(TaskResultDoesNotExist):
        abort(wrong)


def test_an_abort_whose_transaction_is_rolled_back_has_taken_effect(backend, work):
    """The row is back, and is not moved."""
    result = jobs.note.enqueue("x")
    with transaction.atomic():
        assert abort(result.id) == "aborted"
        transaction.set_rollback(True)
    assert OutboxTask.objects.count() == 1
    work()
    assert not jobs.done
    assert backend.get_result(result.id).status is TaskResultStatus.FAILED
    assert not OutboxTask.objects.exists()


@cases("command", ["tasks_show", "tasks_abort"])
def test_a_task_in_the_outbox_of_another_backend(backend, command):
    """The command says which option finds it."""
    rows = settings.TASKS["default"]
    with override_settings(TASKS={"default": {**rows, "OPTIONS": {}}, "rows": rows}):
        result = jobs.note.using(backend="rows").enqueue("x")
        with pytest.raises(CommandError, match=r"add --backend rows\.$") as caught:
            called(command, result.id)
        assert caught.value.returncode == 1
        assert result.id in called("tasks_show", result.id, "--backend", "rows")
