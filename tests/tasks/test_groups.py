"""Groups and chains: what follows what, exactly once, and what failures and aborts leave."""

from __future__ import annotations

import functools
import random
import threading
from collections import Counter

import pytest
from django.db import transaction
from django.test import override_settings

from fdbqueue.exceptions import OutcomeUnknown, ValueTooLarge
from fdbqueue.service import now_us, run
from fdbqueue.tasks import (
    TaskAborted,
    abort,
    abort_group,
    aborts,
    call,
    chain,
    enqueue_at_end,
    group,
    group_result,
    groups,
    task,
    trees,
)
from fdbqueue.tasks.compat import IN_DJANGO, InvalidTask, TaskResultDoesNotExist, TaskResultStatus
from fdbqueue.tasks.exceptions import TaskUnknown
from fdbqueue.tasks.housekeeping import Housekeeping, _Pace
from fdbqueue.tasks.task_worker import TaskWorker
from tests.cases import cases
from tests.faults.conftest import clock, faulty
from tests.faulty_database import TIMED_OUT, FaultyDatabase
from tests.tasks import group_jobs, jobs
from tests.tasks.stored import FAILED, SUCCESSFUL
from tests.thorough import size

__all__ = ["clock", "faulty"]


@pytest.fixture(autouse=True)
def _closed():
    group_jobs.is_open.clear()


@pytest.fixture
def few_together(monkeypatch):
    """Let each transaction enqueue few tasks, so that small groups take several."""
    monkeypatch.setattr(trees, "MAX_ENQUEUED_TOGETHER", 3)


def value_of(part):
    """Return what the task of a part has returned."""
    return part.result().return_value


def what_follows(result):
    """Return what the task that follows a group has returned."""
    result.refresh()
    return value_of(result.follows)


def left(backend):
    """Return how many tasks have not ended: ready, leased and delayed."""
    counts = backend.queue("default").counts()
    return counts.ready, counts.leased, counts.delayed


def look_after(backend):
    """Look at all groups and chains that are due, as the housekeeping of a worker does."""
    house = Housekeeping(backend, backend.catalog)
    house._keep_trees(_Pace(house._is_over, house._periodic))


def stored_rows(backend):
    """Return the rows of all groups and chains."""
    begin = trees.TreeKeys(backend.records.prefix, "x").all.range().start[:-4]
    database = backend.catalog.database

    def read(tr):
        rows = [row.key for row in tr.get_range(begin, begin + b"\xff")]
        return [key for key in rows if b"\x02tree" in key]

    return run(database, read, read_only=True)


# What follows what


@pytest.mark.parametrize("count", [1, 2, 16, 17, 40])
def test_what_follows_a_group_comes_once_behind_all_parts(backend, work, count):
    """It has the id of the group, which has the parts in their order with their results."""
    result = (
        group([call(group_jobs.add, n) for n in range(count)]).then(group_jobs.collect).enqueue()
    )
    assert (result.status, result.count) == (TaskResultStatus.READY, count)
    with pytest.raises(TaskResultDoesNotExist):
        group_result(result.id).follows.result()
    work()
    assert what_follows(result) == list(range(1, count + 1))
    assert jobs.done[-1] == ("collect", count)
    assert len(jobs.done) == count + 1
    assert (result.status, result.succeeded, result.failed) == (SUCCESSFUL, count, 0)
    assert result.finished_at is not None


def test_a_chain_passes_each_value_on(backend, work):
    """As the first argument, in front of those of the call."""
    result = chain(call(group_jobs.add, 1), group_jobs.add, call(group_jobs.add, more=5)).enqueue()
    work()
    result.refresh()
    assert [value_of(part) for part in result.parts()] == [2, 3, 8]
    assert (result.kind, result.status, result.succeeded) == ("chain", SUCCESSFUL, 3)


def test_a_group_alone_ends_with_its_last_part(backend, work):
    """Nothing follows it."""
    result = group([call(group_jobs.add, n) for n in range(3)]).enqueue()
    work(limit=2)
    result.refresh()
    assert (result.status, result.succeeded, result.follows) == (TaskResultStatus.RUNNING, 2, None)
    work()
    result.refresh()
    assert result.status is SUCCESSFUL


