"""Fixtures for all tests: the engines, and a subspace of each test's own."""

from __future__ import annotations

import gc
import importlib
import os
import secrets
import signal
import sys
from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

import pytest
from django.conf import settings
from django.test import override_settings
from fdb.subspace_impl import Subspace
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from fdbqueue.engines import embedded
from tests import targets

# The tests start several hundred processes, and a third of the time of each would go into
# compiling the package again where the environment forbids keeping bytecode, as images do.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# A shell lets what it runs in the background ignore SIGINT, and so would the processes of tests.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
sys.dont_write_bytecode = False

pytest_plugins = ["fdbqueue.testing.pytest_plugin"]
pytest.register_assert_rewrite("tests.concurrency.census", "tests.concurrency.machine")
# How long an example takes says how busy the machine is, and nothing of the code.
hypothesis_settings.register_profile(
    "fdbqueue", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("fdbqueue")


class Engine(NamedTuple):
    """A database to test on, and what its engine calls its classes."""

    name: str
    database: Any
    key_selector: Any
    error: type[Exception]


CLUSTER_FILE = os.environ.get("FDB_CLUSTER_FILE")
CLUSTER_REQUIRED = os.environ.get("FDBQUEUE_REQUIRE_FDB") == "1"
ENGINES = ["embedded", "foundationdb"] if CLUSTER_FILE or CLUSTER_REQUIRED else ["embedded"]


def pytest_report_header() -> str:
    """Say which engines the tests run on."""
    return f"fdbqueue engines: {', '.join(ENGINES)} (FDB_CLUSTER_FILE: {CLUSTER_FILE})"


def _cluster() -> Engine:
    if not CLUSTER_FILE:
        message = "no cluster: FDB_CLUSTER_FILE is not set"
        if CLUSTER_REQUIRED:
            pytest.fail(message)
        pytest.skip(message)
    import fdb

    from fdbqueue.engines import foundationdb

    foundationdb.load_binding()
    return Engine("foundationdb", foundationdb.open(CLUSTER_FILE), fdb.KeySelector, fdb.FDBError)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Mark what is nightly before marks choose, and begin with the longest of what is chosen."""
    targets.mark(items)
    yield
    targets.order(items)


def pytest_collection_finish() -> None:
    """Load the project's addresses with those of tasks, whichever test comes first.

    And let no collection of garbage look at thousands of collected tests again.
    """
    with override_settings(INSTALLED_APPS=[*settings.INSTALLED_APPS, "fdbqueue.tasks"]):
        importlib.import_module(settings.ROOT_URLCONF)
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def embedded_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The file the tests of a session share."""
    return str(tmp_path_factory.mktemp("embedded") / "queues.sqlite3")


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, embedded_path: str) -> Engine:
    """Each engine in turn: the embedded one always, a cluster where there is one."""
    if request.param == "foundationdb":
        return _cluster()
    database = embedded.open(embedded_path, durability="normal")
    return Engine("embedded", database, embedded.KeySelector, embedded.FDBError)


@pytest.fixture
def database(engine: Engine) -> Any:
    """The database of the engine under test."""
    return engine.database


@pytest.fixture
def subspace(database: Any) -> Iterator[Subspace]:
    """A random subspace, emptied at the end."""
    space = Subspace(("fdbqueue-test", secrets.token_hex(8)))
    yield space
    transaction = database.create_transaction()
    while True:
        try:
            transaction.clear_range(space.key(), space.key() + b"\xff\xff")
            transaction.commit().wait()
            return
        except Exception as error:
            if not isinstance(getattr(error, "code", None), int):
                raise
            transaction.on_error(error).wait()


@pytest.fixture
def prefix(subspace: Subspace) -> bytes:
    """The bytes all keys of a test start with."""
    return subspace.key()


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Let a report of a failure have any text: a lone surrogate in it ends a run of several."""
    return _encodable((yield))


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_encodable(key): _encodable(one) for key, one in value.items()}
    return type(value)(map(_encodable, value)) if isinstance(value, (list, tuple)) else value
