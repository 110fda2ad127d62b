"""The cluster engine: opened late, once a process, and clear about what is missing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

from fdbqueue.engines import foundationdb
from fdbqueue.exceptions import ConfigurationError, EngineUnavailable

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_SECONDS = 60


def run(code, **environment):
    """Run a program in a process of its own, and return what it printed."""
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, **environment},
        timeout=TIMEOUT_SECONDS,
    )
    return answer.stdout.strip()


def test_importing_and_naming_a_cluster_opens_nothing():
    """Neither the import nor open() loads the client library."""
    assert (
        run(
            """
            import sys
            from fdbqueue.engines import foundationdb
            foundationdb.open("/nowhere/fdb.cluster")
            print("fdb.impl" in sys.modules)
            """
        )
        == "False"
    )


@pytest.mark.parametrize("ours", ["fdbqueue.service", "fdbqueue.engines.foundationdb"])
def test_a_search_for_a_module_warns_of_nothing_in_the_binding(ours):
    """Others look for modules that are not there, and may have warnings raised as errors."""
    code = f"""
        import {ours}
        import fdb.tuple
        from importlib.util import find_spec
        print(find_spec("a_module_that_is_not_there"))
    """
    assert run(code, PYTHONWARNINGS="error") == "None"


def test_a_cluster_has_one_database_a_process():
    """The same cluster file gives the same object."""
    assert foundationdb.open("a.cluster") is foundationdb.open("a.cluster")
    assert foundationdb.open("a.cluster") is not foundationdb.open("b.cluster")


def test_a_missing_client_library_is_named(tmp_path):
    """Where libfdb_c cannot be loaded, the error says which file to install, each time."""
    replace_the_library(
        tmp_path,
        """
        def find(name):
            raise OSError("libfdb_c.so: cannot open shared object file")
        """,
    )
    printed = run(
        """
        from fdbqueue.engines import client_library, foundationdb
        from fdbqueue.exceptions import ClientLibraryMissing
        from fdbqueue.service import FifoQueue
        from fdb.subspace_impl import Subspace
        queue = FifoQueue(foundationdb.open("/nowhere/fdb.cluster"), Subspace(("q",)))
        for _ in range(2):
            try:
                queue.push("x")
            except ClientLibraryMissing as error:
                print(error.code, client_library.how_to_install()[1:] in str(error))
        """,
        PYTHONPATH=str(tmp_path),
    )
    assert printed.splitlines() == ["client_library_missing True"] * 2


def replace_the_library(folder, find):
    """Let Python's next processes find another client library; the binding is the real one."""
    (folder / "sitecustomize.py").write_text(
        textwrap.dedent(find)
        + textwrap.dedent(
            """
            import ctypes
            load = ctypes.CDLL
            def load_or_find(name, *args, **kwargs):
                return find(name) if "fdb_c" in str(name) else load(name, *args, **kwargs)
            ctypes.CDLL = load_or_find
            """
        )
    )


#: A library that supports API versions up to ``newest``, and does nothing else.
_LIBRARY = """
class Function:
    def __call__(self, *args):
        return 0

class Library:
    def __init__(self):
        self.fdb_select_api_version_impl = lambda version, header: 2203 * (header > {newest})
        self.fdb_get_max_api_version = lambda: {newest}
    def __getattr__(self, name):
        vars(self)[name] = Function()
        return vars(self)[name]

def find(name):
    return Library()
"""


@pytest.mark.parametrize(
    ("newest", "selects", "printed"),
    [
        (730, None, "730"),
        (800, None, "730"),
        (800, 740, "740"),  # a newer one that the project selects is respected
        (800, 720, "api_version_too_old 720 730"),
        (720, None, "client_library_too_old None None"),
    ],
)
def test_the_api_version_is_730_or_a_newer_one_of_the_projects(tmp_path, newest, selects, printed):
    """An older one, or an older library, is refused with an error of its own."""
    replace_the_library(tmp_path, _LIBRARY.format(newest=newest))
    answer = run(
        f"""
        import fdb
        from fdbqueue.engines import foundationdb
        from fdbqueue.exceptions import EngineError
        fdb.LATEST_API_VERSION = {max(730, selects or 0)}  # the binding's own
        if {selects}:
            fdb.api_version({selects})
        try:
            foundationdb.load_binding()
            print(fdb.get_api_version())
        except EngineError as error:
            print(error.code, error.context.get("selected"), error.context.get("needed"))
        """,
        PYTHONPATH=str(tmp_path),
    )
    assert answer == printed


