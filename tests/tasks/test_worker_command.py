"""``tasks_worker`` as people and service managers run it: processes, signals, files."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from fdbqueue.tasks.management import processes
from fdbqueue.tasks.management.processes import Parent
from fdbqueue.tasks.time_limits import HEARS, shared_memory
from tests import forked
from tests.cases import cases
from tests.engines.children import wait_until
from tests.injection import time_ahead
from tests.tasks import jobs, kept_jobs
from tests.tasks.killing import signalled
from tests.tasks.stored import FAILED, READY, SUCCESSFUL, status

ROOT = Path(__file__).parents[2]
DEADLINE_SECONDS = 60


class Started:
    """A worker as a process of its own, and what it prints."""

    def __init__(self, environment, folder, arguments):
        self.log = folder / f"log-{time.monotonic_ns()}"
        with self.log.open("wb") as stream:
            self.process = forked.popen(
                [sys.executable, "manage.py", "tasks_worker", *arguments],
                cwd=ROOT,
                env=environment,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def said(self):
        """What it has printed so far."""
        return self.log.read_text()

    def wait(self, text, times=1):
        """Wait until it has printed a text some number of times."""
        wait_until(
            lambda: self.said.count(text) >= times or self.process.poll() is not None,
            DEADLINE_SECONDS,
        )
        assert self.said.count(text) >= times, self.said

    def end(self, *signals):
        """Send it signals, and return its exit code."""
        for number in signals:
            self.process.send_signal(number)
        return self.process.wait(DEADLINE_SECONDS)

    def kill(self):
        """Kill it and all of its children that are left."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def start(environment, tmp_path):
    """Start a worker with arguments; it is killed at the end of the test."""
    started = []

    def start(*arguments, **more):
        settings = {"DJANGO_SETTINGS_MODULE": "tests.tasks.kept_settings", **more}
        started.append(Started({**environment, **settings}, tmp_path, arguments))
        return started[-1]

    yield start
    for one in started:
        one.kill()


@pytest.fixture
def begin(backend, tmp_path):
    """Enqueue tasks that wait for a file, and return their results."""

    def begin(*names):
        return [kept_jobs.wait_for_file.enqueue(str(tmp_path), name) for name in names]

    return begin


def begun(folder, name="*"):
    """Return the numbers of the processes in which tasks have begun."""
    return [int(path.name.rpartition("-")[2]) for path in folder.glob(f"begun-{name}-*")]


# Signals


def test_running_tasks_end_first(start, begin, tmp_path):
    """After one SIGTERM the worker lets its task end, takes no other, and ends with 0."""
    first, second = begin("one", "two")
    worker = start()
    wait_until(lambda: begun(tmp_path), DEADLINE_SECONDS)
    worker.process.send_signal(signal.SIGTERM)
    worker.wait("Waiting for 1 task to end")
    (tmp_path / "one").touch()
    assert worker.end() == 0
    assert (status(first), status(second)) == (SUCCESSFUL, READY)
    assert "1 succeeded, 0 failed" in worker.said


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 130), (signal.SIGINT, 130)], ids=["SIGTERM", "SIGINT"]
)
def test_a_second_signal_gives_running_tasks_back(start, begin, tmp_path, number, code):
    """Another worker has them at once, long before their leases expire."""
    (result,) = begin("one")
    worker = start(FDBQUEUE_TEST_OPTIONS=json.dumps({"lease_seconds": 600}))
    wait_until(lambda: begun(tmp_path), DEADLINE_SECONDS)
    worker.process.send_signal(number)
    worker.wait("Waiting for 1 task to end")
    assert worker.end(number) == code
    assert status(result) is READY
    (tmp_path / "one").touch()
    assert start("--until-empty").end() == 0
    assert status(result) is SUCCESSFUL


def test_only_attempts_that_have_begun_count_when_given_back(start, begin, tmp_path):
    """Tasks that were leased ahead return as they were; the one that ran has an attempt more."""
    results = begin("go", "go", "go")
    options = json.dumps({"lease_seconds": 600})
    worker = start(FDBQUEUE_TEST_OPTIONS=options)
    wait_until(lambda: begun(tmp_path), DEADLINE_SECONDS)
    worker.process.send_signal(signal.SIGTERM)
    worker.wait("Waiting for 1 task to end")
    assert worker.end(signal.SIGTERM) == 130
    assert {status(result) for result in results} == {READY}
    assert sorted(result.attempts for result in results) == [0, 0, 1]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)], ids=["SIGTERM", "SIGINT"]
)
def test_an_idle_worker_ends_at_once(start, backend, number, code):
    """With 0 after SIGTERM, with 130 after Ctrl-C."""
    worker = start()
    worker.wait("runs the tasks of")
    assert worker.end(number) == code


