"""Imports run one way: engines and exceptions, service, conf, then everything Django.

Within ``fdbqueue/service/`` they do, too: storage, transactions, push and consume, the queue's
parts, the queue, and what is built over queues.
"""

from __future__ import annotations

import ast
import functools
import importlib
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "fdbqueue"

LOWEST = (
    "fdbqueue.binding",
    "fdbqueue.exceptions",
    "fdbqueue.locks",
    "fdbqueue.logs",
    "fdbqueue.own_threads",
    "fdbqueue.steady",
)
#: What each part may import of the package; the first match of a module's name counts.
LAYERS = {
    "fdbqueue.exceptions": (),
    "fdbqueue.locks": (),
    "fdbqueue.steady": (),
    "fdbqueue.binding": (),
    "fdbqueue.logs": (),
    "fdbqueue.own_threads": ("fdbqueue.exceptions", "fdbqueue.logs"),
    "fdbqueue.engines": ("fdbqueue.engines", *LOWEST),
    "fdbqueue.service": ("fdbqueue.service", "fdbqueue.engines.protocols", *LOWEST),
    "fdbqueue.conf": ("fdbqueue.service", "fdbqueue.engines.protocols", "fdbqueue.exceptions"),
    # below the pages and the commands, which show what it says
    "fdbqueue.columns": ("fdbqueue.columns", "fdbqueue.service"),
    "fdbqueue": ("fdbqueue",),
}
WITHOUT_DJANGO = ("fdbqueue.engines", "fdbqueue.service", *LOWEST)
#: What each of these alone may call, because it makes sure of something for all others.
MAKERS = {
    "fdbqueue.logs": {"getLogger"},
    "fdbqueue.own_threads": {"Thread", "Timer", "start_new_thread"},
}


@functools.cache
def modules():
    """Return the modules of the package by name."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@functools.cache
def imports(path):
    """Return what a module imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            found.add(node.module or "")
    return found


def within(name, packages):
    """Tell whether a module is one of the packages or inside one."""
    return any(name == package or name.startswith(package + ".") for package in packages)


def test_modules_import_only_what_is_below_them():
    """A lower layer never needs a higher one."""
    wrong = {}
    for name, path in modules().items():
        allowed = next(LAYERS[layer] for layer in LAYERS if within(name, (layer,)))
        if name == "fdbqueue":
            allowed = ("fdbqueue.exceptions", "fdbqueue.service", "fdbqueue.conf", "fdbqueue")
        ours = {i for i in imports(path) if within(i, ("fdbqueue",))}
        if above := {i for i in ours if not within(i, allowed)}:
            wrong[name] = above
    assert wrong == {}


def packages_imported(name):
    """Return the top packages that a module imports."""
    return {i.partition(".")[0] for i in imports(modules()[name])}


def test_the_service_and_the_engines_know_no_django():
    """Below the settings neither Django nor Django REST framework is imported."""
    lower = [name for name in modules() if within(name, WITHOUT_DJANGO)]
    assert [one for one in lower if packages_imported(one) & {"django", "rest_framework"}] == []


def test_the_embedded_engine_needs_the_standard_library_alone():
    """Its imports are its own, the errors', and Python's."""
    known = {"fdbqueue", *sys.stdlib_module_names}
    engine = [name for name in modules() if within(name, ("fdbqueue.engines.embedded",))]
    assert engine
    assert [name for name in engine if not packages_imported(name) <= known] == []


def test_durations_are_measured_by_the_steady_clock():
    """Python's own clocks stand still in tests that hold time, and then no wait would end."""
    stopped = re.compile(r"time\.(monotonic|perf_counter)|from time import")
    users = {
        name
        for name, path in modules().items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, (ast.Attribute, ast.ImportFrom)) and stopped.match(ast.unparse(node))
    }
    assert users == set()


def test_only_the_cluster_engine_loads_the_client_library():
    """``fdb.impl``, which needs the library, is imported nowhere else."""
    users = {name for name, path in modules().items() if "fdb.impl" in imports(path)}
    assert users == {"fdbqueue.engines.foundationdb"}