def test_groups_and_chains_are_nested(backend, work, few_together):
    """A group in a chain is given the value, and gives on what follows it returns."""
    inner = group([group_jobs.add] * 5).then(group_jobs.count)
    middle = group([group_jobs.add, chain(group_jobs.add, group_jobs.add), inner])
    result = chain(
        call(group_jobs.add, 1),
        middle.then(chain(group_jobs.collect, call(group_jobs.concatenate, text="v"))),
        call(group_jobs.concatenate, text="all: "),
    ).enqueue()
    work()
    result.refresh()
    assert result.status is SUCCESSFUL
    *_, last = result.parts()
    assert value_of(last).startswith("all: v[3, ")
    nested = result.parts()[1].result()
    assert (nested.kind, nested.count, nested.status) == ("group", 3, SUCCESSFUL)
    assert nested.follows.result().kind == "chain"
    assert [part.status for part in nested.parts()] == [SUCCESSFUL] * 3


def test_a_group_that_nothing_follows_gives_on_its_id(backend, work):
    """The next of the chain reads its parts."""
    result = chain(group([call(group_jobs.add, n) for n in range(3)]), group_jobs.collect).enqueue()
    work()
    assert value_of(result.parts()[-1]) == [1, 2, 3]


def test_more_tasks_than_one_transaction_enqueues(backend, work, few_together):
    """A task of fdbqueue's own enqueues the rest, at once or when the group begins."""
    result = chain(
        call(group_jobs.add, 1), group([group_jobs.add] * 20).then(group_jobs.count)
    ).enqueue()
    other = group([call(group_jobs.add, n) for n in range(20)]).then(group_jobs.count).enqueue()
    assert backend.queue("default").size() == 5  # the first of one; three of the other, and its own
    work()
    assert what_follows(other) == 20
    assert value_of(result.parts()[1].result().follows) == 20
    assert sum(one[0] == "add" for one in jobs.done) == 41


def test_retries_are_those_of_the_tasks(backend, work):
    """A part that fails at first ends once, at its last attempt."""
    result = group([call(group_jobs.fail_at_first, n) for n in range(3)]).then(group_jobs.count)
    result = result.enqueue()
    work()
    assert what_follows(result) == 3
    assert [part.result().attempts for part in result.parts()] == [3, 3, 3]


# Failures


def test_nothing_follows_a_group_with_a_failed_part(backend, work):
    """It has failed, and says which; so have those that it is nested in."""
    result = chain(
        group([call(group_jobs.add, 1), group_jobs.fail, call(group_jobs.add, 2)]).then(
            group_jobs.collect
        ),
        group_jobs.concatenate,
    ).enqueue()
    work()
    result.refresh()
    assert (result.status, result.failed) == (FAILED, 1)
    nested = result.parts()[0].result()
    assert (nested.status, nested.succeeded, nested.failed) == (FAILED, 2, 1)
    (failed,) = nested.parts(failed=True)
    assert (failed.at, failed.status) == (1, FAILED)
    assert failed.result().errors[0].exception_class is LookupError
    with pytest.raises(TaskResultDoesNotExist):
        result.parts()[1].result()


def test_one_failed_part_of_many_keeps_back_what_follows(backend, work):
    """Also if all others of its group have succeeded, in however many rows their ends are noted."""
    parts = [group_jobs.fail, *[call(group_jobs.add, n) for n in range(16)]]
    result = group(parts).then(group_jobs.count).enqueue()
    work()
    result.refresh()
    assert (result.status, result.succeeded, result.failed) == (FAILED, 16, 1)
    assert ("count",) not in jobs.done


def test_a_redriven_part_that_succeeds_lets_the_group_go_on(backend, work):
    """What follows comes once, however often parts are redriven."""
    parts = [group_jobs.fail_while_closed, call(group_jobs.add, 1), group_jobs.fail_while_closed]
    result = chain(group(parts).then(group_jobs.count), group_jobs.add).enqueue()
    queue = backend.queue("default")
    for _ in range(2):
        work()
        result.refresh()
        assert result.status is FAILED
        queue.redrive()
    group_jobs.is_open.append(True)
    work()
    result.refresh()
    assert result.status is SUCCESSFUL
    assert [one for one in jobs.done if one == ("count",)] == [("count",)]
    assert value_of(result.parts()[1]) == 4


