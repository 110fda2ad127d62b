"""The backend: what it enqueues, what it refuses, and what it says of it."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import io
import itertools
import subprocess
import sys
import threading

import pytest
from django.conf import settings
from django.core import checks
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import transaction
from django.template import Context, Template
from django.test import override_settings

import fdbqueue
from fdbqueue import conf
from fdbqueue.exceptions import FdbQueueError
from fdbqueue.service.storage.counts import Counts
from fdbqueue.service.transactions import run
from fdbqueue.tasks import compat, enqueue_in, pages, task
from fdbqueue.tasks.compat import InvalidTask, TaskResultDoesNotExist, task_backends
from fdbqueue.tasks.options import FdbQueueTask, Retention, TaskChanges, TaskKeywords
from fdbqueue.tasks.records import Records, encoded, pending
from fdbqueue.tasks.task_worker import TaskWorker
from tests.cases import cases
from tests.engines.interrupts import Preemption
from tests.tasks import jobs, letters

#: Zero, negative, below the grace, no numbers, over a week.
WRONG_TIMEOUTS = [0, -1, 4.9, float("nan"), float("inf"), "60", True, 604_801]
NOW = datetime.datetime.now(datetime.timezone.utc)


@pytest.mark.parametrize("who", ["another looks meanwhile", "the change comes meanwhile"])
def test_a_change_of_the_setting_leaves_no_queues_of_before(configure, who):
    """Wherever another thread looks at the queues, or changes the setting as this one looks."""
    configure()
    one = {"BACKEND": "fdbqueue.tasks.FdbQueueBackend", "QUEUES": ["default"]}
    files = ("/conf.py", "/compat.py", "/dispatcher.py", "tasks/signals.py", "test/utils.py")
    for place in itertools.count(1):
        conf._catalog.clear()
        change = override_settings(TASKS={"default": one})
        work, handler = change.enable, conf.catalog
        if who == "the change comes meanwhile":
            work, handler = handler, work
        preemption = Preemption(place, handler=handler, within=files)
        thread = threading.Thread(target=preemption.run, args=(work,))  # it has its own backends
        thread.start()
        thread.join(60)
        if settings.TASKS["default"] is one:
            names = conf.catalog().plain_names()
            change.disable()
            assert ("tasks-default" in names, "tasks-other" in names) == (True, False), place
        if not preemption.was_interrupted:
            break
    assert place > 10


def test_a_task_with_the_same_key_may_end_meanwhile(configure, work, monkeypatch):
    """Then its result is as it was found, where nothing is kept of it."""
    backend = configure(retention={"successful": 0})
    first = jobs.unique.enqueue("anna")
    look = backend.get_result

    def look_late(*args, **options):
        work()
        return look(*args, **options)

    monkeypatch.setattr(backend, "get_result", look_late)
    second = jobs.unique.enqueue("anna")
    assert jobs.done == ["anna"]
    assert (second.id, second.status, second.args) == (first.id, first.status, ["anna"])


def test_a_task_is_an_item_of_its_queue(backend):
    """The value says what to call, and the result's id is in it."""
    result = jobs.tell.using(priority=7).enqueue(1, [2], three={"4": 5})
    item = backend.queue("default").peek()
    assert item.value == {
        "id": result.id,
        "task": "tests.tasks.jobs.tell",
        "args": [1, [2]],
        "kwargs": {"three": {"4": 5}},
        "backend": "default",
        "priority": 7,
    }
    assert fdbqueue.queue("tasks-default").size() == 1


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), "\ud800", "x" * 1_000_001])
def test_arguments_that_the_queue_cannot_hold_are_refused(backend, wrong):
    """By the queue's errors, and nothing is enqueued."""
    with pytest.raises(FdbQueueError):
        jobs.note.enqueue(wrong)
    assert backend.queue("default").counts() == Counts(0, 0, 0, 0)


def test_long_arguments_are_taken(backend, work):
    """Longer than one of FoundationDB's values."""
    result = jobs.note.enqueue("x" * 900_000)
    assert backend.get_result(result.id).args == ["x" * 900_000]
    work()
    assert backend.get_result(result.id).return_value == "x" * 900_000