def test_a_task_that_leaves_the_loop_leaves_the_worker(start, backend):
    """The worker runs async tasks afterwards, and one SIGTERM ends it."""
    left = kept_jobs.leave_in_a_subtask.enqueue()
    after = [jobs.double.enqueue(number) for number in range(3)]
    worker = start("--threads", "2")
    wait_until(lambda: all(status(one) is SUCCESSFUL for one in after), DEADLINE_SECONDS)
    wait_until(lambda: status(left) is FAILED, DEADLINE_SECONDS)
    assert {error.exception_class for error in left.errors} == {SystemExit}
    assert left.attempts == 5
    assert worker.end(signal.SIGTERM) == 0


@pytest.mark.parametrize(
    "numbers", [[signal.SIGTERM], [signal.SIGTERM, signal.SIGINT]], ids=["once", "twice"]
)
def test_signals_to_a_worker_with_many_leases(configure, environment, tmp_path, numbers):
    """Whenever they come, each task runs once, and none is left running."""
    signalled(configure, environment, tmp_path, numbers, rounds=2)


def test_threads_that_tasks_have_left(start, backend):
    """The worker ends without them, some seconds later, and says so."""
    result = kept_jobs.leave_a_thread.enqueue()
    worker = start()
    wait_until(lambda: status(result) is SUCCESSFUL, DEADLINE_SECONDS)
    assert worker.end(signal.SIGTERM) == 0
    assert "Threads that tasks have left still run: " in worker.said
    assert "ThreadPoolExecutor-" in worker.said


# Processes


def test_processes_share_the_tasks(start, begin, tmp_path):
    """Each has an id of its own; SIGTERM to their parent lets all of them end."""
    results = begin("go", "go", "go")
    worker = start("--processes", "3")
    wait_until(lambda: len(begun(tmp_path)) == 3, DEADLINE_SECONDS)
    assert worker.process.pid not in begun(tmp_path)
    worker.process.send_signal(signal.SIGTERM)
    worker.wait("Waiting for 1 task to end", times=3)
    (tmp_path / "go").touch()
    assert worker.end() == 0
    assert {status(result) for result in results} == {SUCCESSFUL}
    ids = {result.worker_ids[0] for result in results}
    assert {int(one.rpartition(":")[2]) for one in ids} == set(begun(tmp_path))


def test_a_signal_to_all_processes_is_one_wish(start, begin, tmp_path):
    """A service manager, or Ctrl-C at a terminal, reaches parent and children: tasks still end."""
    results = begin("go", "go")
    worker = start("--processes", "2")
    wait_until(lambda: len(begun(tmp_path)) == 2, DEADLINE_SECONDS)
    os.killpg(worker.process.pid, signal.SIGTERM)
    worker.wait("Waiting for 1 task to end", times=2)
    time.sleep(0.5)  # for what must not happen
    (tmp_path / "go").touch()
    assert worker.end() == 0
    assert {status(result) for result in results} == {SUCCESSFUL}


def test_a_second_signal_to_the_parent(start, begin, tmp_path):
    """All children give their tasks back."""
    results = begin("go", "go")
    options = json.dumps({"lease_seconds": 600})
    worker = start("--processes", "2", FDBQUEUE_TEST_OPTIONS=options)
    wait_until(lambda: len(begun(tmp_path)) == 2, DEADLINE_SECONDS)
    worker.process.send_signal(signal.SIGTERM)
    worker.wait("Waiting for 1 task to end", times=2)
    assert worker.end(signal.SIGTERM) == 130
    assert {status(result) for result in results} == {READY}


def test_a_child_that_dies_is_replaced(start, begin, backend, tmp_path):
    """After a pause; its task runs again once its lease has expired."""
    (result,) = begin("go")
    worker = start("--processes", "2")
    wait_until(lambda: begun(tmp_path), DEADLINE_SECONDS)
    (child,) = begun(tmp_path)
    os.kill(child, signal.SIGKILL)
    worker.wait("ended by signal 9; another starts in 1 s.")
    worker.wait("runs the tasks of", times=3)
    (tmp_path / "go").touch()
    wait_until(lambda: status(result) is SUCCESSFUL, DEADLINE_SECONDS)
    assert result.attempts == 2
    assert worker.end(signal.SIGTERM) == 0


