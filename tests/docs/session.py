"""A Python session in a project: runs the blocks it is sent, in one namespace.

A program: it reads one block per line, as JSON, and writes a line for each: its error, or an
empty text. It is run by its path and imports nothing from the tests.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import doctest
import importlib
import inspect
import io
import json
import linecache
import os
import sys
import traceback
from typing import Any

_ASYNC = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


class Session:
    """One namespace, and an event loop for blocks that await."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self._loop = asyncio.new_event_loop()
        self._parser = doctest.DocTestParser()

    def python(self, text: str, place: str) -> list[tuple[str, str]]:
        """Execute a block; what it prints is not looked at."""
        self._execute(text, place, "exec")
        return []

    def pycon(self, text: str, place: str) -> list[tuple[str, str]]:
        """Run the examples of a block; return what each shows and has printed."""
        found = []
        for example in self._parser.get_examples(text, place):
            shown, printed = example.want, io.StringIO()
            try:
                with contextlib.redirect_stdout(printed):
                    self._execute(example.source, place, "single")
            except Exception as error:
                if example.exc_msg is None:
                    raise
                shown = example.exc_msg
                printed.write("".join(traceback.format_exception_only(error)))
            found.append((shown, printed.getvalue()))
        return found

    def module(self, name: str, _: str) -> list[tuple[str, str]]:
        """Import a module anew."""
        if name in sys.modules:
            importlib.reload(sys.modules[name])
        else:
            importlib.import_module(name)
        return []

    def settings(self, module: str, _: str) -> list[tuple[str, str]]:
        """Run the system checks, on the setting as the page gives it as well."""
        from django.core.checks import run_checks

        from fdbqueue import conf

        written = getattr(sys.modules[module], "FDBQUEUE_AS_WRITTEN", None)
        wrong = [str(problem) for problem in conf.problems(written)]
        wrong += [str(check) for check in run_checks() if check.is_serious()]
        return [("", text) for text in wrong]

    def _execute(self, text: str, place: str, mode: str) -> None:
        linecache.cache[place] = (len(text), None, text.splitlines(keepends=True), place)
        result = eval(compile(text, place, mode, _ASYNC), self.names)
        if inspect.iscoroutine(result):
            self._loop.run_until_complete(result)


def main() -> None:
    """Answer until there is no more."""
    sys.path[0] = os.getcwd()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what blocks print does not get among the answers
    import django

    django.setup()
    session = Session()
    for line in sys.stdin:
        block = json.loads(line)
        answer: dict[str, Any] = {"failure": "", "outputs": []}
        try:
            run = getattr(session, block["verb"])
            answer["outputs"] = run(block["text"], block["place"])
        except BaseException:  # noqa: BLE001  # a block may raise anything, SystemExit too
            answer["failure"] = traceback.format_exc()
        print(json.dumps(answer), file=answers, flush=True)


main()
