"""Ended tasks are removed when their time is over, and nothing else is."""

from __future__ import annotations

import json

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from fdbqueue.service import clock, run
from fdbqueue.tasks import abort, call, group
from fdbqueue.tasks.compat import TaskResultDoesNotExist, TaskResultStatus
from fdbqueue.tasks.housekeeping import Pruned, prune
from fdbqueue.tasks.options import Retention
from tests.called import called
from tests.tasks import group_jobs, jobs, kept_jobs
from tests.tasks.stored import FAILED, SUCCESSFUL

_DAY = 86_400


@pytest.fixture
def backend(configure):
    """A backend whose tasks fail at their first attempt."""
    return configure(backoff=None)


@pytest.fixture(autouse=True)
def _workers_do_not_prune(monkeypatch):
    """These tests prune themselves."""
    monkeypatch.setattr("fdbqueue.tasks.housekeeping.may_prune", lambda *_: False)


@pytest.fixture
def later():
    """Move the clock ahead by some days, until the test's end."""
    moved = []

    def move(days):
        moved.append(int(days * _DAY * 1_000_000))
        clock.set_ahead(moved[-1])

    yield move
    clock.set_ahead(-sum(moved))


def stored(backend):
    """Return how many records and how many entries there are, whosever they are."""
    records, _ = run(backend.catalog.database, lambda tr: backend.records.some(tr, None, 10_000))
    entries = 0
    for queue in run(backend.catalog.database, backend.records.ended_queues):
        for status in ("SUCCESSFUL", "FAILED"):
            entries += len(
                run(
                    backend.catalog.database,
                    lambda tr, q=queue, s=status: list(
                        backend.records.ended(tr, q, s, limit=9_999)
                    ),
                )
            )
    return len(records), entries


def exists(result):
    """Tell whether a result can be had."""
    try:
        result.refresh()
    except TaskResultDoesNotExist:
        return False
    return True


def test_each_status_has_its_time(backend, work, later):
    """Successful tasks go after a week, failed ones with their dead letters after thirty days."""
    good, bad, aborted = (
        jobs.note.enqueue(1),
        kept_jobs.fail_while_closed.enqueue(),
        jobs.note.enqueue(2),
    )
    abort(aborted.id)
    work()
    kept = backend.settings.retention
    later(6.9)
    assert prune(backend, kept) == Pruned()
    later(0.2)
    assert prune(backend, kept, dry_run=True) == Pruned(successful=1)
    assert exists(good)
    assert prune(backend, kept) == Pruned(successful=1)
    assert not exists(good)
    later(22.5)
    assert prune(backend, kept) == Pruned()
    assert exists(bad)
    assert exists(aborted)
    assert backend.queue("default").counts().dead == 1
    later(0.6)
    assert prune(backend, kept, dry_run=True) == Pruned(failed=2)
    assert prune(backend, kept) == Pruned(failed=2)
    assert not exists(bad)
    assert not exists(aborted)
    assert backend.queue("default").counts().dead == 0
    assert stored(backend) == (0, 0)


def test_what_is_kept_for_ever_and_what_is_not_kept(backend, work, later):
    """None keeps all, 0 nothing."""
    good, bad = jobs.note.enqueue(1), kept_jobs.fail_while_closed.enqueue()
    work()
    later(1_000)
    assert prune(backend, Retention(None, None)) == Pruned()
    assert exists(good)
    assert prune(backend, Retention(None, 0)) == Pruned(failed=1)
    assert not exists(bad)
    assert exists(good)


@pytest.mark.parametrize("kept", [0, 60])
def test_results_that_what_follows_reads_are_kept(configure, work, later, kept):
    """Until the whole has ended, however short the retention is; then they go as others do."""
    backend = configure(retention={"successful": kept, "failed": kept}, max_attempts=1)
    retention = backend.settings.retention
    parts = [call(group_jobs.add, 1), group_jobs.fail, call(group_jobs.add, 2)]
    result = group(parts).then(group_jobs.collect, always=True).enqueue()
    work(limit=3)
    later(1 / 24)
    assert prune(backend, retention) == Pruned()
    work()
    assert result.follows is None
    result.refresh()
    assert result.status == "SUCCESSFUL"
    assert jobs.done[-1] == ("collect", 3)
    later(2 / 24)
    assert prune(backend, retention) == Pruned(successful=3, failed=1)
    assert stored(backend) == (0, 0)


def test_a_result_that_is_not_kept_without_a_group(configure, work):
    """Nothing of it is written."""
    backend = configure(retention={"successful": 0})
    result = jobs.note.enqueue(1)
    work()
    assert not exists(result)
    assert stored(backend) == (0, 0)