def test_sigterm_while_a_child_that_died_waits_for_its_replacement(start, begin, tmp_path):
    """Nothing ran that could not end, so the exit code is that of any such end."""
    begin("go")
    worker = start("--processes", "1")
    wait_until(lambda: begun(tmp_path), DEADLINE_SECONDS)
    (child,) = begun(tmp_path)
    os.kill(child, signal.SIGKILL)
    worker.wait("another starts in 1 s.")
    assert worker.end(signal.SIGTERM) == 0


def test_children_end_when_their_parent_is_killed(start, begin, tmp_path):
    """Gracefully, as after SIGTERM: no process is left, and no task is lost."""
    results = begin("go", "go")
    worker = start("--processes", "2")
    wait_until(lambda: len(begun(tmp_path)) == 2, DEADLINE_SECONDS)
    worker.process.kill()
    wait_until(lambda: worker.said.count("Waiting for 1 task to end") == 2, DEADLINE_SECONDS)
    (tmp_path / "go").touch()
    children = begun(tmp_path)
    wait_until(lambda: not any(map(is_alive, children)), DEADLINE_SECONDS)
    assert {status(result) for result in results} == {SUCCESSFUL}


def is_alive(pid):
    """Tell whether there is a process that has not ended."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.mark.parametrize("arguments", [[], ["--processes", "1"]], ids=["alone", "processes"])
def test_a_task_with_processes_of_its_own(start, backend, arguments):
    """They handle signals as any process does, so those of a pool end when it ends them."""
    results = [jobs.work_in_a_pool.enqueue(), jobs.terminate_a_process.enqueue()]
    assert start("--until-empty", *arguments).end() == 0
    assert [status(result) for result in results] == [SUCCESSFUL] * 2
    assert [result.return_value for result in results] == [[0, 1, 2], -signal.SIGTERM]


def test_a_process_that_cannot_be_started(tmp_path):
    """It is tried again after a pause; the others go on."""
    command, said = tmp_path / "worker", []

    def note(line):
        said.append(line)
        command.write_text("#!/bin/sh\nexit 0\n")
        command.chmod(0o700)

    files = len(os.listdir("/proc/self/fd"))
    parent = Parent([str(command)], 2, goes_on=lambda _: False, note=note)
    kept = len(os.listdir("/proc/self/fd")) - files
    assert parent.run() == [0, 0]
    (line,) = said
    assert line.startswith("Worker process 1 cannot be started: ")
    assert line.endswith("; it is tried again in 1 s.")
    assert len(os.listdir("/proc/self/fd")) - files == kept


@pytest.mark.parametrize("said", [b"!", b""])
def test_a_child_counts_what_its_parent_and_signals_say_once(monkeypatch, said):
    """One of each is one request; when the parent has ended, that is one, too."""
    readable, pipe = os.pipe()
    monkeypatch.setenv(processes.CHILD, f"1:{readable}:{shared_memory()}:0.0")
    received = []
    with processes.ParentPipe().heard(SimpleNamespace(receive=received.append)):
        if said:
            os.write(pipe, said)
            signal.raise_signal(signal.SIGTERM)
        os.close(pipe)
        wait_until(lambda: not any("tasks-parent" in one.name for one in threading.enumerate()))
    assert received == [signal.SIGTERM]


def test_a_child_that_was_killed_for_a_time_limit(tmp_path):
    """Another starts at once, and learns when that was."""
    child = processes._Child(1)
    child.start(["sleep", "600"])
    child.kill()
    assert child.ended(child.process.wait()) == 0.0
    child.start(["sh", "-c", f"echo ${processes.CHILD} > {tmp_path}/told"])
    assert child.ended(child.process.wait()) == 0.0
    assert float((tmp_path / "told").read_text().rpartition(":")[2]) > 0


def test_a_process_that_hangs_while_it_starts():
    """A second request ends it, and that is no failure: it had no tasks."""
    child = processes._Child(1)
    child.start(["sh", "-c", "trap 'exit 3' USR1; kill -STOP $$; sleep 600"])
    assert os.WIFSTOPPED(os.waitpid(child.process.pid, os.WUNTRACED)[1])
    child.tell(again=False)
    child._watch.words[HEARS] = 1.0
    child.tell(again=True)  # it hears the pipe
    child.process.send_signal(signal.SIGUSR1)
    child.process.send_signal(signal.SIGCONT)
    child.ended(child.process.wait(DEADLINE_SECONDS))
    assert child.code == 3
    child.start(["sleep", "600"])
    child.tell(again=True)
    child.ended(child.process.wait(DEADLINE_SECONDS))
    assert child.code == 0


def test_processes_of_a_batch(start, backend):
    """They end when there are no more tasks."""
    results = [jobs.note.enqueue(number) for number in range(20)]
    assert start("--processes", "2", "--until-empty").end() == 0
    assert {status(result) for result in results} == {SUCCESSFUL}


def test_each_process_is_replaced_after_its_tasks(start, backend):
    """``--max-tasks`` bounds what a process keeps; others go on."""
    results = [jobs.note.enqueue(number) for number in range(12)]
    worker = start("--processes", "2", "--max-tasks", "3", "--worker", "anna")
    wait_until(lambda: all(status(one) is SUCCESSFUL for one in results), DEADLINE_SECONDS)
    assert worker.end(signal.SIGTERM) == 0
    assert {one.worker_ids[0] for one in results} <= {"anna-1", "anna-2"}


# The code changes


def test_the_code_changes(start, backend, tmp_path):
    """The worker starts again with the new code."""
    module = tmp_path / "changing_jobs.py"
    code = "from fdbqueue.tasks import task\n@task\ndef answer():\n    return {}\n"
    module.write_text(code.format(1))
    worker = start("--reload", PYTHONPATH=str(tmp_path), PYTHONDONTWRITEBYTECODE="1")
    worker.wait("runs the tasks of")
    sys.path.insert(0, str(tmp_path))
    try:
        import changing_jobs

        first = changing_jobs.answer.enqueue()
        wait_until(lambda: status(first) is SUCCESSFUL, DEADLINE_SECONDS)

        def has_changed():
            module.write_text(code.format(12345))  # again until the file is watched
            return worker.said.count("runs the tasks of") > 1

        wait_until(has_changed, DEADLINE_SECONDS)
        second = changing_jobs.answer.enqueue()
        wait_until(lambda: status(second) is SUCCESSFUL, DEADLINE_SECONDS)
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("changing_jobs", None)
    assert (first.return_value, second.return_value) == (1, 12345)
    assert worker.end(signal.SIGINT) == 0  # as with Django's other commands that reload


# Arguments


@cases(
    ("arguments", "said"),
    [
        (["nosuch"], "has no queue 'nosuch', but default, other."),
        (["default", "no-*"], "has no queue 'no-[*]', but default, other."),
        (["--exclude", "nosuch"], "has no queue 'nosuch', but default, other."),
        (["other", "--exclude", "o*"], "leaves no queue"),
        (["--exclude", "*"], "leaves no queue"),
        (["--exclude", "default", "--exclude", "other"], "leaves no queue"),
        ([""], "has no queue ''"),
        (["--backend", "nosuch"], "The fdbqueue backends in TASKS: default."),
        (["--processes", "2"], "needs a process of its own"),
        (["--reload"], "needs a process of its own"),
        (["--threads", "0"], "0 is less than 1"),
        (["--worker", ""], "the name of a worker has 1 to"),
    ],
)
def test_wrong_arguments(backend, arguments, said):
    """They end the command with exit code 2, and the error says what there is."""
    with pytest.raises(CommandError, match=said) as caught:
        call_command("tasks_worker", "--until-empty", *arguments, stderr=io.StringIO())
    assert caught.value.returncode == 2 or "argument" in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "done"),
    [
        ([], {"default", "other"}),
        (["other"], {"other"}),
        (["o*", "default"], {"default", "other"}),
        (["*", "--exclude", "o*"], {"default"}),
        (["--exclude", "default"], {"other"}),
    ],
)
def test_which_queues(backend, arguments, done):
    """Names, patterns, and lists of both."""
    for name in ("default", "other"):
        jobs.note.using(queue_name=name).enqueue(name)
    call_command("tasks_worker", "--until-empty", *arguments, stderr=io.StringIO())
    assert set(jobs.done) == done


# The log, the metrics


def test_the_log_of_attempts(configure, caplog):
    """Each end is a record with its facts, without arguments."""
    configure(backoff=None)
    good, bad = jobs.note.enqueue("secret"), kept_jobs.fail_while_closed.enqueue()
    with caplog.at_level(logging.INFO, "fdbqueue.tasks.task_worker"):
        call_command("tasks_worker", "--until-empty", "--worker", "anna", stderr=io.StringIO())
    records = {record.id: record for record in caplog.records if hasattr(record, "id")}
    assert records[good.id].message == "a task has succeeded"
    assert records[bad.id].message == "a task has failed"
    assert (records[bad.id].error, records[bad.id].reason) == ("builtins.LookupError", "closed")
    for record in records.values():
        facts = (record.queue, record.worker, record.attempts)
        assert facts == ("tasks-default", "anna", 1)
        assert 0 <= record.seconds < DEADLINE_SECONDS
        assert "secret" not in str(vars(record))


def test_an_attempt_that_is_followed_by_another_is_no_failed_task(configure, caplog):
    """The worker says what was raised, when the task runs again, and counts it apart."""
    configure(backoff=lambda _error, _result: 30, max_attempts=2)
    bad, said = kept_jobs.fail_while_closed.enqueue(), io.StringIO()
    with caplog.at_level(logging.INFO, "fdbqueue.tasks.task_worker"):
        call_command("tasks_worker", "--until-empty", stderr=said)
    _, failed, counts = said.getvalue().splitlines()
    name = f"tests.tasks.kept_jobs.fail_while_closed {bad.id}"
    assert failed == f"{name}, attempt 1, failed; again in 30 s: builtins.LookupError: closed"
    assert counts == "0 succeeded, 0 failed, 1 to run again, 0 lost their lease."
    (record,) = [one for one in caplog.records if hasattr(one, "again")]
    assert (record.message, record.again) == ("an attempt at a task has failed", 30)
    assert (record.error, record.reason) == ("builtins.LookupError", "closed")
    with time_ahead(60):
        call_command("tasks_worker", "--until-empty", stderr=(said := io.StringIO()))
    _, failed, counts = said.getvalue().splitlines()
    assert failed == f"{name} failed: builtins.LookupError: closed"
    assert counts == "0 succeeded, 1 failed, 0 lost their lease."


def test_the_metrics_of_attempts(configure):
    """They are counted by queue, function and outcome."""
    from prometheus_client import CollectorRegistry

    from fdbqueue.tasks import task_worker
    from fdbqueue.tasks.metrics import TaskMetrics

    configure(backoff=None)
    registry = CollectorRegistry()
    metrics = TaskMetrics(registry)
    task_worker.observers.append(metrics.ended)
    try:
        for number in range(3):
            jobs.note.enqueue(number)
        kept_jobs.fail_while_closed.enqueue()
        call_command("tasks_worker", "--until-empty", stderr=io.StringIO())
    finally:
        task_worker.observers.remove(metrics.ended)

    def value(name, **labels):
        return registry.get_sample_value(name, {"queue": "tasks-default", **labels})

    note, fail = "tests.tasks.jobs.note", "tests.tasks.kept_jobs.fail_while_closed"
    assert value("fdbqueue_task_attempts_total", task=note, outcome="succeeded") == 3
    assert value("fdbqueue_task_attempts_total", task=fail, outcome="failed") == 1
    assert value("fdbqueue_task_seconds_count", task=note) == 3


def test_a_worker_says_which_options_are_wrong(configure, caplog):
    """Once, at its start: each with what its check says, and the text of the log is constant."""
    configure(lease_secondz=5, schedules={"odd": {"task": "tests.tasks.jobs.note", "cron": "x"}})
    err = io.StringIO()
    call_command("tasks_worker", "--until-empty", stdout=io.StringIO(), stderr=err)
    assert err.getvalue().count("fdbqueue.tasks.E002: ") == 1
    assert "lease_secondz" in err.getvalue()
    found = [record for record in caplog.records if "is wrong" in record.message]
    assert [record.check for record in found] == ["fdbqueue.tasks.E002", "fdbqueue.tasks.E012"]
    assert "'odd'" in found[1].problem


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's /proc")
def test_streams_that_are_closed(environment, tmp_path):
    """It works all the same, and no file of the engine gets one of their descriptors."""
    command = [sys.executable, "manage.py", "tasks_worker"]
    settings = {**environment, "DJANGO_SETTINGS_MODULE": "tests.tasks.kept_settings"}
    closed = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command]
    with subprocess.Popen(closed, cwd=ROOT, env=settings) as worker:
        try:
            children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children")
            wait_until(lambda: children.read_text() or worker.poll() is not None)
            streams = [os.readlink(f"/proc/{worker.pid}/fd/{number}") for number in range(3)]
            worker.terminate()
            assert worker.wait(DEADLINE_SECONDS) == 0
        finally:
            worker.kill()
    assert streams == ["/dev/null"] * 3
