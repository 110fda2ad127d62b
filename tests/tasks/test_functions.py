"""Counters of functions: how often they ran, how often they failed, and how long they took."""

from __future__ import annotations

import datetime
import threading

import pytest

from fdbqueue.service import now_us, run
from fdbqueue.tasks import abort
from fdbqueue.tasks.function_counters import DAY, HOUR, FunctionCounters
from fdbqueue.tasks.records import Records
from tests.concurrency.conftest import clock
from tests.injection import time_ahead
from tests.tasks import jobs

__all__ = ["clock"]

NOTE, FAIL = "tests.tasks.jobs.note", "tests.tasks.jobs.fail"
FAIL_AT_FIRST = "tests.tasks.jobs.fail_at_first"
MINUTE = 60_000_000
MOST = 1_000


def read(database, counters, queues=("q",), now=None, most=MOST):
    """Read the figures, by the functions' paths."""
    now = now_us() if now is None else now
    return run(database, lambda tr: counters.read(tr, queues, now, most), read_only=True)


@pytest.fixture
def counters(subspace):
    """Counters in a place of the test's own."""
    found = FunctionCounters(())
    found._runs = subspace["runs"]
    found._key = subspace["runs"].key()
    return found


@pytest.fixture
def count(database, counters):
    """Count attempts that took some milliseconds, and ended some minutes ago."""

    def count(path, took, ago=0, queue="q", *, failed=False, times=1):
        ended = now_us() - ago * MINUTE

        def add(tr):
            for _ in range(times):
                began = ended - int(took * 1_000)
                counters.count(tr, queue, path, ended, began, failed=failed)

        run(database, add)

    return count


def test_attempts_are_counted_with_their_end(backend, work):
    """Successes, retries, last failures and unknown functions; in the queue that they were in."""
    for number in range(3):
        jobs.note.enqueue(number)
    jobs.fail.enqueue("x")
    backend.queue("default").push(
        {"id": "x", "task": "no.such.function", "args": [], "kwargs": {}, "backend": "default"}
    )
    jobs.note.using(queue_name="other").enqueue(9)
    work()
    counters = Records(backend.records.prefix).functions
    found = read(backend.catalog.database, counters, ["tasks-default"])
    rows = {row.path: row for row in found.rows}
    assert set(rows) == {"", NOTE, FAIL}
    assert rows[NOTE].hour[:2] == rows[NOTE].day[:2] == (3, 0)
    assert rows[FAIL].hour.runs == rows[FAIL].hour.failures >= 1
    assert rows[""].hour.failures >= 1
    assert 0 <= rows[NOTE].hour.mean < 30
    assert 0 < rows[NOTE].hour.percentile < 60
    assert found.left_out == []
    both = read(backend.catalog.database, counters, ["tasks-default", "tasks-other"])
    (row,) = [row for row in both.rows if row.path == NOTE]
    assert row.hour.runs == 4
    assert row.queues == ("tasks-default", "tasks-other")


def test_what_was_aborted_before_it_began_is_not_counted(backend, work):
    """And results that are not kept are counted all the same."""
    abort(jobs.note.enqueue(1).id)
    work()
    assert read(backend.catalog.database, backend.records.functions, ["tasks-default"]).rows == []


def test_results_that_are_not_kept_are_counted(configure, work):
    """The counters are no results."""
    backend = configure(retention={"successful": 0})
    jobs.note.enqueue(1)
    work()
    found = read(backend.catalog.database, backend.records.functions, ["tasks-default"])
    assert [(row.path, row.hour.runs) for row in found.rows] == [(NOTE, 1)]


def test_an_attempt_that_is_retried_is_a_failure(backend, work):
    """Each attempt is counted."""
    jobs.fail_at_first.enqueue()
    work()
    found = read(backend.catalog.database, backend.records.functions, ["tasks-default"])
    assert [row.hour[:2] for row in found.rows] == [(2, 1)]


def test_an_attempt_that_was_aborted_is_no_failure(backend, work):
    """It has run, and ended as it was asked to."""
    result = jobs.wait_for_abort.enqueue()
    worker = threading.Thread(target=work)
    worker.start()
    assert jobs.begun.wait(60)
    abort(result.id)
    worker.join(60)
    found = read(backend.catalog.database, backend.records.functions, ["tasks-default"])
    assert [row.hour[:2] for row in found.rows] == [(1, 0)]


