"""Copies of the package, one for each simulated process: the seam is the import statement.

The package waits, looks at the clock and draws at random by the modules ``threading``, ``_thread``,
``time``, ``os`` and ``random`` of the standard library alone, which it imports as modules. A copy's
modules are the package's own code, run again with an ``__import__`` that gives them simulated ones.
So each process has its own global variables, as a real one has, and nothing of the package knows.
"""

from __future__ import annotations

import _thread
import builtins
import functools
import importlib
import itertools
import os
import random
import threading
import time
import types
import weakref
from collections.abc import Callable
from typing import Any

from tests.simulation import locks
from tests.simulation import schedule as simulated

#: The modules of which copies have simulated ones.
SIMULATED = ("_thread", "os", "random", "threading", "time")
_PACKAGE = "fdbqueue"
_COUNT = type(itertools.count())
_CONTAINERS = (
    dict,
    list,
    set,
    weakref.WeakKeyDictionary,
    weakref.WeakSet,
    weakref.WeakValueDictionary,
)


class _Module(types.ModuleType):
    """A module of the standard library of which some names are simulated."""

    def __init__(self, real: Any, names: dict[str, Any]) -> None:
        super().__init__(real.__name__)
        self.__dict__.update(names)
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@functools.cache
def _code_of(name: str) -> tuple[Any, bool, str]:
    """Return the code of a module, whether it is a package, and its file."""
    spec = importlib.import_module(name).__spec__  # dataclasses look for the module by its name
    assert spec is not None
    code = spec.loader.get_code(name)  # type: ignore[union-attr]  # a file's
    return code, spec.submodule_search_locations is not None, str(spec.origin)


class Program:
    """A copy of the package, for one simulated process at a time.

    Attributes:
        name: What its threads are called by.
        pid: The number of the process.
        skew_us: By how much its clock is ahead.
        dice: What it draws from.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.pid = self.skew_us = 0
        self.dice = random.Random(0)
        self._before_fork: list[Any] = []
        self._after_fork: list[Any] = []
        self._modules: dict[str, types.ModuleType] = {}
        self._kept: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = []
        self._simulated = {
            "threading": _Module(threading, locks.threading_for(self)),
            "_thread": _Module(_thread, {"RLock": locks.RLock, "get_ident": locks.get_ident}),
            "time": _Module(
                time,
                {
                    "monotonic": lambda: simulated.running.seconds(),
                    "perf_counter": lambda: simulated.running.seconds(),
                    "time": lambda: self._now_us() / 1e6,
                    "time_ns": lambda: self._now_us() * 1000,
                    "sleep": lambda seconds: simulated.running.sleep(seconds),
                },
            ),
            "os": _Module(
                os,
                {
                    "urandom": lambda size: self.dice.randbytes(size),
                    "getpid": lambda: self.pid,
                    "register_at_fork": self._register,
                },
            ),
            "random": _Module(
                random,
                {
                    name: self._drawing(name)
                    for name in ("random", "randrange", "randint", "sample", "choice", "shuffle")
                },
            ),
        }
        self._builtins = {**vars(builtins), "__import__": self._import}

    def __getitem__(self, name: str) -> Any:
        """Return a module of the copy by its name without the package's."""
        return self._load(f"{_PACKAGE}.{name}")

    def begin(self, seed: str, pid: int, skew_us: int = 0) -> None:
        """Be a new process."""
        self.pid, self.skew_us = pid, skew_us
        self.dice = random.Random(seed)
        for names, kept, contents in self._kept:
            names.clear()
            names.update(kept)
            for name, content in contents.items():
                if content is _COUNT:
                    names[name] = itertools.count(kept[name].__reduce__()[1][0])
                elif isinstance(content, list):
                    names[name][:] = content
                else:
                    names[name].clear()
                    names[name].update(content)
        self.fork(pid, lambda: None)

    def keep(self) -> None:
        """Note the global variables as they are, for each new process to begin with."""
        for module in self._modules.values():
            names = dict(vars(module))
            contents: dict[str, Any] = {}
            for name, value in names.items():
                if name.startswith("__"):
                    continue
                if type(value) is _COUNT:
                    names[name] = itertools.count(value.__reduce__()[1][0])
                    contents[name] = _COUNT
                elif type(value) in _CONTAINERS:
                    contents[name] = (
                        list(value)
                        if isinstance(value, list)
                        else dict(value)
                        if hasattr(value, "keys")
                        else set(value)
                    )
            self._kept.append((vars(module), names, contents))

    def fork(self, pid: int, end_others: Callable[[], None]) -> None:
        """Be the child of a fork, in which other threads end: the memory stays."""
        for function in reversed(self._before_fork):
            function()
        end_others()
        self.pid = pid
        for function in self._after_fork:
            function()

    def _now_us(self) -> int:
        simulated.running.turn()
        return simulated.running.now_us + self.skew_us

    def _drawing(self, name: str) -> Any:
        return lambda *args: getattr(self.dice, name)(*args)

    def _register(self, *, before: Any = None, after_in_child: Any = None, **_: Any) -> None:
        self._before_fork += [] if before is None else [before]
        self._after_fork += [] if after_in_child is None else [after_in_child]

    def _import(
        self,
        name: str,
        globals_: Any = None,
        locals_: Any = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        if level or name.partition(".")[0] != _PACKAGE:
            found = self._simulated.get(name)
            return __import__(name, globals_, locals_, fromlist, level) if found is None else found
        module = self._load(name)
        for part in fromlist or ():
            if not hasattr(module, part):
                self._load(f"{name}.{part}")
        return module if fromlist else self._modules[_PACKAGE]

    def _load(self, name: str) -> types.ModuleType:
        found = self._modules.get(name)
        if found is not None:
            return found
        parent, _, last = name.rpartition(".")
        if parent:
            self._load(parent)
            if name in self._modules:
                return self._modules[name]
        code, is_package, file = _code_of(name)
        module = self._modules[name] = types.ModuleType(name)
        module.__file__ = file
        module.__package__ = name if is_package else parent
        vars(module)["__builtins__"] = self._builtins
        if is_package:
            module.__path__ = []
        if parent:  # the package's own face needs Django: it is empty here
            exec(code, vars(module))  # noqa: S102  # the package's own code
            setattr(self._modules[parent], last, module)
        return module
