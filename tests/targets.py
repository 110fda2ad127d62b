"""What each target of the Makefile runs, and in which order: one table.

| target | runs |
|---|---|
| ``make test`` | each promise once: all tests that are not *nightly* |
| ``make nightly`` | all tests but those of ``tests/soak`` |
| ``make soak`` | ``tests/soak``, and sizes in full that the others have in part (``thorough``) |

A test is nightly if it

- is in ``NIGHTLY`` and not in ``KEPT``, or marked ``@pytest.mark.nightly``: it starts many
  processes, waits for seconds, or shows again what a shorter one does,
- is one test for many kinds of queue: ``make test`` has the first three of ``KINDS`` that the test
  knows, and if it has other parameters as well, each of these with one of the three, in turn; or
- runs a page of the documentation other than ``PAGES``, which the working tree has not changed.

``durations.json`` has how long each test takes that takes half a second or more, from one
run at rest (``make durations``). The longest begin first, so that no worker has one left when
the others have ended. Tests that share a server, a browser or a project are next to each other.
A test may take as long as ``pyproject.toml`` says, or five times as long as at rest.
"""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.concurrency.kinds import Kind

ROOT = Path(__file__).resolve().parents[1]
DURATIONS = ROOT / "tests/durations.json"
#: Folders, files and tests that are nightly, by what ``make test`` has in their place.
NIGHTLY = {
    "the counts of calls, and the checks of what is measured": (
        "tests/benchmarks/test_benchmarks.py",
        "tests/benchmarks/test_pages.py::test_the_picture_is_for_light_and_dark_pages",
    ),
    "the package is read, not built": ("tests/package",),
    "README and quickstart, which the same code runs": ("tests/docs/test_running.py",),
    "one page of each kind": ("tests/browser",),
    "one server of each kind": (
        "tests/live/test_demo.py",
        "tests/live/test_forks.py",
        "tests/live/test_gone.py",
        "tests/live/test_memory.py",
        "tests/live/test_schema.py",
        "tests/live/test_takers.py::test_the_death_of_workers_loses_nothing",
    ),
    "one storm, one killed process and one fork of each kind; the simulation": (
        "tests/concurrency/test_killed.py::test_the_death_of_poppers_stops_nobody",
        "tests/concurrency/test_preempted.py::test_threads_of_several_clients",
    ),
    "a command that is killed once": (
        "tests/commands/test_drain_file.py::test_killed_twenty_times",
        "tests/commands/test_push_again.py::test_a_file_that_changed",
        "tests/commands/test_push_again.py::test_killed_and_resumed",
    ),
    "one process of workers of each kind": (
        "tests/tasks/test_ahead.py::test_a_killer_among_others_costs_them_nothing",
        "tests/tasks/test_bad_tasks.py::test_code_that_kills_its_process_when_it_is_imported",
        "tests/tasks/test_hanging_processes.py",
        "tests/tasks/test_killed.py",
        "tests/tasks/test_outbox_faults.py::test_a_mover_that_is_killed_at_any_step",
        "tests/tasks/test_outbox_faults.py::test_several_processes_that_are_killed_move_each_row_once",
        "tests/tasks/test_worker_command.py::test_a_second_signal_to_the_parent",
        "tests/tasks/test_worker_command.py::test_a_signal_to_all_processes_is_one_wish",
        "tests/tasks/test_worker_command.py::test_children_end_when_their_parent_is_killed",
        "tests/tasks/test_worker_command.py::test_each_process_is_replaced_after_its_tasks",
        "tests/tasks/test_worker_command.py::test_processes_of_a_batch",
        "tests/tasks/test_worker_command.py::test_signals_to_a_worker_with_many_leases",
        "tests/tasks/test_worker_command.py::test_the_code_changes",
    ),
    "the same of fewer": (
        "tests/pages/test_sizes.py",
        "tests/tasks/test_backend.py::test_more_than_a_thousand_queues_of_any_name",
        "tests/tasks/test_functions.py::test_two_queues_of_ten_thousand_functions",
        "tests/tasks/test_groups.py::test_very_many_parts",
        "tests/tasks/test_without_time_zones.py",
    ),
}
#: What ``make test`` has of these all the same.
KEPT = frozenset(
    {
        "tests/browser/test_actions.py::test_every_action",
        "tests/browser/test_actions.py::test_who_keeps_one_queue",
        "tests/browser/test_browsing.py::test_a_hostile_value_does_nothing",
        "tests/browser/test_browsing.py::test_a_push_appears_by_itself",
        "tests/browser/test_browsing.py::test_the_earthquakes_are_browsed_from_the_strongest",
        "tests/browser/test_layout.py::test_a_row_of_the_list_is_a_card_on_a_telephone",
        "tests/browser/test_layout.py::test_many_rows_are_in_view",
        "tests/browser/test_tasks.py::test_a_failed_task_is_found",
        "tests/tasks/test_killed.py::test_a_task_that_kills_its_process_every_time_fails",
    }
)
#: Which kinds of queue ``make test`` prefers: a test over many kinds has the first three it knows.
KINDS = ("fifo", "ints-commit-bytes", "ints-shards", "floats")
MAX_KINDS = 3
#: The pages of the documentation whose blocks ``make test`` always runs.
PAGES = frozenset({"README.md", "docs/quickstart.md"})
#: Fixtures of a whole session that cost next to nothing.
CHEAP = frozenset({"embedded_path", "token"})
#: What a test takes that is not in the table.
SHORT_SECONDS = 0.02
#: How many times as long as at rest a test may take.
PATIENCE = 5


