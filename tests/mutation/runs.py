"""Copies of the repository with one mutant each, and what finds it there."""

from __future__ import annotations

import contextlib
import difflib
import functools
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from coverage import CoverageData

from tests.mutation.operators import Mutant, is_change, mutants

ROOT = Path(__file__).resolve().parents[2]
#: What is mutated: the modules that the simulator imports of these.
ROOMS = ("fdbqueue.service", "fdbqueue.tasks")
TESTS = [one for one in ("contract", "service", "tasks") if (ROOT / "tests" / one).is_dir()]
_LEFT_OUT = shutil.ignore_patterns(".git", "__pycache__", ".*_cache", "var", ".venv*", ".nox")
#: Limits of the processor time of each process of a command, of its time, and of memory.
_SIMULATOR_SECONDS, _TEST_SECONDS, _SECONDS, _MEMORY_BYTES = 120, 900, 3_600, 4 << 30
#: So long the tests look for one mutant; each test has a limit of its own.
_TESTS_SECONDS = 300.0
CUT = "the tests were cut"
#: What names are, where they are defined, and in how many files of tests one says little.
_WORD, _DEFINED, _OFTEN = (
    re.compile(r"[a-z]\w{4,}", re.IGNORECASE),
    re.compile(r"(?:def|class) _*(\w+)"),
    30,
)
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+::.+?)(?: - .*)?$", re.MULTILINE)
_MODULES = """
import django, sys; django.setup()
from tests.simulation.world import program
print(*(one for one in program("p0")._modules if one.startswith(tuple(sys.argv[1:]))), sep="\\n")
"""
_IMPORTS = """
import django, importlib, sys; django.setup()
for one in sys.argv[1:]: importlib.import_module(one)
"""


class Drawn(NamedTuple):
    """A mutant, and the path and the text of its module."""

    path: str
    source: bytes
    mutant: Mutant

    def diff(self) -> str:
        """Return what it changes, as a unified diff."""
        changed = self.mutant.applied(self.source)
        texts = [one.decode().splitlines() for one in (self.source, changed)]
        return "\n".join(difflib.unified_diff(*texts, self.path, self.path, n=2, lineterm=""))

    def name(self) -> str:
        """Return where and what it is, in one line."""
        text = " ".join(self.mutant.text.split())
        return f"{self.path}:{self.mutant.first} {self.mutant.operator}: {text}"[:150]


class Outcome(NamedTuple):
    """How a command ended: whether it found something, and what it said last."""

    is_found: bool
    said: str