@cases(
    "wrong",
    [
        {"max_attempts": 0},
        {"max_attempts": True},
        {"unique_while": "always"},
        {"backoff": 5},
        *({"timeout": wrong} for wrong in WRONG_TIMEOUTS),
    ],
)
def test_wrong_options_of_a_task_are_refused(backend, wrong):
    """When it is made."""
    with pytest.raises(InvalidTask):
        task(**wrong)(jobs.note.func)


def test_type_checkers_know_each_option_of_a_task():
    """Those of the decorator, and those that one call can change: using() refuses the others."""
    options = {field.name for field in dataclasses.fields(FdbQueueTask)}
    keywords = TaskKeywords.__annotations__.keys()
    assert keywords == options - {"func", "takes_context", "run_after"}
    can_change = options - {"func"}
    for name in options:
        try:
            jobs.note.using(**{name: None})
        except TypeError:
            can_change.discard(name)
    assert TaskChanges.__annotations__.keys() == can_change


@pytest.mark.parametrize("wrong", ["max_attempts", "backoff", "timeout", "takes_context"])
def test_what_a_call_cannot_change_is_refused(backend, wrong):
    """The code of the task says it."""
    with pytest.raises(TypeError):
        jobs.note.using(**{wrong: 1})


@cases("result_id", ["", "nope", "x" * 65, "\x00", "ä" * 64, "\ud800", None, 7, b"x", "../x"])
def test_an_id_that_is_none_names_no_result(backend, result_id):
    """Whatever it is."""
    with pytest.raises(TaskResultDoesNotExist):
        backend.get_result(result_id)


def test_an_item_that_was_removed_by_hand_has_no_result(backend):
    """Whoever clears a queue of tasks has removed them."""
    result = jobs.note.enqueue(1)
    backend.queue("default").clear()
    with pytest.raises(TaskResultDoesNotExist):
        backend.get_result(result.id)


def test_without_queues_any_name_is_taken(configure):
    """The queues are those of a pattern."""
    backend = configure(queues=[])
    jobs.note.using(queue_name="anything").enqueue(1)
    assert "tasks-anything" in conf.catalog().names()
    assert backend.queue("anything").size() == 1


def test_the_order_of_tasks(backend, work):
    """Higher priority first, then run_after, then the order of enqueueing."""
    past = [NOW - datetime.timedelta(hours=hours) for hours in (3, 2, 1)]
    for value, options in [
        ("plain 1", {}),
        ("low", {"priority": -100}),
        ("due 2", {"run_after": past[1]}),
        ("due 3", {"run_after": past[2]}),
        ("high", {"priority": 100}),
        ("due 1", {"run_after": past[0]}),
        ("high due", {"priority": 100, "run_after": past[2]}),
        ("plain 2", {}),
    ]:
        jobs.note.using(**options).enqueue(value)
    work()
    assert jobs.done == [
        *("high due", "high"),
        *("due 1", "due 2", "due 3"),
        *("plain 1", "plain 2", "low"),
    ]


# Unique tasks


def test_a_second_task_with_a_key_is_the_first(backend, work):
    """Its result is returned, and nothing is enqueued, until it has ended."""
    first, second = jobs.unique.enqueue("anna"), jobs.unique.enqueue("anna")
    other, without = jobs.unique.enqueue("bert"), jobs.unique.enqueue(None)
    assert first.id == second.id
    assert len({first.id, other.id, without.id, jobs.unique.enqueue(None).id}) == 4
    work()
    assert sorted(map(str, jobs.done)) == ["None", "None", "anna", "bert"]
    assert jobs.unique.enqueue("anna").id != first.id


def test_a_key_while_ready_is_free_once_the_task_runs(backend, work):
    """So that the task can enqueue itself."""
    result = jobs.unique_while_ready.enqueue()
    assert jobs.unique_while_ready.enqueue().id == result.id
    work()
    assert len(jobs.done) == 2
    assert jobs.done[0] not in {None, result.id}


