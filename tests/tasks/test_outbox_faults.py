"""Movers of an outbox that are killed, overtake each other, or whose commits fail."""

from __future__ import annotations

import contextlib
import signal
import sys

import pytest
from django.db import IntegrityError, connection, transaction

from fdbqueue.engines.embedded import version_clock
from fdbqueue.exceptions import OutcomeUnknown
from fdbqueue.service import run
from fdbqueue.tasks import abort
from fdbqueue.tasks.aborts import abort_row
from fdbqueue.tasks.compat import TaskResultStatus
from fdbqueue.tasks.outbox.models import OutboxName, OutboxTask
from fdbqueue.tasks.outbox.mover import ClaimLost, MoverThread, RowMover, move_now
from tests import forked
from tests.concurrency.clients import together
from tests.engines.children import wait_until
from tests.faults.conftest import faulty
from tests.faults.faulty import AFTER, BEFORE, LATE
from tests.faulty_database import TIMED_OUT, UNKNOWN_RESULT, FaultyDatabase
from tests.tasks import jobs
from tests.tasks.killing import ROOT
from tests.tasks.outboxes import enqueue_all, outbox_variables, queued, survive_kills
from tests.tasks.test_outbox import _database, backend
from tests.wrapped import Meanwhile

__all__ = ["_database", "backend", "faulty"]

FEW = 3


@pytest.fixture
def outbox_environment(environment, tmp_path):
    """Return the environment of a process with this outbox."""
    return {**environment, **outbox_variables(str(tmp_path / "orm.sqlite3"))}


def run_and_forget(backend):
    """Run the tasks that are in the queue, and keep nothing of them; moves no rows."""
    queue = backend.queue("default")
    while (item := queue.lease_min()) is not None:
        jobs.done.append(item.value["args"][0])
        queue.ack(item.lease)
        run(queue.database, lambda tr, item=item: backend.records.remove(tr, item.value["id"]))


@contextlib.contextmanager
def no_deletion():
    """Let the database refuse to delete rows, as one that is away would."""
    name = "CREATE TRIGGER kept BEFORE DELETE ON fdbqueue_tasks_outbox"
    with connection.cursor() as cursor:
        cursor.execute(f"{name} BEGIN SELECT RAISE(ABORT, 'not now'); END")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TRIGGER kept")


@pytest.mark.parametrize("is_the_same", [True, False])
def test_rows_that_were_moved_are_not_moved_again_behind_the_end_of_their_tasks(
    backend, is_the_same
):
    """The move is repeated when the tasks have run, and nothing is kept of them."""
    enqueue_all(range(FEW))
    mover = RowMover(backend.outbox(), backend.catalog)
    with no_deletion():
        assert mover.claim()
        with pytest.raises(IntegrityError, match="not now"):
            mover.move()
        run_and_forget(backend)
    assert OutboxTask.objects.count() == FEW
    again = mover if is_the_same else RowMover(backend.outbox(), backend.catalog)
    assert again.claim(by_force=True)
    again.move()
    assert again.done == (0, 0)
    run_and_forget(backend)
    assert jobs.done == [*range(FEW)]
    assert not OutboxTask.objects.exists()


def test_rows_of_a_restored_table_are_not_moved_again_while_there_is_a_record(backend, work):
    """However many were moved since."""
    enqueue_all(["old"])
    rows = [*OutboxTask.objects.all()]
    move_now(backend.outbox(), backend.catalog)
    enqueue_all(["new"])
    move_now(backend.outbox(), backend.catalog)
    work()
    OutboxTask.objects.bulk_create(rows)
    enqueue_all(["newest"])
    assert move_now(backend.outbox(), backend.catalog).moved == 1
    work()
    assert jobs.done == ["old", "new", "newest"]


@pytest.mark.parametrize("seed", range(6))
def test_each_row_is_moved_once_whatever_commits_do(backend, faulty, seed):
    """Conflicts and unknown outcomes, before and behind and long behind their effect."""
    database = faulty(seed=seed, rate=0.5, faults=[*BEFORE, *AFTER, *LATE])
    catalog = backend.catalog.over(database)
    for start in range(0, 60, 10):
        enqueue_all(range(start, start + 10))
        move_now(backend.outbox(), catalog)
    assert sum(database.happened.values()) > 3
    assert queued(backend) == [*range(60)]
    assert not OutboxTask.objects.exists()