def test_always_follows_a_group_whose_parts_have_failed(backend, work):
    """Once all have ended; a part that is redriven then changes nothing but what is said of it."""
    parts = [call(group_jobs.add, 1), group_jobs.fail_while_closed, group_jobs.fail]
    result = group(parts).then(group_jobs.collect, always=True).enqueue()
    work()
    assert what_follows(result) == [2, None, None]
    assert (result.status, result.failed) == (SUCCESSFUL, 2)
    group_jobs.is_open.append(True)
    backend.queue("default").redrive()
    work()
    result.refresh()
    assert (result.status, result.failed) == (SUCCESSFUL, 1)
    assert sum(one[0] == "collect" for one in jobs.done) == 1


def test_what_follows_says_how_it_has_ended(backend, work):
    """A task or a group; also when it was enqueued after the group had failed."""
    plain = group([call(group_jobs.add, 1)]).then(group_jobs.count).enqueue()
    nested = group([call(group_jobs.add, 1)]).then(group([group_jobs.fail])).enqueue()
    late = group([call(group_jobs.fail_while_closed, 1)]).then(group_jobs.count).enqueue()
    work(limit=3)
    for result in (plain, nested, late):
        result.refresh()
    assert [one.follows.status for one in (plain, nested, late)] == [None] * 3
    assert (late.status, late.follows.is_enqueued) == (FAILED, False)
    work()
    for result in (plain, nested):
        result.refresh()
    assert [one.follows.status for one in (plain, nested)] == [SUCCESSFUL, FAILED]
    group_jobs.is_open.append(True)
    backend.queue("default").redrive()
    work(limit=1)
    late.refresh()
    assert (late.follows.status, late.follows.is_enqueued) == (None, True)
    work()
    late.refresh()
    assert late.follows.status is SUCCESSFUL


def test_what_follows_may_fail(backend, work):
    """Then the group has failed, until that is redriven and succeeds."""
    result = group([call(group_jobs.add, 1)]).then(group_jobs.fail_while_closed).enqueue()
    work()
    result.refresh()
    assert (result.status, result.succeeded) == (FAILED, 1)
    group_jobs.is_open.append(True)
    backend.queue("default").redrive()
    work()
    result.refresh()
    assert result.status is SUCCESSFUL


def test_a_redriven_dead_letter_that_fails_again(backend, work):
    """Nothing follows. A chain has ended again, as its dead letter has; a group keeps its end."""
    step = chain(group_jobs.fail_while_closed, group_jobs.add).enqueue()
    follower = group([call(group_jobs.add, 1)]).then(group_jobs.fail_while_closed).enqueue()
    part = group([group_jobs.fail_while_closed, call(group_jobs.add, 1)]).enqueue()
    work()
    for result in (step, follower, part):
        result.refresh()
    first = [result.finished_at for result in (step, follower, part)]
    assert backend.queue("default").redrive() == 3
    work()
    for result in (step, follower, part):
        result.refresh()
        assert (result.status, result.failed) == (FAILED, int(result is not follower))
    assert step.finished_at > first[0]
    assert follower.finished_at > first[1]
    assert part.finished_at == first[2]
    assert not step.parts()[1].is_enqueued


def test_a_part_whose_code_is_gone_has_failed(configure, work, monkeypatch):
    """As any such task does, after its attempts."""
    backend = configure(backoff=None)
    result = group([call(group_jobs.add, 1), group_jobs.fail]).then(group_jobs.collect, always=True)
    result = result.enqueue()
    monkeypatch.delattr(group_jobs, "fail")
    work()
    found = what_follows(result)
    assert found == [2, None]
    (failed,) = result.parts(failed=True)
    assert backend.get_result(failed.id).errors[0].exception_class is TaskUnknown


def test_a_step_that_is_too_long_with_the_value_is_refused(backend, work):
    """The chain has failed, and its part says why; the task before has its result."""
    size = 600_000
    result = chain(call(group_jobs.long, size), call(group_jobs.concatenate, "y" * size)).enqueue()
    work()
    result.refresh()
    assert result.status is FAILED
    first, second = result.parts()
    assert len(value_of(first)) == size
    assert second.problem.startswith("ValueTooLarge")