class Copy:
    """A copy of the repository, for one mutant after the other; the working tree may change.

    Its compiled modules are compared by content, because a mutant may be as long and as old as the
    module.

    Args:
        folder: Where it is; removed with the context.
        first, seeds: The seeds of the simulator.
    """

    def __init__(self, folder: Path, first: int, seeds: int) -> None:
        self._root, self._data = folder / "copy", folder / "reached"
        self._simulator = ["-m", "tests.simulation", "--whole", "--until-found"]
        self._seeds = ["--first", str(first), "--seeds", str(seeds)]
        self._environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.project_settings"}
        self._environment |= {"TMPDIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        self._environment |= {"PYTHONHASHSEED": "0", "COVERAGE_FILE": str(self._data)}
        shutil.copytree(ROOT, self._root, ignore=_LEFT_OUT)
        by_content = ["--invalidation-mode", "checked-hash"]
        self._run("-m", "compileall", "-q", *by_content, "fdbqueue", "tests", "project")
        self.modules = [*self._modules()]
        #: The seeds that reach each line of each module, by its path; 0 for its import.
        self.reached: dict[str, dict[int, set[int]]] = {}

    def _modules(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the path of each module that may be mutated."""
        outcome = self._run("-c", _MODULES, *ROOMS)
        for name in sorted(outcome.said.split()):
            path = Path(*name.split("."))
            yield name, str(path / "__init__.py" if (self._root / path).is_dir() else f"{path}.py")

    def draw(self, seed: str) -> Iterator[Drawn]:
        """Yield all mutants in the order of a seed, without those that cannot be imported."""
        sources = [(path, (self._root / path).read_bytes()) for _, path in self.modules]
        drawn = [Drawn(path, source, one) for path, source in sources for one in mutants(source)]
        random.Random(seed).shuffle(drawn)
        for one in drawn:
            if is_change(one.source, one.mutant):
                self.write(one)
                is_broken = self._run("-c", _IMPORTS, *(name for name, _ in self.modules)).is_found
                self.restore(one)
                if not is_broken:
                    yield one

    def measure(self) -> str:
        """Run the simulator on the sound package, and note which lines it reaches."""
        options = ["--rcfile=/dev/null", "--concurrency=greenlet", "--source=fdbqueue"]
        outcome = self._run("-m", "coverage", "run", *options, *self._simulator, *self._seeds)
        if outcome.is_found:
            raise RuntimeError(f"the sound package does not pass: {outcome.said}")
        data = CoverageData(str(self._data))
        data.read()
        for name in data.measured_files():
            path = str(Path(name).relative_to(self._root))
            by_line = data.contexts_by_lineno(name)
            self.reached[path] = {at: {int(one or 0) for one in by_line[at]} for at in by_line}
        return outcome.said

    def is_reached(self, one: Drawn) -> bool:
        """Tell whether the simulator runs the statement of a mutant."""
        return not self.reached.get(one.path, {}).keys().isdisjoint(_lines_of(one))

    def simulate(self, one: Drawn) -> Outcome:
        """Let the simulator look for a mutant with the seeds that reach it, the others being alike.

        One that an import runs is run with all.
        """
        if not self.is_reached(one):
            return Outcome(False, "not reached")
        seeds = set().union(*(self.reached[one.path].get(at, ()) for at in _lines_of(one)))
        self.write(one)
        only = ["--only", ",".join(map(str, sorted(seeds)))]
        which = self._seeds if 0 in seeds else only
        outcome = self._run(*self._simulator, *which, seconds=_SIMULATOR_SECONDS)
        self.restore(one)
        return outcome

    def test(self, one: Drawn, workers: int) -> Outcome:
        """Let the usual tests look for a mutant; what fails on the sound package, too, is none."""
        options = ["-x", "-q", "-m", "not nightly", "-p", "no:cacheprovider"]
        self.write(one)
        more = [*options, "-n", str(workers)]
        outcome = self._run("-m", "pytest", *self._tests_of(one), *more, wait=_TESTS_SECONDS)
        self.restore(one)
        failed = _FAILED.findall(outcome.said)
        if failed and self._run("-m", "pytest", *failed[:1], *options).is_found:
            return Outcome(False, f"{failed[0]} fails on the sound package, too")
        return outcome

    def _tests_of(self, one: Drawn) -> list[str]:
        """Return the files of the tests, those first that say most of the names of a module."""
        folders = [self._root / "tests" / name for name in TESTS]
        files = sorted(file for folder in folders for file in folder.rglob("test_*.py"))
        said = {file: set(_WORD.findall(file.read_text())) for file in files}
        names = set(_DEFINED.findall(one.source.decode()))
        names = {name for name in names if sum(name in words for words in said.values()) < _OFTEN}
        files.sort(key=lambda file: -len(said[file] & names))
        return [str(file.relative_to(self._root)) for file in files]

    def write(self, one: Drawn) -> None:
        """Put a mutant into the copy."""
        (self._root / one.path).write_bytes(one.mutant.applied(one.source))

    def restore(self, one: Drawn) -> None:
        """Take a mutant out of the copy."""
        (self._root / one.path).write_bytes(one.source)

    def _run(self, *args: str, seconds: int = _TEST_SECONDS, wait: float | None = None) -> Outcome:
        """Run a command, which has found something if it fails; not if it is cut after ``wait``."""
        process = subprocess.Popen(
            [sys.executable, *args],
            cwd=self._root,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=functools.partial(_limit, seconds),  # noqa: PLW1509  # no thread runs here
        )
        try:
            said, _ = process.communicate(timeout=wait or _SECONDS)
        except subprocess.TimeoutExpired:
            if wait is not None:
                return Outcome(False, CUT)
            said = "it took too long"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return Outcome(process.returncode != 0, said)


def _lines_of(one: Drawn) -> range:
    """Return the lines of the statement that a mutant changes."""
    return range(one.mutant.first, one.mutant.last + 1)


def _limit(seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
