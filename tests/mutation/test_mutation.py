"""What is changed in a module, which mutants are drawn, and that the simulator sees some."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.mutation.operators import is_change, mutants
from tests.mutation.runs import ROOT, ordered_tests

#: By operator: a module, and what each of its mutants has in the place of what.
_CHANGES = {
    "comparison": [
        ("x = a == b", {"(a != b)"}),
        ("x = a is b", {"(a is not b)"}),
        ("x = a in b", {"(a not in b)"}),
        ("x = a < b", {"(a >= b)"}),
    ],
    "boundary": [
        ("x = a < b", {"(a <= b)"}),
        ("x = a >= b", {"(a > b)"}),
        ("x = a[0]", {"1"}),
        ("x = a[1:]", {"2"}),
        ("x = a + 1", {"2"}),
        ("x = a + 100", set()),
    ],
    "dropped statement": [
        ("def f():\n    x.y = 1\n    g()\n    n += 1\n    del z", {"pass"}),
        ("class C:\n    def __init__(self):\n        self.x = 1", set()),
        ("logger.info('told')", set()),
        ("for x in y:\n    if x:\n        continue\n    f = x", {"pass"}),
    ],
    "dropped conflict range": [
        ("tr.add_read_conflict_key(k)", {"pass"}),
        ("x = self._tr.get(k)", {"self._tr.snapshot"}),
        ("x = tr[k]", {"tr.snapshot[k]"}),
        ("tr[k] = x", set()),
        ("x = tr.snapshot.get(k)", set()),
    ],
    "swapped argument": [
        ("f(a, b, c)", {"f(b, a, c)", "f(a, c, b)"}),
        ("f(a, *b)", set()),
        ("max(a, b)", set()),
    ],
    "constant argument": [
        ("f(a, key=True)", {"f(a)", "False"}),
        ("def f(x=0, *, y=False):\n    return True", {"1", "True", "False"}),
        ("f('text')", set()),
        ("f(zip(a, b, strict=True))", set()),
    ],
    "dropped if": [
        ("if a:\n    f()", {"True", "False"}),
        ("x = a if b else c", {"(a)", "(c)"}),
        ("x = [y for y in z if y]", {"True"}),
        ("if (a := b):\n    f()", set()),
        ("if TYPE_CHECKING:\n    f()", set()),
    ],
    "negated condition": [
        ("if a:\n    f()", {"(not a)"}),
        ("while not a:\n    f()", {"(a)"}),
        ("x = a and b", {"(a or b)"}),
        ("x = not a", {"bool(a)"}),
        ("assert not a", set()),
    ],
    "wrong row": [
        ("x = {'a': b, 'c': d}", {"{'a': d, 'c': b}"}),
        ("x = ((a, b), (c, d))", {"(((c, d), (a, b)))"}),
        ("class C:\n    A = b'1'\n    B = b'2'", {"b'2'"}),
        ("def f():\n    return ((a, b), (c, d))", set()),
    ],
}


@pytest.mark.parametrize("operator", _CHANGES)
def test_an_operator_changes_what_it_says(operator):
    """Each kind of change is made of the code that has it, and of no other."""
    for text, expected in _CHANGES[operator]:
        found = [one for one in mutants(text.encode()) if one.operator == operator]
        assert {one.text for one in found} == expected, text
        assert all(is_change(text.encode(), one) for one in found), text


def test_a_change_that_is_none_does_not_count():
    """A mutant whose code is the same, or no code, is not drawn."""
    source = b"x = {'a': b, 'c': b}"
    assert [is_change(source, one) for one in mutants(source)] == [False]


def test_texts_are_not_mutated():
    """Docstrings, texts of errors and logs, annotations and lists of names stay as they are."""
    source = (
        b'"""A page."""\n__all__ = ["a", "b"]\n\n\ndef f(x: int | None) -> str:\n    """Do."""\n'
    )
    source += b'    logger.info("a", x + 1)\n    return f"{x + 1}"\n'
    assert mutants(source) == []


@pytest.mark.parametrize(
    ("module", "test"),
    [
        ("service/uniques.py", "contract/test_unique.py"),
        ("tasks/aborts.py", "tasks/test_aborts_by_force.py"),
        ("tasks/schedules.py", "tasks/test_schedules.py"),
    ],
)
def test_the_tests_of_a_module_run_first(module, test):
    """Those that say its names; all the others after them."""
    found = ordered_tests(module, (ROOT / "fdbqueue" / module).read_bytes())
    assert f"tests/{test}" in found[:3]
    assert len(found) == len(set(found)) > 50


@pytest.mark.nightly
@pytest.mark.timeout(1_800)
def test_the_simulator_finds_mutants_of_a_sample():
    """Of some mutants that a seed draws, the simulator finds some; the working tree is not changed.

    The draw changes with each line of the package, so far fewer are asked for than are found.
    """
    before = _state()
    run = subprocess.run(
        [sys.executable, "-m", "tests.mutation", *_SAMPLE],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.project_settings"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    print(run.stdout)  # noqa: T201  # what is not found is to be read
    found = json.loads(run.stdout.splitlines()[-1])
    assert sum(found.values()) == 20
    assert found["simulator"] >= 3
    assert _state() == before


_SAMPLE = ["--seed", "1", "--count", "20", "--no-tests"]


def _state():
    paths = (ROOT / "fdbqueue").rglob("*.py")
    return {path: path.read_bytes() for path in paths}