def test_what_follows_in_a_queue_that_is_gone_is_refused(configure, work):
    """The group has failed, its tasks have ended, and the worker goes on."""
    backend = configure(queues=["default", "other"])
    follows = group_jobs.count.using(queue_name="other")
    result = group([call(group_jobs.add, n) for n in range(3)]).then(follows).enqueue()
    configure(queues=["default"])
    worker = work()
    assert worker.succeeded == 3
    found = group_result(result.id)
    assert (found.status, found.succeeded) == (FAILED, 3)
    assert found.follows.problem.startswith("QueueNotFound")
    assert backend.queue("default").size() == 0


# Bad input


def test_what_is_no_group_is_refused(backend):
    """At once, with nothing enqueued."""
    with pytest.raises(InvalidTask, match="empty"):
        group([])
    with pytest.raises(InvalidTask, match="empty"):
        chain()
    with pytest.raises(InvalidTask, match="is no part"):
        group([1])
    with pytest.raises(InvalidTask, match="is no task"):
        call(len, 1)
    with pytest.raises(InvalidTask, match="follows this group already"):
        group([jobs.note]).then(jobs.note).then(jobs.note)
    with pytest.raises(InvalidTask, match="unique key"):
        group([call(jobs.unique, "x")]).enqueue()
    with pytest.raises(InvalidTask, match="unique key"):  # it may have one with what it is given
        chain(jobs.note, call(jobs.unique, None)).enqueue()
    with pytest.raises(TypeError):
        group([call(jobs.note, object())]).enqueue()
    with pytest.raises(ValueTooLarge):
        group([call(jobs.note, "x" * 1_000_001)]).enqueue()
    with pytest.raises(InvalidTask, match="at most 10,000"):
        group([jobs.note] * 10_001).enqueue()
    nested = jobs.note
    for _ in range(60):
        nested = chain(nested)
    with pytest.raises(InvalidTask, match="50 deep"):
        nested.enqueue()
    assert backend.queue("default").size() == 0
    assert stored_rows(backend) == []
    assert group([call(jobs.unique, None)]).enqueue().count == 1  # it has no key


def test_tasks_of_other_backends_are_refused(configure, engine):
    """All are of one, and that is fdbqueue's."""
    configure()
    kind = "django.tasks" if IN_DJANGO else "django_tasks"
    other = {"BACKEND": "fdbqueue.tasks.FdbQueueBackend", "QUEUES": ["default"]}
    setting = {
        "default": other,
        "second": {**other, "OPTIONS": {"queue_prefix": "second-"}},
        "now": {"BACKEND": f"{kind}.backends.immediate.ImmediateBackend"},
    }
    with override_settings(TASKS=setting):
        second = jobs.note.using(backend="second")
        with pytest.raises(InvalidTask, match="of one backend"):
            group([jobs.note, second]).enqueue()
        with pytest.raises(InvalidTask, match="ImmediateBackend"):
            group([jobs.note.using(backend="now")]).enqueue()
        assert group([call(second, 1)]).enqueue().backend == "second"


@cases("name", ["", "x", "x.1", ".", "1" * 80, "\u0661.\u0661", "a.b", None])
def test_ids_that_are_none(backend, name):
    """There is no such group."""
    with pytest.raises(TaskResultDoesNotExist):
        group_result(name)
    with pytest.raises((TaskResultDoesNotExist, ValueError)):
        abort_group(name)


def test_limits_of_reading(backend):
    """Parts are read some at a time."""
    result = group([call(jobs.note, n) for n in range(40)]).enqueue()
    assert [part.at for part in result.parts(limit=20)] == list(range(20))
    assert [part.at for part in result.parts(after=19, limit=100)] == list(range(20, 40))
    assert result.parts(after=39) == result.parts(failed=True) == []
    for limit in (0, 1_001):
        with pytest.raises(ValueError, match="limit is"):
            result.parts(limit=limit)


@pytest.mark.django_db(transaction=True)
def test_enqueued_with_the_transaction_of_the_orm(configure, work):
    """Behind its commit, if the backend says so."""
    backend = configure(enqueue_on_commit=True)
    with transaction.atomic():
        result = group([call(group_jobs.add, 1)]).then(group_jobs.count).enqueue()
        assert backend.queue("default").size() == 0
        with pytest.raises(TaskResultDoesNotExist):
            result.refresh()
    work()
    assert what_follows(result) == 1


# Aborts