def test_durations_are_known_up_to_the_factor_two(count, database, counters):
    """The mean exactly; 95 of 100 took no longer than the percentile says, and half as long."""
    count("f", 4, times=90)
    count("f", 300, times=10)
    (row,) = read(database, counters).rows
    assert row.hour.mean == pytest.approx(0.0336)
    assert 0.15 <= row.hour.percentile <= 0.6
    count("g", 0)
    count("h", 10**12)
    found = {row.path: row.hour for row in read(database, counters).rows}
    assert found["g"].mean == 0.0
    assert 0 < found["g"].percentile < 0.002
    assert found["h"].mean == pytest.approx(1e9)
    assert found["h"].percentile > 86_400 / 2


def test_a_clock_that_went_back_makes_no_negative_duration(count, database, counters):
    """It counts as no time."""
    count("f", -5_000)
    (row,) = read(database, counters).rows
    assert row.hour[:3] == (1, 0, 0.0)


def test_slots_that_are_over_are_left_out(count, database, counters, clock):
    """After an hour and a slot those of the hour, after a day and a slot those of the day."""
    count("f", 1)
    for _ in range(2):
        clock.advance(3_600)
    (row,) = read(database, counters).rows
    assert (row.hour.runs, row.day.runs) == (0, 1)
    assert row.hour.mean is None is row.hour.percentile
    clock.advance(29 * 3_600)
    assert read(database, counters).rows == []


def test_figures_are_at_least_those_of_the_hour_and_of_the_day(count, database, counters):
    """What ended 59 minutes ago is of the last hour, 23 hours ago of the last day."""
    count("f", 1, ago=59)
    count("f", 1, ago=23 * 60 + 59)
    found = read(database, counters)
    assert [(row.hour.runs, row.day.runs) for row in found.rows] == [(1, 2)]
    now = now_us() / 1e6
    assert 3_600 <= now - found.hour_since.timestamp() <= 3_600 + HOUR[0] * 60 + 1
    assert 86_400 <= now - found.day_since.timestamp() <= 86_400 + DAY[0] * 60 + 1


def test_each_queue_has_its_share(count, database, counters):
    """Small ones are read whole, wherever they are; of large ones some functions are left out."""
    for number in range(30):
        count(f"f{number:02}", 1)
        count(f"f{number:02}", 1, queue="p")
    for number in range(3):
        count(f"g{number}", 1, queue="small")
    assert read(database, counters, ["p", "q", "small"]).left_out == []
    for queues in (["p", "small", "q"], ["small", "q", "p"]):
        found = read(database, counters, queues, most=23)
        assert [(one.queue, one.since) for one in found.left_out] == [
            ("p", None),
            ("p", None),
            ("q", None),
            ("q", None),
        ]
        assert [one.is_of_hour for one in found.left_out] == [True, False, True, False]
        rows = {row.path: row for row in found.rows}
        assert {path for path in rows if path < "g"} == {f"f{n}" for n in range(20, 30)}
        assert {row.queues for row in found.rows} == {("p", "q"), ("small",)}
        assert [rows[f"g{number}"].hour.runs for number in range(3)] == [1, 1, 1]
        assert rows["f29"].hour.runs == rows["f29"].day.runs == 2


def test_whole_slots_are_left_out(count, database, counters):
    """So all functions are counted since the same moment, which is said; no function is missed."""
    for number in range(4):
        for ago in (0, 20, 40):
            count(f"f{number}", 1, ago=ago)
    for most, runs in ((9, 2), (8, 2), (11, 2), (12, 3), (13, 3)):
        found = read(database, counters, most=most)
        assert [row.hour.runs for row in found.rows] == [runs] * 4, most
        left_out = [one for one in found.left_out if one.is_of_hour]
        if runs == 3:
            assert left_out == []
        else:
            minutes = (now_us() / 1e6 - left_out[0].since.timestamp()) / 60
            assert 20 <= minutes <= 41
    found = read(database, counters, most=7)
    assert left_of(found) == [("q", None)]
    assert sum(row.hour.runs for row in found.rows) == 7