def test_a_key_is_of_one_function(backend):
    """Two functions may use the same text."""
    one = jobs.note.using(unique_key="k").enqueue(1)
    other = jobs.long.using(unique_key="k").enqueue(1)
    assert one.id != other.id


# Transactions


@pytest.mark.django_db(transaction=True)
def test_tasks_are_enqueued_when_the_orm_commits(configure):
    """And not after a rollback."""
    backend = configure(enqueue_on_commit=True)
    with transaction.atomic():
        result = jobs.note.enqueue(1)
        assert result.enqueued_at is None
        with pytest.raises(TaskResultDoesNotExist):
            backend.get_result(result.id)
    result.refresh()
    assert result.enqueued_at is not None
    with transaction.atomic():
        lost = jobs.note.enqueue(2)
        transaction.set_rollback(True)
    with pytest.raises(TaskResultDoesNotExist):
        backend.get_result(lost.id)
    assert backend.queue("default").size() == 1


def test_tasks_are_enqueued_in_a_transaction_of_the_callers(backend):
    """Several, or none."""

    def enqueue_two(tr):
        return [enqueue_in(tr, jobs.note, value) for value in (1, 2)]

    results = run(backend.catalog.database, enqueue_two)
    assert [backend.get_result(result.id).args for result in results] == [[1], [2]]

    def enqueue_and_fail(tr):
        enqueue_in(tr, jobs.note, 3)
        raise LookupError

    with pytest.raises(LookupError):
        run(backend.catalog.database, enqueue_and_fail)
    assert backend.queue("default").size() == 2


# Signals and checks


def ids(**options):
    """Return the ids of the checks' messages."""
    return [message.id for message in checks.run_checks() if "tasks" in message.id]


@cases(
    "options",
    [
        {"nope": 1},
        {"lease_seconds": 0},
        {"max_attempts": "3"},
        {"max_result_bytes": 0},
        *({"timeout": wrong} for wrong in WRONG_TIMEOUTS),
        {"grace_seconds": 0},
        {"grace_seconds": None},
        {"timeout": 7, "grace_seconds": -1},
        {"enqueue_on_commit": "yes"},
        {"queue_prefix": 7},
        {"backoff": "tests.nope"},
        {"backoff": 7},
        {"retention": 7},
        {"retention": {"ready": 7}},
        {"retention": {"failed": -1}},
    ],
)
def test_wrong_options_are_found_by_a_check(configure, options):
    """And the backend works with its defaults."""
    backend = configure(**options)
    assert ids() == ["fdbqueue.tasks.E002"]
    kept = {"timeout": options["timeout"]} if len(options) > 1 else {}
    assert backend.settings == type(backend.settings)(**kept)


@pytest.mark.parametrize(
    ("options", "meant"),
    [
        ({"max_atempts": 3}, "max_attempts"),
        ({"MAX_ATTEMPTS": 3}, "max_attempts"),
        ({"schedules": {"a": {"task": "tests.tasks.jobs.note", "crontab": "* * * * *"}}}, "cron"),
    ],
)
def test_a_wrong_key_is_answered_with_the_one_most_like_it(configure, options, meant):
    """In OPTIONS, and in a schedule."""
    configure(**options)
    (found,) = [one for one in checks.run_checks() if "tasks" in one.id]
    assert found.hint.startswith(f"Did you mean {meant!r}? ")


def test_shards_are_refused_with_the_reason(configure):
    """They are an option of queues, and not of those of tasks."""
    configure(shards=16)
    (found,) = [one for one in checks.run_checks() if "tasks" in one.id]
    assert found.id == "fdbqueue.tasks.E002"
    assert found.hint.startswith("Tasks have no shards: several are leased at a time already.")