def test_an_abort_ends_what_waits_and_what_would_follow(backend, work, few_together):
    """Tasks that have not begun never do, whether they had been enqueued or not."""
    inner = chain(call(group_jobs.add, 1), group_jobs.add)
    result = group([*[call(group_jobs.add, n) for n in range(10)], inner])
    result = result.then(group_jobs.collect, always=True).enqueue()
    found = abort_group(result.id)
    assert (found.aborted, found.asked) == (3, 0)
    assert found.aborted + found.never + found.ended == 13
    work()
    assert jobs.done == []
    result.refresh()
    assert (result.status, result.is_aborted) == (FAILED, True)
    assert abort_group(result.id).aborted == 0


def test_no_part_begins_once_the_whole_is_aborted(backend, monkeypatch):
    """Though its worker has leased it, and the abort has not come to it yet."""
    result = group([call(group_jobs.add, n) for n in range(2)]).enqueue()
    worker = TaskWorker(backend, ["default"])
    items = worker._source.lease(2, seconds=60, worker=worker.worker)
    monkeypatch.setattr(groups, "_abort_tasks", lambda *_, **__: (None, 0))
    abort_group(result.id)
    for item in items:
        with pytest.raises(TaskAborted):
            worker._runner.run(item)
        worker._source.end(item)
    assert jobs.done == []
    result.refresh()
    assert (result.failed, backend.queue("default").size()) == (2, 0)


def test_an_abort_begins_with_the_last_part(backend, monkeypatch, few_together):
    """Workers begin with the first; and what was never enqueued is counted, and not looked for."""
    aborted = []

    def note(_tr, _owner, task_id, *, by_force):
        assert not by_force
        aborted.append(task_id)
        return "aborted"

    monkeypatch.setattr(aborts, "abort_in", note)
    monkeypatch.setattr(groups, "_ROWS_TOGETHER", 4)
    monkeypatch.setattr(groups, "ABORTED_TOGETHER", 2)
    result = group([call(group_jobs.add, n) for n in range(10)]).enqueue()
    assert abort_group(result.id) == (3, 0, 0, 7)
    assert aborted == [part.id for part in result.parts(limit=3)][::-1]


def test_an_abort_asks_what_runs(backend):
    """What runs may end; nothing follows it."""
    result = chain(call(jobs.wait_for_abort), group_jobs.concatenate).enqueue()
    worker = TaskWorker(backend, ["default"], limit=1)
    thread = threading.Thread(target=worker.run)
    thread.start()
    assert jobs.begun.wait(60)
    assert abort_group(result.id) == (0, 1, 0, 1)
    thread.join(60)
    assert backend.queue("default").size() == 0
    result.refresh()
    assert (result.status, result.is_aborted) == (FAILED, True)


def test_an_abort_of_what_has_succeeded_changes_nothing(backend, work):
    """Nor does one of a nested group, which says what to abort."""
    result = group([group([call(group_jobs.add, 1)])]).enqueue()
    nested = result.parts()[0].id
    with pytest.raises(ValueError, match=result.id):
        abort_group(nested)
    work()
    assert abort_group(result.id) == (0, 0, 0, 0)
    result.refresh()
    assert (result.status, result.is_aborted) == (SUCCESSFUL, False)


def test_a_part_that_is_aborted_has_failed(backend, work):
    """By itself, as any task."""
    result = group([call(group_jobs.add, 1), call(group_jobs.add, 2)])
    result = result.then(group_jobs.collect, always=True).enqueue()
    assert abort(result.parts()[0].id) == "aborted"
    work()
    assert what_follows(result) == [None, 3]


# Faults