def test_importing_the_package_reads_no_settings_and_loads_no_binding():
    """``import fdbqueue`` leaves Django and the binding alone."""
    code = "import sys, fdbqueue; print(*[m for m in ('django', 'fdb') if m in sys.modules])"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert answer.stdout.strip() == ""


def test_threads_and_loggers_have_one_maker_each():
    """A thread tells of its death, and a line of the log ends nothing, only if these make them."""
    wrong = set()
    for name, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            made = getattr(called, "attr", getattr(called, "id", None))
            wrong |= {(name, made) for maker in MAKERS if made in MAKERS[maker] and name != maker}
    assert wrong == {("fdbqueue.management.base", "getLogger")}  # which adds a filter to one


def test_there_is_no_drawer_for_odds_and_ends():
    """No module is called utils, helpers, common or manager."""
    stems = {path.stem for path in modules().values()}
    assert not stems & {"utils", "helpers", "common", "manager"}


# The rooms of the service

#: The rooms of ``fdbqueue.service``, the lowest first. A module imports from lower floors and
#: from its own folder; modules on one floor do not know each other.
FLOORS: tuple[frozenset[str], ...] = tuple(
    frozenset(rooms.split())
    for rooms in (
        "names items sizes tuples threads instrumentation",
        "clock codecs",
        "options",
        "storage",
        "combiner entries transactions",
        "writes",
        "idempotency",
        "uniques",
        "push consume",
        "moments",
        "browse",
        "assembly",
        "bulk",
        "aio",
        "queues",
        "several",
        "tools",
        "catalog",
    )
)
SERVICE = "fdbqueue.service"
#: Imports that go up: the module, and what it imports. To be emptied, not to be added to.
UPWARD: set[tuple[str, str]] = set()
#: Circles of modules: to be emptied, not to be added to.
CIRCLES: set[frozenset[str]] = set()
#: What the rest of the package imports from below the face of the service, and where: to become
#: shorter. What several rooms need belongs on the face, ``fdbqueue/service/__init__.py``.
BELOW_THE_FACE = {
    "entries": {"management"},
    "instrumentation": {"management", "metrics"},
    "options": {"api", "conf", "pages", "tasks"},
    "storage.item_keys": {"api", "tasks"},
    "tools.keyed_push": {"management"},
    "tools.examination": {"management"},
    "transactions": {"management", "tasks", "testing"},
    "tuples": {"columns"},
}
#: Modules that only check and delegate may be longer.
MAX_LINES = 600
LONGER = {
    # Half of it documents the verbs, for the applications that call them; there is room for more.
    "fdbqueue.service.queues": 1_170
}
#: Classes that have more than two of ours above them, and why that is right.
TALLER = {
    "fdbqueue.api.inputs.PopFromBody": "a Django REST framework serializer",
    "fdbqueue.api.inputs.LeaseFromBody": "a Django REST framework serializer",
    "fdbqueue.api.inputs.NackBody": "a Django REST framework serializer",
    "fdbqueue.api.inputs.NackManyBody": "a Django REST framework serializer",
    "fdbqueue.api.inputs.ExtendBody": "a Django REST framework serializer",
    "fdbqueue.api.inputs.ExtendManyBody": "a Django REST framework serializer",
    "fdbqueue.pages.forms.IntegerItemsForm": "a Django form",
    "fdbqueue.pages.forms.FloatItemsForm": "a Django form",
}
#: Bases with one class under them, in another module: that may be one class in two files.
BASES_OF_ONE = {
    "fdbqueue.engines.embedded.futures.SignalledFuture": "futures know nothing of watches",
    "fdbqueue.service.aio.AsyncVerbs": "the twins of the verbs, over public verbs alone",
    "fdbqueue.service.instrumentation.Observer": "public: for observers of any program",
    "fdbqueue.testing.isolation.empty_queues": "public: for tests without pytest",
}


@functools.cache
def modules_imported(path):
    """Return the modules of the package that a module imports, also for types alone."""
    names = modules()
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                found.add(submodule if submodule in names else node.module or "")
    return found & names.keys()


