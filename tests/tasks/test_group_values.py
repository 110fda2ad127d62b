"""The values of a group's parts: as a list of its result, and given to what follows it."""

from __future__ import annotations

import pytest

from fdbqueue.exceptions import ValueTooLarge
from fdbqueue.service import run
from fdbqueue.tasks import call, chain, group, group_results
from fdbqueue.tasks.compat import InvalidTask, TaskResultDoesNotExist
from fdbqueue.tasks.worker import TaskWorker
from tests.faults.conftest import faulty
from tests.faults.faulty import AFTER, BEFORE, LATE
from tests.tasks import group_jobs, jobs, limited_jobs
from tests.tasks.stored import FAILED, SUCCESSFUL
from tests.thorough import size

__all__ = ["faulty"]


@pytest.fixture(autouse=True)
def _closed():
    group_jobs.is_open.clear()


def sums(count):
    """Return the parts of a group that add one to each number."""
    return [call(group_jobs.add, number) for number in range(count)]


@pytest.mark.parametrize("count", [1, 16, 17, 130, size(1_000, usual=300)])
def test_the_values_are_a_list(backend, work, count):
    """In the order of the parts, whoever reads it, and for what follows."""
    result = group(sums(count)).then(jobs.note, values=True).enqueue()
    work(threads=4)
    result.refresh()
    assert result.status is SUCCESSFUL
    expected = [*range(1, count + 1)]
    assert result.results() == expected
    assert result.follows.result().return_value == expected


def test_a_chain_has_one_for_each_step(backend, work):
    """Its results are those of its steps."""
    result = chain(call(group_jobs.add, 1), group_jobs.add, group_jobs.add).enqueue()
    work()
    assert result.results() == [2, 3, 4]


def test_what_is_nested_gives_on_its_own(backend, work):
    """A chain the value of its last part, a group that of what follows it, or its id."""
    inner = group(sums(3))
    result = group(
        [
            call(group_jobs.add, 1),
            chain(call(group_jobs.add, 1), group_jobs.add),
            inner.then(jobs.note, values=True),
            inner.then(chain(jobs.note, jobs.note), values=True),
            chain(call(group_jobs.add, 1), group([group_jobs.add, group_jobs.add])),
            inner,
        ]
    )
    result = result.then(chain(jobs.note, call(jobs.note)), values=True).enqueue()
    work()
    result.refresh()
    *values, of_chain, of_group = result.results()
    assert values == [2, 3, [1, 2, 3], [1, 2, 3]]
    parts = result.parts()
    assert of_chain == parts[4].result().parts()[-1].id
    assert of_group == parts[5].id
    assert result.follows.result().results() == [[*values, of_chain, of_group]] * 2


def test_a_group_that_follows_gives_them_to_each_part(backend, work):
    """As any value."""
    result = group(sums(2)).then(group([jobs.note, jobs.note]), values=True).enqueue()
    work()
    result.refresh()
    assert result.follows.result().results() == [[1, 2], [1, 2]]


def test_the_key_of_a_limit_may_be_among_them(backend, work):
    """What makes the key of a limited task is complete by then."""
    job = call(limited_jobs.one_a_customer, 7)
    names = group([call(jobs.note, "anna")]).then(job, values=True).enqueue()
    work()
    names.refresh()
    assert names.status is FAILED  # a list is no key
    assert "concurrency_key" in names.follows.problem


def test_before_all_have_ended_and_behind_a_failure(backend, work):
    """It raises, as a task's ``return_value`` does, and says which part it is."""
    result = group([*sums(2), group_jobs.fail_while_closed]).enqueue()
    with pytest.raises(ValueError, match="The part 0 of the group has not ended yet"):
        result.results()
    work()
    with pytest.raises(ValueError, match="The part 2 of the group has failed"):
        result.results()
    group_jobs.is_open.append(True)
    backend.queue("default").redrive()
    work()
    assert result.results() == [1, 2, None]


def test_nothing_follows_a_failure_until_it_is_redriven(backend, work):
    """Then it is given all values."""
    result = group([*sums(2), group_jobs.fail_while_closed])
    result = result.then(jobs.note, values=True).enqueue()
    work()
    result.refresh()
    assert (result.status, result.follows.is_enqueued) == (FAILED, False)
    group_jobs.is_open.append(True)
    backend.queue("default").redrive()
    work()
    result.refresh()
    assert result.follows.result().return_value == [1, 2, None]


def test_values_that_are_too_long_together(backend, work, monkeypatch):
    """What follows has failed, and says so; the list is refused."""
    result = group([call(jobs.long, 400_000)] * 3).then(jobs.note, values=True).enqueue()
    work()
    result.refresh()
    assert (result.status, result.succeeded) == (FAILED, 3)
    assert "limit_bytes=1000000" in result.follows.problem
    assert [len(value) for value in result.results()] == [400_000] * 3
    monkeypatch.setattr(group_results, "MAX_RESULTS_BYTES", 1_000_000)
    with pytest.raises(ValueTooLarge):
        result.results()


def test_values_with_which_the_call_is_too_long(backend, work):
    """The arguments of the call count, too."""
    follows = call(jobs.tell, "x" * 600_000)
    result = group([call(jobs.long, 500_000)]).then(follows, values=True).enqueue()
    work()
    result.refresh()
    assert result.status is FAILED
    assert "ValueTooLarge" in result.follows.problem


def test_a_part_of_which_nothing_is_kept(backend, work):
    """There is no list any more."""
    result = group(sums(3)).enqueue()
    work()
    (part,) = result.parts(after=0, limit=1)
    run(backend.catalog.database, lambda tr: backend.records.remove(tr, part.id))
    with pytest.raises(TaskResultDoesNotExist, match=part.id):
        result.results()


def test_a_group_that_was_removed(backend, work):
    """There is no list any more, either."""
    result = group(sums(3)).enqueue()
    work()
    keys = group_results.TreeKeys(backend.records.prefix, result.id).all.range()

    def clear(tr):
        del tr[keys]

    run(backend.catalog.database, clear)
    with pytest.raises(TaskResultDoesNotExist):
        result.results()


def test_successes_that_are_not_kept(configure, work):
    """The values are there until the group has ended."""
    configure(retention={"successful": 0})
    group(sums(3)).then(jobs.note, values=True).enqueue()
    work()
    assert [1, 2, 3] in jobs.done


@pytest.mark.parametrize(("count", "always"), [(2, True), (1_001, False)])
def test_what_cannot_have_values_is_refused(backend, count, always):
    """Parts that may have failed, and too many."""
    with pytest.raises(InvalidTask, match="values are for"):
        group(sums(count)).then(jobs.note, values=True, always=always)


@pytest.mark.parametrize("seed", range(3))
def test_whatever_commits_do(backend, faulty, seed):
    """What follows comes once, with all values in their order."""
    results = [group(sums(20)).then(jobs.note, values=True).enqueue() for _ in range(2)]
    database = faulty(seed=seed, rate=0.4, faults=[*BEFORE, *AFTER, *LATE])
    catalog = backend.catalog.over(database)
    TaskWorker(backend, ["default"], follow=False, threads=3, catalog=catalog).run()
    assert sum(database.happened.values()) > 5
    for result in results:
        result.refresh()
        assert result.follows.result().return_value == [*range(1, 21)]
    assert jobs.done.count([*range(1, 21)]) == 2