def test_an_enqueue_that_dies_in_the_middle_leaves_nothing_that_runs(
    backend, work, monkeypatch, clock
):
    """What it has stored is removed a day later, and what has begun is not."""
    monkeypatch.setattr("fdbqueue.tasks.groups._ROWS_TOGETHER", 10)
    kept = group([call(group_jobs.add, n) for n in range(20)]).enqueue()
    work()
    monkeypatch.setattr(trees.Tree, "begin", lambda _self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        group([call(group_jobs.add, n) for n in range(20)]).enqueue()
    count = len(stored_rows(backend))
    assert work().succeeded == 0

    def clear():
        old = functools.partial(groups.clear_old, backend=backend, now=now_us())
        run(backend.catalog.database, functools.partial(old, kept_seconds=7 * 86_400))

    clear()
    assert len(stored_rows(backend)) == count
    clock.advance(2 * 86_400)
    clear()
    assert 0 < len(stored_rows(backend)) < count
    assert group_result(kept.id).status is SUCCESSFUL
    clock.advance(40 * 86_400)
    look_after(backend)
    assert stored_rows(backend) == []


def test_an_enqueue_whose_outcome_is_unknown_says_so(backend, monkeypatch, work):
    """The caller learns that all of it may have been enqueued."""
    database = FaultyDatabase(backend.catalog.database)
    monkeypatch.setattr(type(backend), "catalog", backend.catalog.over(database))
    database.fail_commits(code=TIMED_OUT, took_effect=True)
    with pytest.raises(OutcomeUnknown):
        group([call(group_jobs.add, 1)]).then(group_jobs.count).enqueue()
    work()
    assert jobs.done == [("add", 1), ("count",)]


# Random trees


class Model:
    """What a random tree of tasks must come to.

    A part is a task that succeeds or fails, a chain, or a group with something behind it or not.
    """

    def __init__(self, dice):
        self.dice = dice
        self.expected = Counter()

    def part(self, depth, runs):
        """Return a part, and whether it succeeds, given whether it is begun."""
        kind = self.dice.random()
        if depth == 0 or kind < 0.4:
            return self.leaf(runs)
        if kind < 0.7:
            return self.chain(depth, runs)
        return self.group(depth, runs)

    def leaf(self, runs):
        name = self.dice.randrange(1_000_000)
        is_good = self.dice.random() < 0.85
        self.expected[name] += runs
        return call(note_good if is_good else note_bad, name=name), is_good

    def chain(self, depth, runs):
        parts, is_good = [], True
        for _ in range(self.dice.randrange(1, 4)):
            part, succeeds = self.part(depth - 1, runs and is_good)
            parts.append(part)
            is_good = is_good and succeeds
        return chain(*parts), is_good

    def group(self, depth, runs):
        pairs = [self.part(depth - 1, runs) for _ in range(self.dice.randrange(1, 6))]
        made, is_good = group([part for part, _ in pairs]), all(good for _, good in pairs)
        kind = self.dice.choice(["nothing", "then", "always"])
        if kind == "nothing":
            return made, is_good
        follows, succeeds = self.part(depth - 1, runs and (is_good or kind == "always"))
        made = made.then(follows, always=kind == "always")
        return made, succeeds and (is_good or kind == "always")


@task
def note_good(*_args, name):
    jobs.done.append(name)
    return name


@task(max_attempts=1)
def note_bad(*_args, name):
    jobs.done.append(name)
    raise LookupError(name)


@pytest.mark.parametrize("seed", range(12))
def test_random_trees(backend, few_together, seed):
    """Each task runs as often as the model says: once or never; and the whole ends as it says."""
    model = Model(random.Random(seed))
    part, is_good = model.group(3, True) if seed % 2 else model.chain(3, True)
    result = part.enqueue()
    TaskWorker(backend, ["default"], threads=1 + seed % 3, follow=False).run()
    assert Counter(jobs.done) == +model.expected
    result.refresh()
    assert result.status is (SUCCESSFUL if is_good else FAILED)
    assert left(backend) == (0, 0, 0)


def test_very_many_parts(backend):
    """They are enqueued, end, and what follows comes once."""
    parts = size(10_000, 2_000)
    result = group([call(jobs.note, n) for n in range(parts)]).then(group_jobs.count).enqueue()
    TaskWorker(backend, ["default"], threads=2, follow=False).run()
    assert what_follows(result) == parts
    assert len(set(jobs.done)) == parts + 1


def test_a_task_enqueues_a_group(backend, work):
    """At its end, or while it runs."""
    enqueue_group.enqueue()
    work()
    assert ("count",) in jobs.done


@task
def enqueue_group():
    group([call(group_jobs.add, 1)]).then(group_jobs.count).enqueue()
    enqueue_at_end(group_jobs.add, 2)


def test_a_result_names_its_place(backend, work):
    """The record of a task that has ended says which part it was."""
    result = group([call(group_jobs.add, 1), call(group_jobs.add, 2)]).enqueue()
    work()
    found = backend.found(result.parts()[1].id).record
    assert found["tree"] == [result.id, 0, 1, 2]