@pytest.mark.parametrize("took_effect", [True, False])
@pytest.mark.parametrize("commit", range(3))
@pytest.mark.parametrize("code", [TIMED_OUT, UNKNOWN_RESULT])
def test_a_commit_whose_outcome_is_not_known(backend, code, commit, took_effect):
    """That of the claim, the move, or the release; the next mover finds out."""
    database = FaultyDatabase(backend.catalog.database)
    enqueue_all(range(FEW))
    mover = RowMover(backend.outbox(), backend.catalog.over(database))
    steps = [lambda: mover.claim(by_force=True), mover.move, mover.release]
    for number, one in enumerate(steps):
        if number == commit:
            database.fail_commits(code=code, took_effect=took_effect)
        with contextlib.suppress(OutcomeUnknown, ClaimLost):
            one()
    assert database.happened == 1
    move_now(backend.outbox(), backend.catalog)
    assert queued(backend) == [*range(FEW)]
    assert not OutboxTask.objects.exists()


def test_a_mover_that_is_killed_at_any_step(backend, outbox_environment):
    """Each task runs once, also when all that is known of it was removed meanwhile."""
    for last in range(200):
        jobs.done.clear()
        values = [f"{last}-{number}" for number in range(FEW)]
        enqueue_all(values)
        ended = forked.run(
            [sys.executable, "-m", "tests.tasks.dying_mover", str(last)],
            cwd=ROOT,
            env=outbox_environment,
            timeout=60,
            check=False,
        )
        assert ended.returncode in (0, -signal.SIGKILL)
        run_and_forget(backend)
        move_now(backend.outbox(), backend.catalog)
        run_and_forget(backend)
        assert jobs.done == values
        assert not OutboxTask.objects.exists()
        if ended.returncode == 0:
            break
    assert last > 10


def test_several_processes_that_are_killed_move_each_row_once(
    backend, outbox_environment, tmp_path
):
    """Workers move rows and run tasks while others are enqueued."""
    survive_kills(backend, outbox_environment, tmp_path, tasks=200, kills=4)


def test_movers_at_the_same_time_move_each_row_once(backend):
    """Those of workers, and those of commands, which take the claim from each other."""
    outbox, catalog = backend.outbox(), backend.catalog
    threads = [MoverThread(outbox, catalog) for _ in range(3)]

    def toil(number):
        if number < 2:
            for turn in range(20):
                enqueue_all([[number, turn, one] for one in range(5)])
        else:
            for _ in range(10):
                move_now(outbox, catalog)
        connection.close()

    for one in threads:
        one.start()
    try:
        together(4, toil, deadline_seconds=120)
        wait_until(lambda: not OutboxTask.objects.exists(), 60)
    finally:
        for one in threads:
            one.stop()
    found = queued(backend)
    assert len(found) == 200
    for number in range(2):
        mine = [(turn, one) for owner, turn, one in found if owner == number]
        assert mine == [(turn, one) for turn in range(20) for one in range(5)]


@pytest.mark.usefixtures("lasting_claims")
def test_a_mover_that_is_stopped_leaves_the_claim_to_others_at_once(backend):
    """And one that was not leaves it when it has not renewed it for long."""
    outbox, catalog = backend.outbox(), backend.catalog
    first, second = RowMover(outbox, catalog), RowMover(outbox, catalog)
    assert first.claim()
    assert not second.claim()
    first.release()
    assert second.claim()
    assert not first.claim()
    second.release()


@pytest.mark.usefixtures("lasting_claims")
def test_a_claim_that_was_taken_after_a_quiet_time_is_new(backend, monkeypatch):
    """A file's version is that of its last commit: another mover leaves the claim all the same."""
    assert RowMover(backend.outbox(), backend.catalog).claim(by_force=True)
    reading = version_clock.reading
    monkeypatch.setattr(version_clock, "reading", lambda: reading() + 7_200_000_000)
    one, other = (RowMover(backend.outbox(), backend.catalog) for _ in range(2))
    assert one.claim(by_force=True)
    assert not other.claim()