def left_of(found):
    """Return what is left out of the last hour."""
    return [(one.queue, one.since) for one in found.left_out if one.is_of_hour]


def test_more_queues_than_counters(count, database, counters):
    """Each is read a little."""
    for name in "abcdef":
        count("f", 1, queue=name)
        count("g", 1, queue=name)
    found = read(database, counters, "abcdef", most=4)
    assert [(row.path, row.hour.runs) for row in found.rows] == [("g", 6)]
    assert [name for name, _since in left_of(found)] == list("abcdef")


def test_two_queues_of_ten_thousand_functions(database, counters):
    """Both are there, each with as many; of a third with few, nothing is left out."""
    now = now_us()
    for queue in ("p", "q"):
        for begin in range(0, 10_000, 1_000):

            def add(tr, queue=queue, begin=begin):
                for number in range(begin, begin + 1_000):
                    for ago in (0, 20, 240):
                        ended = now - ago * MINUTE
                        path = f"shop.{queue}.function{number:05}"
                        counters.count(tr, queue, path, ended, ended - 1_000, failed=False)

            run(database, add)
    run(database, lambda tr: counters.count(tr, "few", "f", now, now, failed=True))
    found = read(database, counters, ["p", "few", "q"], now=now, most=8_000)
    by_queue = {}
    for row in found.rows:
        by_queue[row.queues] = by_queue.get(row.queues, 0) + 1
    assert by_queue[("few",)] == 1
    assert 3_990 < by_queue[("p",)] == by_queue[("q",)] < 4_010
    assert left_of(found) == [("p", None), ("q", None)]


def test_old_slots_are_cleared(count, database, counters, clock):
    """Those of all queues, and no others."""
    for queue in ("p", "q\x00", "q"):
        count("f", 1, queue=queue)
    clock.advance(6 * 3_600)
    count("f", 1)
    run(database, lambda tr: counters.clear_old(tr, now_us()))
    rows = run(database, lambda tr: [*tr[counters._runs.range()]], read_only=True)
    assert len(rows) == 5  # of the day in each queue, and both of the last one
    clock.advance(48 * 3_600)
    run(database, lambda tr: counters.clear_old(tr, now_us()))
    assert run(database, lambda tr: [*tr[counters._runs.range()]], read_only=True) == []


def test_strange_names_come_back(count, database, counters):
    """A path is any text; a number that is none of ours is left out."""
    for path in ("a.b\x00c", "ü", "<script>", "\ud800"):
        count(path, 1)
    run(database, lambda tr: tr.set(counters._begin("q", HOUR[0], 10**6) + b"\x02x\x00", b"?"))
    assert {row.path for row in read(database, counters).rows} == {"a.b\x00c", "ü", "<script>", "?"}


def test_waits_are_known_up_to_the_factor_two(database, counters):
    """Of those that are counted."""
    ended = now_us()

    def add(tr):
        for waited in [4_000] * 90 + [300_000] * 10:
            counters.count(tr, "q", "f", ended, ended - 1_000, failed=False, waited=waited)
        counters.count(tr, "q", "f", ended, ended - 1_000, failed=False)
        counters.count(tr, "q", "g", ended, ended - 1_000, failed=True)

    run(database, add)
    rows = {row.path: row.hour for row in read(database, counters).rows}
    assert 0.15 <= rows["f"].waited <= 0.6
    assert rows["f"].runs == 101
    assert (rows["g"].runs, rows["g"].failures, rows["g"].waited) == (1, 1, None)


def test_only_first_attempts_have_waited(backend, work):
    """A retry waits for its pause; and nobody waits for a task before it may run."""
    with time_ahead(-600):
        jobs.fail_at_first.enqueue()
        due = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=300)
        jobs.note.using(run_after=due).enqueue(1)
    work()
    found = read(backend.catalog.database, backend.records.functions, ["tasks-default"])
    (waited,) = [row.day for row in found.rows if row.path == FAIL_AT_FIRST]
    assert (waited.runs, waited.failures) == (2, 1)
    (later,) = [row.day for row in found.rows if row.path == NOTE]
    assert 250 < later.waited < 540 < waited.waited < 1_100  # up to the factor two
