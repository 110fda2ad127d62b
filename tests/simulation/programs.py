"""Copies of the package, one for each simulated process: the seam is the import statement.

The package waits, looks at the clock and draws at random by the modules ``threading``, ``_thread``,
``time``, ``os``, ``queue``, ``random``, ``secrets``, ``asyncio`` and ``concurrent.futures`` of the
standard library alone; all but the last it imports as modules. A copy's modules are the package's
own code, run again with an ``__import__`` that gives them simulated ones.
So each process has its own global variables, as a real one has, and nothing of the package knows.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import itertools
import random
import types
import weakref
from collections.abc import Callable
from typing import Any

from django.db.utils import ConnectionHandler

from tests.simulation import locks
from tests.simulation import schedule as simulated

#: The modules of which copies have simulated ones.
SIMULATED = ("_thread", "os", "queue", "random", "secrets", "threading", "time")
_PACKAGE = "fdbqueue"
#: What of it may be copied so that threads change at any line, and what is called there.
_WITH_LINES, _LINE = ("fdbqueue.service", "fdbqueue.tasks"), "__line__"
_DRAWS = ("random", "uniform", "randrange", "randint", "sample", "choice", "shuffle")
_CONTAINERS = (list, dict, set, weakref.WeakKeyDictionary, weakref.WeakSet)


class _Module(types.ModuleType):
    """A module of which some names are simulated."""

    def __init__(self, name: str, names: dict[str, Any]) -> None:
        super().__init__(name)
        self.__dict__.update(names)
        self._real = importlib.import_module(name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@functools.cache
def _code_of(name: str, has_lines: bool) -> tuple[Any, bool]:
    """Return the code of a module, and whether it is a package."""
    spec = importlib.import_module(name).__spec__  # dataclasses look for the module by its name
    assert spec is not None
    code = spec.loader.get_code(name)  # a file's
    if has_lines and name.startswith(_WITH_LINES):
        tree = _Lines().visit(ast.parse(spec.loader.get_source(name)))
        code = compile(ast.fix_missing_locations(tree), code.co_filename, "exec")
    return code, spec.submodule_search_locations is not None


class _Lines(ast.NodeTransformer):
    """Lets a thread give up its turn before each statement of a function."""

    def _visit_function(self, node: Any) -> Any:
        if node.name != "__del__":  # which runs anywhere
            for part in ast.walk(node):
                for block in ("body", "orelse", "finalbody"):
                    some = getattr(part, block, None)
                    if isinstance(some, list) and not isinstance(part, ast.ClassDef):
                        setattr(part, block, [new for one in some for new in _with_line(one)])
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = _visit_function  # noqa: N815  # as ast calls them


def _with_line(node: Any) -> list[Any]:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    if is_text or isinstance(node, (ast.Global, ast.Nonlocal)):
        return [node]
    call = ast.Call(ast.Name(_LINE, ast.Load()), [], [])
    return [ast.copy_location(ast.Expr(call), node), node]


class Program:
    """A copy of the package, for one simulated process at a time.

    Args:
        name: What its threads are called by.
        rlock: What its locks are.
        has_lines: Whether threads may change at any line of it.

    Attributes:
        pid: The number of the process.
        skew_us: By how much its clock is ahead.
        dice: What it draws from.
    """

    def __init__(
        self, name: str, rlock: type[locks.RLock] = locks.RLock, *, has_lines: bool = False
    ) -> None:
        self.name, self._has_lines = name, has_lines
        self.pid = self.skew_us = 0
        self.dice = random.Random(0)
        #: What a project's code is, by its path.
        self.named: dict[str, Any] = {}
        self._hooks: dict[str, list[Any]] = {"before": [], "after_in_child": []}
        self._modules: dict[str, types.ModuleType] = {}
        self._kept: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = []
        #: What is remembered of calls, whose lines would run in the first run alone.
        self._caches: list[Any] = []
        hooks = {"register_at_fork": self._register}
        threading = locks.threading_for(self, rlock)
        pool = type("Pool", (locks.Pool,), {"thread": threading["Thread"]})
        loop = {"run_coroutine_threadsafe": locks.run_coroutine_threadsafe}
        names: dict[str, dict[str, Any]] = {
            "threading": threading,
            "asyncio": {"new_event_loop": locks.EventLoop, **loop},
            "concurrent.futures": {"ThreadPoolExecutor": pool},
            "_thread": {"RLock": rlock},
            "time": {"clock_gettime": _seconds, "time_ns": self._time_ns, "sleep": _sleep},
            "os": {"getpid": self._getpid, "_exit": _exit, "urandom": self.dice.randbytes, **hooks},
            "queue": {"SimpleQueue": locks.SimpleQueue},
            "random": {name: getattr(self.dice, name) for name in _DRAWS},
            "secrets": {"token_hex": lambda size: self.dice.randbytes(size).hex()},
            # Simulated threads are all in one real thread, whose connections others have opened.
            "django.db": {"connections": ConnectionHandler()},
            "django.utils.module_loading": {"import_string": self._imported},
        }
        self._simulated = {name: _Module(name, given) for name, given in names.items()}
        self._builtins = {**vars(builtins), "__import__": self._import, _LINE: _line}

    def __getitem__(self, name: str) -> Any:
        """Return a module of the copy by its name without the package's."""
        return self._load(f"{_PACKAGE}.{name}")

    def keep(self) -> None:
        """Note the global variables as they are, for each new process to begin with."""
        for module in self._modules.values():
            names = dict(vars(module))
            contents = {
                name: value.copy() if type(value) in _CONTAINERS else value.__reduce__()[1]
                for name, value in names.items()
                if type(value) in (*_CONTAINERS, itertools.count)
            }
            self._kept.append((vars(module), names, contents))
            owners = [names, *(vars(one) for one in names.values() if isinstance(one, type))]
            found = [getattr(one, "__func__", one) for owner in owners for one in owner.values()]
            self._caches += [one for one in found if hasattr(one, "cache_clear")]

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Put something into a class or a module of the copy, for new processes, too."""
        setattr(owner, name, value)
        for names, kept, _ in self._kept:
            if names is vars(owner):
                kept[name] = value

    def shrink(self, sizes: dict[str, Any]) -> None:
        """Have constants be smaller, until it is a new process, so that little is many."""
        for module in self._modules.values():
            names = vars(module)
            names.update((name, sizes[name]) for name in sizes.keys() & names.keys())

    def begin(self, seed: str, pid: int, skew_us: int = 0) -> None:
        """Be a new process."""
        self.skew_us = skew_us
        self.dice.seed(seed)
        for cache in self._caches if self._has_lines else ():
            cache.cache_clear()
        for names, kept, contents in self._kept:
            names.clear()
            names.update(kept)
            for name, content in contents.items():
                if isinstance(content, tuple):
                    names[name] = itertools.count(*content)
                elif name != "__builtins__":
                    kept[name].clear()
                    (kept[name].extend if isinstance(content, list) else kept[name].update)(content)
        self.fork(pid, lambda: None)

    def fork(self, pid: int, end_others: Callable[[], None]) -> None:
        """Be the child of a fork, in which other threads end: the memory stays."""
        for function in reversed(self._hooks["before"]):
            function()
        end_others()
        self.pid = simulated.running.current.pid = pid
        for function in self._hooks["after_in_child"]:
            function()

    def _time_ns(self) -> int:
        simulated.running.turn()
        return (simulated.running.now_us + self.skew_us) * 1000

    def _getpid(self) -> int:
        me = simulated.running.current  # which may be a thread of before a fork
        return me.pid if me.process is self else self.pid

    def _register(self, **hooks: Any) -> None:
        for when in hooks.keys() & self._hooks.keys():
            self._hooks[when].append(hooks[when])

    def _import(
        self, name: str, globals_: Any = None, locals_: Any = None, parts: Any = (), level: int = 0
    ) -> Any:
        if level or name.partition(".")[0] != _PACKAGE:
            found = self._simulated.get(name)
            return __import__(name, globals_, locals_, parts, level) if found is None else found
        module = self._load(name)
        for part in parts or ():
            if not hasattr(module, part):
                self._load(f"{name}.{part}")
        return module if parts else self._modules[_PACKAGE]

    def _imported(self, path: str) -> Any:
        """Return what a dotted path names: of the package, or what takes its place."""
        module, _, name = path.rpartition(".")
        return self.named[path] if path in self.named else getattr(self._load(module), name)

    def _load(self, name: str) -> types.ModuleType:
        parent, _, last = name.rpartition(".")
        if parent and name not in self._modules:
            self._load(parent)
        if name in self._modules:
            return self._modules[name]
        code, is_package = _code_of(name, self._has_lines)
        module = self._modules[name] = types.ModuleType(name)
        module.__file__ = code.co_filename
        module.__package__ = name if is_package else parent
        vars(module)["__builtins__"] = self._builtins
        if is_package:
            module.__path__ = []
        if parent:  # the package's own face needs Django: it is empty here
            exec(code, vars(module))
            setattr(self._modules[parent], last, module)
        return module


def _seconds(_: int) -> float:
    return simulated.running.seconds()


def _line() -> None:
    simulated.running.line()


def _exit(_: int) -> None:
    """End the coroutine that is closed in another process than its own."""
    raise simulated.Ended


def _sleep(seconds: float) -> None:
    simulated.running.sleep(seconds)
