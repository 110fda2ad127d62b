"""Parts of groups and chains whose items go without the ends of their tasks: they have failed."""

from __future__ import annotations

import pytest

from fdbqueue.service import run
from fdbqueue.tasks import abort_group, call, chain, group, group_result, group_upkeep
from fdbqueue.tasks.compat import TaskResultDoesNotExist
from fdbqueue.tasks.housekeeping import Pruned, remove_lost
from fdbqueue.tasks.records import TreePlace
from tests.called import called
from tests.faults.conftest import clock
from tests.tasks import group_jobs, jobs
from tests.tasks.stored import FAILED, READY, SUCCESSFUL
from tests.tasks.test_groups import few_together, left, look_after

__all__ = ["clock", "few_together"]

WAYS = {
    "removed": lambda queue: queue.remove(queue.peek().id),
    "popped": lambda queue: queue.pop(),
    "cleared": lambda queue: queue.clear(),
    "purged": lambda queue: queue.clear_state("ready"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_part_whose_item_is_gone_has_failed(backend, work, way):
    """What follows it with ``always`` comes, and the part says why it has no result."""
    queue = backend.queue("default")
    result = group([group_jobs.add]).then(group_jobs.count, always=True).enqueue()
    WAYS[way](queue)
    work()
    assert remove_lost(backend, dry_run=True) == Pruned(lost=1, parts=1)
    assert group_result(result.id).status is READY
    assert remove_lost(backend) == Pruned(lost=1, parts=1)
    assert remove_lost(backend) == Pruned()
    work()
    result.refresh()
    assert (result.status, result.succeeded, result.failed) == (SUCCESSFUL, 0, 1)
    assert jobs.done == [("count",)]
    (part,) = result.parts(failed=True)
    assert (part.problem, part.is_enqueued) == (group_upkeep.LOST, False)
    with pytest.raises(TaskResultDoesNotExist):
        part.result()


def test_the_housekeeping_finds_it_within_an_hour(backend, work, clock, caplog):
    """It looks at what has not ended, says what was lost, and looks again an hour later."""
    queue = backend.queue("other")
    result = group([chain(group_jobs.add.using(queue_name="other"), group_jobs.add)]).enqueue()
    look_after(backend)
    assert group_result(result.id).status is READY
    clock.advance(3_601)
    look_after(backend)
    assert (group_result(result.id).status, queue.size()) == (READY, 1)
    queue.clear()
    look_after(backend)
    assert group_result(result.id).status is READY
    clock.advance(3_601)
    look_after(backend)
    assert group_result(result.id).status is FAILED
    (record,) = [one for one in caplog.records if one.msg.startswith("parts of a group")]
    assert (record.tree, record.parts, record.backend) == (result.id, 1, "default")


def test_what_follows_a_group_may_be_lost(backend, work):
    """Then the group has failed."""
    last = group_jobs.count.using(queue_name="other")
    result = group([call(group_jobs.add, 1)]).then(last).enqueue()
    work(["default"])
    backend.queue("other").clear()
    assert remove_lost(backend).parts == 1
    result.refresh()
    assert (result.status, result.succeeded, result.failed) == (FAILED, 1, 0)
    assert result.follows.problem == group_upkeep.LOST


def test_the_task_that_enqueues_the_rest_may_be_lost(backend, work, few_together):
    """What it would have enqueued is enqueued, and runs; only what is gone has failed."""
    parts = [call(group_jobs.add, number) for number in range(10)]
    result = group(parts).then(group_jobs.count, always=True).enqueue()
    backend.queue("default").clear()
    assert remove_lost(backend).parts == 3
    work()
    result.refresh()
    assert (result.status, result.succeeded, result.failed) == (SUCCESSFUL, 7, 3)
    assert left(backend) == (0, 0, 0)


def test_what_is_in_its_queue_is_not_lost(backend, work):
    """Whether it is ready, delayed, leased, dead, redriven, or in a batch; nor what has ended."""
    queue = backend.queue("default")
    tasks = [
        group_jobs.fail,
        group_jobs.fail_while_closed,
        *[group_jobs.add.using(priority=-1)] * 4,
    ]
    result = group([call(task, 1) for task in tasks]).then(group_jobs.count, always=True).enqueue()
    work(limit=3)
    ended = [part.id for part in result.parts() if part.status]
    assert len(ended) == 3
    queue.redrive(limit=1)
    queue.nack(queue.lease(), delay=600)
    queue.lease(seconds=60)
    batch = queue.lease_batch(1, owner=b"0123456789abcdef")
    assert remove_lost(backend) == Pruned()
    queue.return_batch(batch)
    assert [part.id for part in result.parts() if part.status] == ended


def test_an_end_is_not_a_loss(backend, work):
    """Of a part that has ended since it seemed lost, and of one whose tree was removed."""
    result = group([call(group_jobs.add, 1), call(group_jobs.add, 2)]).enqueue()
    work(limit=1)

    def fail(tr, tree):
        places = [TreePlace(tree, 0, at, 2) for at in range(2)]
        return group_upkeep.fail_lost(tr, backend, backend.catalog, places)

    database = backend.catalog.database
    assert [run(database, lambda tr, t=t: fail(tr, t)) for t in (result.id, "none")] == [0, 0]
    result.refresh()
    assert (result.succeeded, result.failed) == (1, 0)


def test_nothing_follows_a_loss_in_what_was_aborted(backend, work):
    """It stays as it was."""
    result = group([group_jobs.add]).then(group_jobs.count, always=True).enqueue()
    backend.queue("default").clear()
    abort_group(result.id)
    assert remove_lost(backend) == Pruned(lost=1)
    assert work().succeeded == 0
    assert group_result(result.id).status is FAILED


def test_the_command_says_what_has_failed(backend):
    """In words and as JSON."""
    group([call(group_jobs.add, n) for n in range(2)]).enqueue()
    backend.queue("default").clear()
    ways = (["--dry-run", "--json"], ["--dry-run"], [])
    texts = [called("tasks_prune", "--lost", *more) for more in ways]
    numbers = '"lost": 2, "parts": 2'
    assert numbers in texts[0]
    assert texts[1].endswith(
        "2 lost records. 2 parts of groups and chains would fail: no item was left of the task.\n"
    )
    assert texts[2].endswith("2 parts of groups and chains failed: no item was left of the task.\n")