def test_right_options_pass_the_checks(configure):
    """In all the forms that they may have."""
    backend = configure(
        lease_seconds=5,
        max_attempts=1,
        backoff="tests.tasks.jobs.never",
        retention={"successful": None, "failed": datetime.timedelta(days=1)},
        queue_prefix="work.",
        enqueue_on_commit=True,
        timeout=1,
        grace_seconds=0.5,
    )
    assert ids() == []
    assert task(timeout=0.5)(jobs.note.func).timeout == 0.5
    assert backend.settings.backoff is jobs.never
    assert backend.settings.retention == Retention(None, 86_400)
    assert backend.names() == ["work.default", "work.other"]


def test_a_queue_name_that_fits_nothing_is_found_by_a_check(configure):
    """The API allows any text, fdbqueue does not."""
    configure(queues=["default", "a b"])
    assert ids() == ["fdbqueue.tasks.E003"]


def test_backends_that_share_queues_are_found_by_a_check(backend):
    """Their workers would take each other's tasks."""
    one = {"BACKEND": "fdbqueue.tasks.FdbQueueBackend", "OPTIONS": {"queue_prefix": "p-"}}
    with override_settings(TASKS={"default": one, "second": one}):
        assert ids() == ["fdbqueue.tasks.E004"]


ANY_NAME = {"BACKEND": "fdbqueue.tasks.FdbQueueBackend", "QUEUES": []}


def two(**options):
    """Set two backends that take queues of any name."""
    second = {**ANY_NAME, "OPTIONS": options}
    return override_settings(TASKS={"default": ANY_NAME, "second": second})


def test_backends_of_any_name_take_their_own_tasks(backend, work):
    """``tasks-*`` fits ``tasks-second-x``, too, and is not asked for it."""
    with two():
        own = jobs.note.using(queue_name="x").enqueue("own")
        other = jobs.note.using(backend="second", queue_name="x").enqueue("other")
        assert (work().succeeded, jobs.done) == (1, ["own"])
        other.refresh()
        assert other.status == "READY"
        TaskWorker(task_backends["second"], follow=False).run()
        assert jobs.done == ["own", "other"]
        found = [task_backends[one.backend].get_result(one.id) for one in (own, other)]
        assert [result.attempts for result in found] == [1, 1]


def test_each_queue_of_any_name_has_its_turn(backend, work):
    """A customer with many tasks delays the others by one turn, and they may be any number."""
    with override_settings(TASKS={"default": ANY_NAME}):
        for number in range(40):
            jobs.note.using(queue_name="customer-0").enqueue(f"many {number}")
        for number in range(1, 5):
            jobs.note.using(queue_name=f"customer-{number}").enqueue(f"one of {number}")
        assert work(prefetch=1).succeeded == 44
        few = [at for at, value in enumerate(jobs.done) if value.startswith("one of")]
        assert len(few) == 4
        assert max(few) < 20
        assert [value for value in jobs.done if value.startswith("many")] == [
            f"many {number}" for number in range(40)
        ]


def test_more_than_a_thousand_queues_of_any_name(backend, work):
    """All of them are found, one by one and by a pattern."""
    with override_settings(TASKS={"default": ANY_NAME}):
        for number in range(1_010):
            jobs.note.using(queue_name=f"customer-{number}").enqueue(number)
        assert work(["customer-1*"]).succeeded == 121
        assert work().succeeded == 889
        assert sorted(jobs.done) == list(range(1_010))


def test_a_queue_that_would_be_another_backends_is_refused(backend):
    """By the enqueue, and by the worker's command."""
    with two():
        with pytest.raises(InvalidTask, match="'tasks-second-x', which is another backend's"):
            jobs.note.using(queue_name="second-x").enqueue(1)
        with pytest.raises(CommandError, match="'tasks-second-x', which is another backend's"):
            call_command("tasks_worker", "--until-empty", "second-x", stderr=io.StringIO())