def test_nothing_is_used_that_foundationdb_8_removed():
    """The library of 8.0 ends a process that calls a tenant; other interfaces are missing."""
    removed = re.compile(r"\.open_tenant\(|\bTenant\b|tenant_management|config_database|blob_gran")
    folders = (ROOT / "fdbqueue" / name for name in ["service", "management", "testing", "api"])
    ours = {path: path.read_text() for one in folders for path in one.rglob("*.py")}
    ours[engine] = (engine := ROOT / "fdbqueue/engines/foundationdb.py").read_text()
    assert not [str(path) for path, text in ours.items() if removed.search(text)]


@pytest.mark.parametrize("engine", ["foundationdb"], indirect=True)
def test_transactions_are_the_bindings_own(engine):
    """Nothing stands between a queue and fdb.Transaction."""
    import fdb

    assert type(engine.database.create_transaction()) is fdb.Transaction


@pytest.mark.parametrize("engine", ["foundationdb"], indirect=True)
def test_a_cluster_that_does_not_answer_is_reported_in_time(engine, tmp_path):
    """Nobody listens at the address of this cluster file."""
    cluster_file = tmp_path / "fdb.cluster"
    cluster_file.write_text("nobody:here@127.0.0.1:1")
    database = foundationdb.open(str(cluster_file), connect_timeout_seconds=0.5)
    with pytest.raises(EngineUnavailable) as caught:
        database.create_transaction()
    assert caught.value.context["cluster_file"] == str(cluster_file)
    assert caught.value.retryable


@pytest.mark.parametrize("engine", ["foundationdb"], indirect=True)
def test_a_missing_cluster_file_is_reported(engine, tmp_path):
    """The error names the file, and does not say that a cluster has not answered."""
    missing = str(tmp_path / "missing.cluster")
    with pytest.raises(EngineUnavailable, match="cannot use its file") as caught:
        foundationdb.open(missing).create_transaction()
    assert caught.value.context["path"] == missing


@pytest.mark.parametrize("engine", ["foundationdb"], indirect=True)
def test_a_use_after_the_binding_has_stopped_is_refused(engine, prefix):
    """A handler of the end of the process gets an error at once if it runs after the binding's."""
    printed = run(
        f"""
        import atexit, os
        from fdb.subspace_impl import Subspace
        from fdbqueue.engines import foundationdb
        from fdbqueue.exceptions import EngineUnavailable
        from fdbqueue.service import FifoQueue

        database = foundationdb.open(os.environ["FDB_CLUSTER_FILE"])
        queue = FifoQueue(database, Subspace(rawPrefix={prefix!r}))

        def say_goodbye():
            try:
                print(queue.push("goodbye").value)
            except EngineUnavailable as error:
                print("stopped" in error.context["reason"])

        atexit.register(say_goodbye)  # runs last
        queue.push("hello")
        atexit.register(say_goodbye)
        """
    )
    assert printed.splitlines() == ["goodbye", "True"]


@pytest.mark.parametrize("engine", ["foundationdb"], indirect=True)
def test_a_child_of_a_process_that_opened_it_gets_an_error(engine):
    """The child is told, instead of hanging for ever; the parent goes on."""
    printed = run(
        """
        import os, sys
        from fdbqueue.engines import foundationdb
        from fdbqueue.exceptions import ForkedEngine
        database = foundationdb.open(os.environ["FDB_CLUSTER_FILE"])
        before = database.create_transaction()
        before.get_read_version().wait()
        child = os.fork()
        if not child:
            try:
                database.create_transaction()
            except ForkedEngine as error:
                os.write(1, error.code.encode() + b"\\n")
            os._exit(0)
        os.waitpid(child, 0)
        after = database.create_transaction()
        print(after.get_read_version().wait() > 0, flush=True)
        """
    )
    assert printed.splitlines() == ["forked_engine", "True"]


def test_under_gevent_a_cluster_is_refused(monkeypatch):
    """FoundationDB's client would wait for ever; the error says what to do."""
    patched = SimpleNamespace(is_module_patched=lambda name: name == "threading")
    monkeypatch.setitem(sys.modules, "gevent.monkey", patched)
    with pytest.raises(ConfigurationError, match="without gevent, or use the embedded engine"):
        foundationdb.open("/nowhere/fdb.cluster").create_transaction()
