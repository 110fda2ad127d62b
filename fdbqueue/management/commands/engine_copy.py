"""``engine_copy``: copy all queues from the engine that they were in to the setting's."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fdbqueue import conf
from fdbqueue.columns.text import clipped, counted
from fdbqueue.deadlines import TimedDatabase
from fdbqueue.management import arguments
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exit_codes import usage_error
from fdbqueue.service import Side

_FOUNDATIONDB = "fdbqueue.engines.foundationdb"
#: The option that names the file of an engine, and what messages call it.
_FILES = {conf.EMBEDDED: ("path", "the file"), _FOUNDATIONDB: ("cluster_file", "the cluster of")}
#: How the files of the engines begin; a cluster file after comments.
_SQLITE, _CLUSTER = b"SQLite format 3\0", re.compile(rb"(?:\s*#.*\n)*\s*\w+:\w+@\S")


class Command(QueueCommand):
    help = (
        "Copy everything under PREFIX to the engine that the setting names: from a file to a "
        "cluster, or back. All processes must be stopped. If it was interrupted, run it again. "
        "Asks first."
    )
    examples = """\
examples:
  manage.py engine_copy queues.sqlite3
  manage.py engine_copy /etc/foundationdb/fdb.cluster --no-input
"""

    takes = (
        arguments.Argument(
            "source", metavar="FROM", help="The embedded engine's file, or a cluster file"
        ),
        arguments.NO_INPUT,
        arguments.JSON,
    )

    def handle(self, *args: Any, **options: Any) -> None:
        source = self._source(options["source"])
        setting = conf.read_setting()
        engine, given = setting.get("ENGINE", conf.EMBEDDED), setting.get("OPTIONS", {})
        copy = self.catalog.copy_from(source, target := _name(engine, given))
        names = f"{source.name} to {target}"
        copy.check()
        self.console.confirm(
            f"Copy all queues from {names}? Servers, workers and scripts must be stopped."
        )
        with self.console.steps(None, "counted", "key") as finish_step:
            left = copy.begin(finish_step)
        with self.console.steps(left, "copied", "key") as finish_step:
            copy.copy(finish_step)
        with self.console.steps(None, "compared", "key") as finish_step:
            census = copy.finish(finish_step)
        self.console.report(
            census._asdict(),
            f"Moved {counted(census.keys, 'key')} ({census.bytes / 1e6:,.1f} MB, digest "
            f"{census.digest}) from {names}.",
        )

    def _source(self, given: str) -> Side:
        """Return what FROM names.

        Raises:
            CommandError: It names no engine's file, or the setting's own.
        """
        shown = clipped(repr(given))
        try:
            with Path(given).open("rb") as file:
                begin = file.read(4_096)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise usage_error(f"{shown} cannot be read: {reason}.") from error
        if not (is_file := begin.startswith(_SQLITE)) and not _CLUSTER.match(begin):
            raise usage_error(f"{shown} is neither a file of queues nor a cluster file.")
        engine = conf.EMBEDDED if is_file else _FOUNDATIONDB
        option, _ = _FILES[engine]
        own = conf.read_setting().get("OPTIONS", {}).get(option)
        if own is not None and os.path.exists(own) and os.path.samefile(own, given):
            raise usage_error(f"{shown} is what the setting names: let it name the new engine.")
        options = {option: os.path.realpath(given)}
        database = importlib.import_module(engine).open(**options)
        seconds = self._given["engine_timeout"]
        return Side(TimedDatabase(database, lambda: seconds), _name(engine, options))


def _name(engine: str, options: Mapping[str, Any]) -> str:
    """Return what messages call an engine with its options."""
    option, called = _FILES.get(engine, ("", engine))
    path = options.get(option)
    return f"{called} {os.path.realpath(path) if path else dict(options)}"
