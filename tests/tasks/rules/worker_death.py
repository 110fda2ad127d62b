"""Workers that are killed while they run tasks."""

from __future__ import annotations

from collections import Counter
from typing import Any

from fdbqueue.tasks.compat import TaskResult
from tests.tasks.rules import journal
from tests.tasks.rules.case import ConformanceCase

_TASK_SECONDS = 0.01
#: How many tasks there are, and how many workers die of them.
DEATH_TASKS, DEATHS = 60, 5


class WorkerDeath(ConformanceCase):
    """Tasks of killed workers run again, or end; with real processes and SIGKILL."""

    def _end(self, results: list[TaskResult[..., Any]]) -> None:
        """Wait until all tasks have ended, starting a worker whenever there is none."""
        waiting = list(results)

        def all_ended() -> bool:
            while waiting:
                waiting[-1].refresh()
                if not waiting[-1].is_finished:
                    return False
                waiting.pop()
            return True

        self.wait_until(all_ended, "all tasks of killed workers have ended", self._keep_a_worker)

    def _keep_a_worker(self) -> None:
        if not self._workers or self._workers[-1].poll() is not None:
            self.kill_workers()
            self.start_worker()

    def _assert_each_has_one_result(self, results: list[TaskResult[..., Any]]) -> None:
        for result in results:
            assert self.task_backend.get_result(result.id).is_finished
        finished = Counter(entry["id"] for entry in journal.entries("task_finished"))
        assert {id_: n for id_, n in finished.items() if n > 1} == {}

    def test_a_task_of_a_killed_worker_ends(self) -> None:
        """A worker that is killed in the middle of a task leaves it neither lost nor RUNNING."""
        result = self.enqueue("block_once", "x")
        self.start_worker()
        self.wait_until(lambda: self.ran("block_once") == ["x"], "the task has started")
        self.kill_workers()
        self._end([result])
        assert len(self.ran("block_once")) in (1, 2)
        self._assert_each_has_one_result([result])

    def test_tasks_of_killed_workers_end(self) -> None:
        """Workers are killed one after another in the middle of many tasks; each task ends once."""
        task = self.task("take_time")
        results = [task.enqueue(name, _TASK_SECONDS) for name in range(DEATH_TASKS)]
        for death in range(1, DEATHS + 1):
            self.start_worker()
            enough = death * DEATH_TASKS // (DEATHS + 1)
            self.wait_until(
                lambda enough=enough: len(set(self.ran("take_time"))) >= enough,  # type: ignore[misc]  # bound at once
                f"{enough} tasks have started",
                self._keep_a_worker,
            )
            self.kill_workers()
        self._end(results)
        self._assert_each_has_one_result(results)
        ran = set(self.ran("take_time"))
        assert ran == set(range(DEATH_TASKS)), "a task has ended and never ran"

    def test_a_task_that_kills_its_worker_ends(self) -> None:
        """It ends FAILED, after a limited number of workers, and other tasks run."""
        poison, other = self.enqueue("kill_worker"), self.enqueue("mark", "x")
        self._end([poison, other])
        self.assert_status(poison, "FAILED")
        assert poison.errors, "the reason is missing"
        self.assert_status(other, "SUCCESSFUL")