@pytest.mark.usefixtures("lasting_claims")
def test_movers_that_wait_read_no_table(backend, django_assert_num_queries):
    """But one of all does."""
    first, second = (RowMover(backend.outbox(), backend.catalog) for _ in range(2))
    assert first.claim()
    assert not second.claim()
    with django_assert_num_queries(0):
        assert not second.claim()


@pytest.mark.usefixtures("lasting_claims")
def test_a_table_that_was_emptied_has_another_claim(backend):
    """Its name is gone with it."""
    mover = RowMover(backend.outbox(), backend.catalog)
    assert mover.claim()
    OutboxName.objects.all().delete()
    other = RowMover(backend.outbox(), backend.catalog)
    assert other.claim()
    assert not mover.claim()
    assert not mover.claim()
    other.release()
    assert mover.claim()


def test_an_engine_that_is_away_delays_rows_alone(backend, work):
    """To enqueue does not need it, and the thread goes on when it is back."""
    database = FaultyDatabase(backend.catalog.database)
    mover = MoverThread(backend.outbox(), backend.catalog.over(database))
    database.is_available = False
    mover.start()
    try:
        enqueue_all(["x"])
        wait_until(lambda: mover._failures > 1)
        assert OutboxTask.objects.count() == 1
        database.is_available = True
        wait_until(lambda: not OutboxTask.objects.exists())
    finally:
        mover.stop()
    work()
    assert jobs.done == ["x"]


def test_a_mover_whose_table_is_away_gives_up_the_claim(backend):
    """Another one may reach it."""
    outbox = backend.outbox()
    enqueue_all(["x"])
    mover = MoverThread(outbox, backend.catalog)
    with no_deletion():
        mover.start()
        wait_until(lambda: mover._failures > 0)
        other = RowMover(outbox, backend.catalog)
        wait_until(other.claim)
        other.release()
    try:
        wait_until(lambda: not OutboxTask.objects.exists(), 60)
    finally:
        mover.stop()
    assert queued(backend) == ["x"]


def test_no_row_is_moved_in_a_transaction_of_the_orm(backend):
    """Its deletion might be rolled back."""
    with transaction.atomic(), pytest.raises(RuntimeError, match="transaction of the ORM"):
        move_now(backend.outbox(), backend.catalog)


def test_an_abort_while_a_row_is_moved(backend, work):
    """The mover has read the row, and pushes nothing."""
    (result,) = enqueue_all(["x"])
    meanwhile = Meanwhile(backend.catalog.database)
    mover = RowMover(backend.outbox(), backend.catalog.over(meanwhile))
    assert mover.claim()
    meanwhile.let(lambda: abort(result.id))
    mover.move()
    assert mover.done == (0, 0)
    work()
    assert not jobs.done
    assert backend.get_result(result.id).status is TaskResultStatus.FAILED
    assert not OutboxTask.objects.exists()


@pytest.mark.parametrize("is_over", [False, True], ids=["waits", "is over"])
def test_a_row_that_is_moved_while_it_is_aborted(backend, work, is_over):
    """The task is aborted if it waits in its queue by then, and not if nothing is kept of it."""
    (result,) = enqueue_all(["x"])
    mover = RowMover(backend.outbox(), backend.catalog)
    assert mover.claim()

    def move():
        with pytest.raises(IntegrityError, match="not now"):
            mover.move()
        if is_over:
            run_and_forget(backend)

    meanwhile = Meanwhile(backend.catalog.database)
    meanwhile.let(move)
    with no_deletion():
        outcome = abort_row(backend.outbox(), backend.catalog.over(meanwhile), result.id)
    assert outcome == ("ended" if is_over else "aborted")
    work()
    assert jobs.done == (["x"] if is_over else [])
    assert not OutboxTask.objects.exists()