def below_the_face(name):
    """Return a module's name within the service, empty where it is none below its face."""
    return name.removeprefix(f"{SERVICE}.") if name.startswith(f"{SERVICE}.") else ""


def floor_of(name):
    """Return the floor of a module of the service."""
    room = name.partition(".")[0]
    found = [number for number, rooms in enumerate(FLOORS) if room in rooms]
    assert found, f"{name} is on no floor: add its room to FLOORS"
    return found[0]


def circles(graph):
    """Return the sets of modules that import each other, directly or not."""

    def reached(start):
        found = set()
        left = [start]
        while left:
            new = graph[left.pop()] - found
            found |= new
            left.extend(new)
        return found

    reach = {name: reached(name) for name in graph}
    return {
        frozenset(other for other in reach[name] if name in reach[other])
        for name in graph
        if name in reach[name]
    }


def our_classes():
    """Return the classes that are defined in the package, by name."""
    found = {}
    for name in modules():
        module = importlib.import_module(name)
        for one in vars(module).values():
            if isinstance(one, type) and one.__module__ == name:
                found[f"{name}.{one.__qualname__}"] = one
    return found


def is_ours(one):
    """Tell whether a class is defined in the package."""
    return one.__module__.partition(".")[0] == "fdbqueue"


def test_rooms_of_the_service_import_only_from_lower_floors():
    """A part of a queue never needs what is built of it."""
    upward = set()
    for name, path in modules().items():
        if not (own := below_the_face(name)):
            continue
        for other in filter(None, map(below_the_face, modules_imported(path))):
            same_folder = own.partition(".")[0] == other.partition(".")[0]
            if not same_folder and floor_of(other) >= floor_of(own):
                upward.add((own, other))
    assert upward == UPWARD


def test_no_room_of_the_service_imports_its_face():
    """The face imports the rooms."""
    users = {name for name, path in modules().items() if SERVICE in modules_imported(path)}
    assert not {name for name in users if below_the_face(name)}


def test_every_floor_has_its_rooms():
    """A room that has gone leaves the list, too."""
    rooms = {below_the_face(name).partition(".")[0] for name in modules()} - {""}
    assert rooms == frozenset().union(*FLOORS)


def test_modules_import_in_no_circle():
    """Each module can be read after those it imports; imports for types count, too."""
    assert circles({name: modules_imported(path) for name, path in modules().items()}) == CIRCLES


def test_circles_are_found():
    """Modules in a circle are told from those that lead to it."""
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"d"}, "e": set()}
    assert circles(graph) == {frozenset("bc"), frozenset("d")}


def test_the_service_is_used_through_its_face():
    """What is imported from below it is in the list, and the list names nothing else."""
    used = {}
    for name, path in modules().items():
        if within(name, (SERVICE,)):
            continue
        for other in filter(None, map(below_the_face, modules_imported(path))):
            used.setdefault(other, set()).add(name.split(".")[1])
    assert used == BELOW_THE_FACE


def test_a_module_is_read_in_one_sitting():
    """It has at most 600 lines, unless it is listed, which it need not be if it is shorter."""
    lines = {name: len(path.read_text("utf-8").splitlines()) for name, path in modules().items()}
    assert {name: n for name, n in lines.items() if n > LONGER.get(name, MAX_LINES)} == {}
    assert [name for name in LONGER if lines[name] <= MAX_LINES] == []


def test_no_class_has_more_than_two_of_ours_above_it():
    """What a class does is in at most three places."""
    tall = {
        name
        for name, one in our_classes().items()
        if len([base for base in one.__mro__[1:] if is_ours(base)]) > 2
    }
    assert tall == TALLER.keys()


def test_no_class_is_spread_over_files():
    """A base that one class alone has, in another module, is listed with its reason."""
    subclasses = {}
    for one in our_classes().values():
        for base in filter(is_ours, one.__bases__):
            subclasses.setdefault(base, []).append(one)
    alone = {
        f"{base.__module__}.{base.__qualname__}"
        for base, found in subclasses.items()
        if len(found) == 1 and found[0].__module__ != base.__module__
    }
    assert alone == BASES_OF_ONE.keys()