def test_backends_whose_queues_may_be_the_same_are_found_by_a_check(backend):
    """One that takes any name has the other's among them; not if the prefixes are apart."""
    with two():
        assert ids() == ["fdbqueue.tasks.W001"]
        (warning,) = task_backends["default"].check()
        assert "tasks-second-*" in warning.msg
        assert "queue_prefix" in warning.hint
    with two(queue_prefix="second."):
        assert ids() == []


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("tasks-x", "default"),
        ("tasks-second-x", "second"),
        ("tasks-named", "named"),
        ("tasks-third-a", "third"),
        ("tasks-third-gone", "third"),
    ],
)
def test_each_queue_belongs_to_one_backend(backend, name, owner):
    """To the one that names it, else to the one with the longest prefix; on its page, too."""
    given = {
        "default": ANY_NAME,
        "second": ANY_NAME,
        "third": {**ANY_NAME, "QUEUES": ["a"]},
        "named": {**ANY_NAME, "QUEUES": ["named"], "OPTIONS": {"queue_prefix": "tasks-"}},
    }
    with override_settings(TASKS=given):
        assert [alias for alias in given if task_backends[alias].owns(name)] == [owner]
        assert pages._backend_of(name).alias == owner


def test_a_task_goes_where_the_setting_says_by_now(backend):
    """What is known of a task since its last enqueue is that of another setting."""
    first = jobs.tell.enqueue(1)
    setting = backend_setting()
    with override_settings(FDBQUEUE={**setting, "PREFIX": (*setting["PREFIX"], "other")}):
        second = jobs.tell.enqueue(2)
        assert backend.get_result(second.id).args == [2]
        assert backend.queue("default").size() == 1
    assert jobs.tell.enqueue(3).args == [3]
    assert backend.queue("default").size() == 2
    assert backend.get_result(first.id).args == [1]
    with pytest.raises(TaskResultDoesNotExist):
        backend.get_result(second.id)


@pytest.mark.parametrize("queue", ["tasks-default", "limited.tasks-default.3c2a3489a2.A_c3_a9"])
def test_a_new_record_is_written_as_any_pending_one(queue):
    """Byte for byte, though without an encoder: who reads them tells no difference."""
    rows = {}
    records = Records(("prefix",))
    records.write_new(rows, "AB-_9", result_id="an id", queue=queue)
    assert rows == {records.key("an id"): encoded(pending(queue, "AB-_9"))}


def test_a_queue_of_the_setting_that_is_one_of_tasks_is_found_by_a_check(backend):
    """Its options would not be those that tasks need."""
    setting = {**backend_setting(), "QUEUES": {"tasks-other": {"kind": "fifo"}}}
    with override_settings(FDBQUEUE=setting):
        assert ids() == ["fdbqueue.tasks.E005"]
        assert conf.catalog().queue("tasks-other").kind == "priority"


def backend_setting():
    """Return the setting of the test."""
    from django.conf import settings

    return settings.FDBQUEUE


def test_the_package_needs_no_tasks_api_to_be_imported():
    """A project without Django's Tasks has fdbqueue as before."""
    script = (
        "import sys; sys.modules['django_tasks'] = None; sys.modules['django.tasks'] = None\n"
        "import fdbqueue, fdbqueue.tasks, fdbqueue.conf, fdbqueue.management.base\n"
        "assert not [name for name in sys.modules if name.startswith('fdbqueue.tasks.')]\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


@pytest.mark.skipif(compat.IN_DJANGO, reason="needs Django 5.2")
def test_without_the_backport():
    """An error says what to install, in place of one about a module."""
    program = "import sys; sys.modules['django_tasks'] = None; import fdbqueue.tasks.compat"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].startswith("ImportError: This version of Django has no")


def test_who_calls_a_task_is_told_what_to_write(backend):
    """As a function, or as tasks of Celery are; other names are missing as ever."""
    told = r"Write send\.enqueue\(\.\.\.\) to let a worker run the task, or send\.call"
    with pytest.raises(TypeError, match=told):
        letters.send("ada")
    for name in ("delay", "apply_async"):
        assert not hasattr(letters.send, name)
        with pytest.raises(AttributeError, match=told):
            getattr(letters.send, name)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        letters.send.nothing  # noqa: B018  # it is what raises
    shown = Template("{{ task }}").render(Context({"task": letters.send}))
    assert "FdbQueueTask" in shown  # it was not called
    assert copy.copy(letters.send) == letters.send
