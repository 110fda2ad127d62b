"""A stand-in for FoundationDB's binding where its library is missing: one embedded file.

It has enough for the cluster engine, and behaves like the real binding when processes fork: each
opening is noted with its process.
"""

from __future__ import annotations

import os
import sys
import threading
import types
from typing import Any

import fdb

from fdbqueue.engines import embedded
from fdbqueue.engines.embedded.futures import Future


def install(path: str, opened: str) -> None:
    """Take the binding's place in this process and its children.

    Args:
        path: The embedded engine's file.
        opened: A file that gets a line with the number of each process that opens it.
    """
    implementation: Any = types.ModuleType("fdb.impl")
    implementation._network_thread = None
    implementation.Future = Future  # a thread waits by it, as by the binding's
    sys.modules["fdb.impl"] = implementation
    given: Any = fdb
    given.impl = implementation
    given.FDBError = embedded.FDBError
    given.is_api_version_selected = lambda: True
    given._version = 730

    def open_noted(cluster_file: str | None = None) -> Any:
        with open(opened, "a", encoding="utf-8") as lines:
            lines.write(f"{os.getpid()}\n")
        if implementation._network_thread is None:  # as the binding: never again, if it has ended
            implementation._network_thread = threading.Thread(
                target=threading.Event().wait, daemon=True
            )
            implementation._network_thread.start()
        return embedded.open(path)

    given.open = open_noted