def test_tasks_that_wait_or_run_are_left_alone(backend, later):
    """However old they are."""
    waiting, leased = jobs.note.enqueue(1), jobs.note.enqueue(2)
    backend.queue("default").lease(seconds=60)
    later(1_000)
    assert prune(backend, Retention(0, 0)) == Pruned()
    assert exists(waiting)
    assert exists(leased)


def test_a_task_that_was_redriven_loses_its_entry_alone(backend, work, later):
    """It is ready again; once it has succeeded, it has a success's time."""
    result = kept_jobs.fail_while_closed.enqueue()
    work()
    later(31)
    backend.queue("default").redrive()
    assert prune(backend, backend.settings.retention) == Pruned(entries=1)
    result.refresh()
    assert result.status is TaskResultStatus.READY
    work()
    result.refresh()
    assert result.status is FAILED
    assert prune(backend, backend.settings.retention) == Pruned()
    later(31)
    assert prune(backend, backend.settings.retention) == Pruned(failed=1)
    assert stored(backend) == (0, 0)


def test_a_dead_letter_that_died_again_is_kept(backend, work, later):
    """Its first death is old, its last one is not."""
    result = kept_jobs.fail_while_closed.enqueue()
    work()
    later(20)
    backend.queue("default").redrive()
    work()
    later(20)
    assert stored(backend) == (1, 2)
    assert prune(backend, backend.settings.retention) == Pruned(entries=1)
    assert exists(result)
    assert backend.queue("default").counts().dead == 1
    assert stored(backend) == (1, 1)


def test_a_task_that_succeeded_after_a_redrive_is_kept(backend, work, later):
    """The entry of its failure goes, its result stays."""
    result = kept_jobs.fail_while_closed.enqueue()
    work()
    later(31)
    backend.queue("default").redrive()
    jobs.gate.set()
    work()
    assert prune(backend, backend.settings.retention) == Pruned(entries=1)
    result.refresh()
    assert result.status is SUCCESSFUL


def test_dead_letters_that_were_removed_by_hand(backend, work, later):
    """Their records go with their entries."""
    kept_jobs.fail_while_closed.enqueue()
    work()
    backend.queue("default").clear_state("dead")
    later(31)
    assert prune(backend, backend.settings.retention) == Pruned(entries=1)
    assert stored(backend) == (0, 0)


def test_a_dead_letter_that_was_buried_by_hand_stays(backend, later):
    """Who buried it removes it."""
    result = jobs.note.enqueue(1)
    queue = backend.queue("default")
    queue.bury(queue.peek().id)
    later(1_000)
    assert prune(backend, Retention(0, 0)) == Pruned()
    assert exists(result)


def test_a_queue_that_no_setting_names_any_more(configure, work, later):
    """What ended in it is removed by the backend whose prefix it has."""
    backend = configure(queues=["default", "gone"])
    jobs.note.using(queue_name="gone").enqueue(1)
    work()
    later(8)
    backend = configure(queues=["default"])
    assert prune(backend, backend.settings.retention) == Pruned(successful=1)


def command(*arguments):
    """Call tasks_prune, and return its result."""
    return json.loads(called("tasks_prune", *arguments, "--json"))


def test_the_command(backend, work, later):
    """Ages on the command line come before the option."""
    jobs.note.enqueue(1)
    kept_jobs.fail_while_closed.enqueue()
    work()
    later(1)
    nothing = {"successful": 0, "failed": 0, "entries": 0}
    base = {"backend": "default", "dry_run": False, **nothing}
    assert command() == base
    assert command("--older-than", "2d") == base
    assert command("--older-than", "12h", "--failed", "1w") == {**base, "successful": 1}
    dry = command("--older-than", "12h", "--dry-run")
    assert dry == {**base, "dry_run": True, "failed": 1}
    assert command("--failed", "3600") == {**base, "failed": 1}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--backend", "none"], "The fdbqueue backends in TASKS: default."),
        (["--older-than", "soon"], "is not an age"),
        (["--failed", "-1"], "is not an age"),
        (["--failed", "999999d"], "is over ten years"),
    ],
)
def test_wrong_arguments(backend, arguments, said):
    """They are refused, and the error says what there is."""
    with pytest.raises(CommandError, match=said):
        call_command("tasks_prune", *arguments)


def test_what_people_read(backend, work):
    """The numbers in words."""
    jobs.note.enqueue(1)
    work()
    shown = called("tasks_prune", "--older-than", "0")
    assert shown == "Removed 1 successful task and 0 failed tasks.\n"