def mark(items: list[pytest.Item]) -> None:
    """Mark what is nightly, and what may take longer than others."""
    nightly = _other_kinds(items)
    for item in items:
        is_given = item.config.getoption("timeout") is not None  # on the command line
        if not is_given and PATIENCE * duration(item) > float(item.config.getini("timeout")):
            item.add_marker(pytest.mark.timeout(PATIENCE * duration(item)))
        page = _page(item)
        if (
            _is_listed(item.nodeid)
            or item in nightly
            or (page is not None and page not in PAGES | _changed())
        ):
            item.add_marker(pytest.mark.nightly)


def order(items: list[pytest.Item]) -> None:
    """Let the longest begin first; tests that share something are as long as all of them."""
    shared = {item: _shared(item) or item.nodeid for item in items}
    seconds: dict[str, float] = defaultdict(float)
    for item, name in shared.items():
        seconds[name] += duration(item)
    items.sort(key=lambda item: (-seconds[shared[item]], shared[item]))


def duration(item: pytest.Item) -> float:
    """Return how many seconds a test took when the table was written."""
    return _durations().get(name_of(item.nodeid), SHORT_SECONDS)


def name_of(nodeid: str) -> str:
    """Return the name under which the table has a test: without parameters."""
    return nodeid.partition("[")[0]


@cache
def _durations() -> dict[str, float]:
    found: dict[str, float] = json.loads(DURATIONS.read_text(encoding="utf-8"))
    return found


def _page(item: pytest.Item) -> str | None:
    """Return the path of the page whose blocks a test runs."""
    if "runner_of" not in getattr(item, "fixturenames", ()):
        return None
    page = item.callspec.params.get("page") if hasattr(item, "callspec") else None
    return page.path if page else None


def _other_kinds(items: list[pytest.Item]) -> set[pytest.Item]:
    """Return the tests whose promise ``make test`` has of another kind of queue."""
    of_test: dict[str, dict[str, dict[str, pytest.Item]]] = defaultdict(dict)
    for item in items:
        if kind := _kind(item):
            others = item.callspec.id.replace(kind.name, "", 1)
            of_test[name_of(item.nodeid)].setdefault(others, {})[kind.name] = item
    cases = ([found for _, found in sorted(one.items())] for one in of_test.values())
    return {item for one in cases for item in _left_out(one)}


def _kind(item: pytest.Item) -> Kind | None:
    """Return the kind of queue that a test is for."""
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return next((one for one in parameters if isinstance(one, Kind)), None)


def _left_out(cases: list[dict[str, pytest.Item]]) -> Iterator[pytest.Item]:
    """Yield what is not chosen of a test's cases, each of which has items by kinds."""
    names = {name for case in cases for name in case}
    chosen = [name for name in KINDS if name in names][:MAX_KINDS] or sorted(names)[:1]
    for number, case in enumerate(cases):
        kept = {chosen[number % len(chosen)]} if len(cases) > 1 else set(chosen)
        if not kept & case.keys():
            kept = {min(case)}
        yield from (item for name, item in case.items() if name not in kept)


def _is_listed(nodeid: str) -> bool:
    """Tell whether the table has a test, its class, its file or its folder."""
    parts = name_of(nodeid).split("::")
    file = Path(parts[0])
    names = {"::".join(parts[: number + 1]) for number in range(len(parts))}
    if not names.isdisjoint(KEPT):
        return False
    return not _listed().isdisjoint(names | {str(folder) for folder in file.parents})


@cache
def _listed() -> frozenset[str]:
    return frozenset(name for names in NIGHTLY.values() for name in names)


@cache
def _changed() -> frozenset[str]:
    """Return the files that the working tree has changed; none if git does not say."""
    command = ["git", "status", "--porcelain", "--no-renames"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return frozenset()
    return frozenset(line[3:] for line in done.stdout.splitlines())


def _shared(item: pytest.Item) -> str | None:
    """Return what a test shares with others: where its costly fixture is from, or None."""
    scopes = {}
    info = getattr(item, "_fixtureinfo")  # noqa: B009  # pytest declares it for functions alone
    for name, definitions in info.name2fixturedefs.items():
        if definitions[-1].baseid.startswith("tests") and name not in CHEAP:
            scopes[definitions[-1].scope] = definitions[-1].baseid
    for scope in ("session", "package", "module", "class"):
        if scope in scopes:
            return item.nodeid.partition("::")[0] if scope == "module" else scopes[scope]
    return None
