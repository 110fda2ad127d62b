"""Ended tasks are removed when their time is over, and nothing else is."""

from __future__ import annotations

import json
import threading
import types

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from fdbqueue.service import clock, run
from fdbqueue.service.clock import is_machines
from fdbqueue.tasks import abort, call, group, housekeeping
from fdbqueue.tasks.compat import TaskResultDoesNotExist, TaskResultStatus
from fdbqueue.tasks.housekeeping import Pruned, may_prune, prune, remove_lost
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
    assert remove_lost(backend) == Pruned()
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
    assert remove_lost(backend) == Pruned()
    assert exists(result)


def test_records_whose_item_is_gone(backend, work):
    """Those of a queue that was cleared are found; those of tasks that are there are not."""
    lost = [jobs.note.enqueue(number) for number in range(130)]
    backend.queue("default").clear()
    there, ended = jobs.note.enqueue(1), jobs.note.using(queue_name="other").enqueue(2)
    work(["other"])
    assert remove_lost(backend, dry_run=True) == Pruned(lost=130)
    assert remove_lost(backend) == Pruned(lost=130)
    assert remove_lost(backend) == Pruned()
    assert not any(map(exists, lost))
    assert exists(there)
    assert exists(ended)


def test_an_item_in_a_batch_is_not_lost(backend):
    """A drain may hold it, and return it."""
    result = jobs.note.enqueue(1)
    queue = backend.queue("default")
    batch = queue.lease_batch(10, owner=b"0123456789abcdef")
    assert remove_lost(backend) == Pruned()
    queue.return_batch(batch)
    assert exists(result)


def test_portions(backend, work, later, monkeypatch):
    """Many are removed in several transactions; between two of them it may be stopped."""
    monkeypatch.setitem(housekeeping._PORTIONS, "SUCCESSFUL", 7)
    monkeypatch.setitem(housekeeping._PORTIONS, "FAILED", 2)
    for number in range(20):
        jobs.note.enqueue(number)
    for _ in range(5):
        kept_jobs.fail_while_closed.enqueue()
    work()
    later(31)
    steps = []
    first = prune(
        backend, backend.settings.retention, goes_on=lambda done: steps.append(done) or False
    )
    assert len(steps) == 1
    second = prune(
        backend, backend.settings.retention, goes_on=lambda done: steps.append(done) or True
    )
    both = first.plus(second)
    assert (both.successful, both.failed) == (20, 5)
    assert len(steps) >= 5
    assert stored(backend) == (0, 0)


def test_long_results(configure, work, later):
    """A result of several parts goes as a whole."""
    backend = configure(max_result_bytes=1_000_000)
    jobs.long.enqueue(500_000)
    work()
    later(8)
    assert prune(backend, backend.settings.retention) == Pruned(successful=1)
    left = run(backend.catalog.database, lambda tr: [*tr[backend.records._results.range()]])
    assert left == []


def test_one_worker_in_a_minute(backend, a_minute):
    """Of many that ask at once, one may prune; a minute later again one."""
    for _ in range(2):
        told = []

        def ask(told=told):
            told.append(may_prune(backend, backend.catalog))

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sorted(told) == [False] * 7 + [True]
        a_minute()


@pytest.fixture
def a_minute(backend, monkeypatch, later):
    """Let a minute pass in which nothing is committed: by the clock, and a cluster's versions."""
    kind = type(backend.catalog.database.create_transaction())
    read_version = kind.get_read_version
    minutes = [0]

    def get_read_version(tr):
        found = read_version(tr)
        ahead = minutes[0] * 60_000_000
        return types.SimpleNamespace(wait=lambda: found.wait() + ahead)

    def pass_one():
        later(60 / _DAY)
        minutes[0] += 1

    if not is_machines(backend.catalog.database):  # whose versions stand still
        monkeypatch.setattr(kind, "get_read_version", get_read_version)
    return pass_one


def test_a_worker_prunes_as_it_goes(configure, work, later, monkeypatch):
    """One that does not stay does it once, one that stays about once a minute."""
    monkeypatch.undo()
    configure(retention={"successful": 60})
    first = jobs.note.enqueue(1)
    work()
    assert exists(first)
    later(1)
    run(
        first.task.get_backend().catalog.database,
        lambda tr: tr.clear(first.task.get_backend().records.state_key("pruned", "default")),
    )
    work()
    assert not exists(first)


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
    nothing = {"successful": 0, "failed": 0, "entries": 0, "lost": 0, "parts": 0}
    base = {"backend": "default", "dry_run": False, **nothing}
    assert command() == base
    assert command("--older-than", "2d") == base
    assert command("--older-than", "12h", "--failed", "1w") == {**base, "successful": 1}
    dry = command("--older-than", "12h", "--dry-run")
    assert dry == {**base, "dry_run": True, "failed": 1}
    assert command("--failed", "3600") == {**base, "failed": 1}
    jobs.note.enqueue(2)
    backend.queue("default").clear()
    assert command() == base
    assert command("--lost") == {**base, "lost": 1}


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
