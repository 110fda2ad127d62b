"""What a project's own tests are given: empty queues, faults, values, time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
import unittest
from itertools import count
from pathlib import Path

import fdb.tuple
import pytest
from django.conf import settings as django_settings
from django.test import SimpleTestCase, TestCase, override_settings

import fdbqueue
from fdbqueue import conf, testing
from fdbqueue.exceptions import ConfigurationError, QueueNotFound
from fdbqueue.service import PriorityQueue, transactions
from tests.django.open_files import open_files

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project(settings, setting, empty_queues):
    """A project's own setting, with something in its queues; on a cluster, a place in it."""
    if not os.environ.get("FDB_CLUSTER_FILE"):
        settings.FDBQUEUE = setting
    else:
        prefix = (*settings.FDBQUEUE["PREFIX"], "project")
        queues = {**setting["QUEUES"], "legacy": {**setting["QUEUES"]["legacy"]}}
        queues["legacy"]["subspace"] = (*prefix, "P")
        settings.FDBQUEUE = {**settings.FDBQUEUE, "PREFIX": prefix, "QUEUES": queues}
    fdbqueue.queue("mail").push("the project's")
    fdbqueue.queue("legacy").push(b"the project's")
    return settings.FDBQUEUE


def temporary(catalog):
    """Return the folder of the embedded engine's file, None on a cluster."""
    path = getattr(catalog.database, "path", None)
    return None if path is None else Path(path).parent


def under(database, prefix):
    """Return the keys under a prefix."""
    begin = fdb.tuple.pack(prefix)
    return [row.key for row in database.create_transaction().get_range(begin, begin + b"\xff\xff")]


# Empty queues


def test_a_block_has_queues_of_its_own(project):
    """Empty, described as the project's, and gone afterwards; the project's are untouched."""
    with testing.empty_queues() as catalog:
        assert conf.catalog() is catalog
        assert testing.values("mail") == testing.values("legacy") == []
        assert isinstance(fdbqueue.queue("quakes"), PriorityQueue)
        assert fdbqueue.queue("quakes").priority_type == "float"
        for name, value in (("mail", "x"), ("legacy", b"x"), ("user-1", "x")):
            fdbqueue.queue(name).push(value)
        assert catalog.names() == sorted([*catalog.plain_names(), "user-1"])
        prefix, folder = django_settings.FDBQUEUE["PREFIX"], temporary(catalog)
        for queue in catalog.queues():  # those in subspaces of their own, too
            assert queue.subspace.key().startswith(fdb.tuple.pack(prefix))
    assert testing.values("mail") == ["the project's"]
    assert testing.values("legacy") == [b"the project's"]
    assert "user-1" not in conf.catalog().names()
    assert project == django_settings.FDBQUEUE
    assert prefix[0] == "fdbqueue-test"
    if folder is None:
        assert under(conf.database(), prefix) == []
    else:
        assert not folder.exists()


def test_blocks_share_nothing(project):
    """Also one in another."""
    with testing.empty_queues():
        fdbqueue.queue("mail").push("outer")
        with testing.empty_queues():
            assert testing.values("mail") == []
            fdbqueue.queue("mail").push("inner")
        assert testing.values("mail") == ["outer"]
    with testing.empty_queues():
        assert testing.values("mail") == []


def test_a_block_may_have_other_queues(project):
    """Those it names, and no others."""
    with testing.empty_queues({"only": {"kind": "fifo", "subspace": ("P",)}}) as catalog:
        assert catalog.names() == ["only"]
        fdbqueue.queue("only").push("x")
        with pytest.raises(QueueNotFound):
            fdbqueue.queue("mail")
    assert testing.values("legacy") == [b"the project's"]


def test_the_queues_are_gone_after_an_error(project):
    """Whatever the block raises."""
    folders = []

    def fail():
        with testing.empty_queues() as catalog:
            folders.append(temporary(catalog))
            fdbqueue.queue("mail").push(1 / 0)

    with pytest.raises(ZeroDivisionError):
        fail()
    (folder,) = folders
    assert folder is None or not folder.exists()
    assert testing.values("mail") == ["the project's"]


def test_a_wrong_setting_is_an_error_and_stays_as_it_was(project):
    """The block is not entered, and nothing is left."""
    with pytest.raises(ConfigurationError), testing.empty_queues({"mail": {"kind": "x"}}):
        pytest.fail("it was entered")
    assert project == django_settings.FDBQUEUE


def test_an_engine_of_the_projects_own_is_used_as_it_is(setting, tmp_path):
    """Under a prefix that is cleared at the end, the receipts included."""
    own = {**setting, "ENGINE": "tests.django.own_engine", "OPTIONS": {"folder": tmp_path}}
    with override_settings(FDBQUEUE=own):
        with testing.empty_queues() as catalog:
            fdbqueue.queue("mail").push("x")
            assert catalog.database.path == str(tmp_path / "own.sqlite3")
        assert under(conf.database(), ("fdbqueue-test",)) == []


def test_receipts_stay_where_the_project_keeps_them(project):
    """Those of queue objects made before; in the test's own place only while it lasts."""
    options = {"database": conf.database()}
    own = {**project, "ENGINE": "tests.django.same_engine", "OPTIONS": options}
    with override_settings(FDBQUEUE=own):
        queue = fdbqueue.queue("mail")
        before = transactions.receipts_of(queue.database).key()
        with testing.empty_queues() as catalog:
            assert catalog.database is queue.database
            prefix = django_settings.FDBQUEUE["PREFIX"]
            with testing.empty_queues():
                pass
            assert transactions.receipts_of(queue.database).key() == fdb.tuple.pack(
                (*prefix, "receipt")
            )
        assert transactions.receipts_of(queue.database).key() == before
        queue.push("x")
        assert under(queue.database, prefix) == []


def test_the_file_is_closed(tmp_path, monkeypatch):
    """Nothing of the temporary folder is open any more."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    setting = {"OPTIONS": {"path": tmp_path / "q"}, "QUEUES": {"mail": {"kind": "fifo"}}}
    with override_settings(FDBQUEUE=setting):
        with testing.empty_queues():
            fdbqueue.queue("mail").push("x")
            assert any(str(tmp_path) in name for name in open_files())
        assert not any(str(tmp_path) in name for name in open_files())
    assert list(tmp_path.iterdir()) == []


def test_threads_that_have_not_ended_yet_are_in_nobodys_way(tmp_path, monkeypatch):
    """A file that one makes while the temporary folder goes leaves nothing behind."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = threading.Event()

    def make_files(folder, done):
        for number in count():
            with contextlib.suppress(OSError):
                (folder / "queues.sqlite3-sync" / str(number)).touch()
                made.set()
            if done.is_set():
                return

    setting = {"OPTIONS": {"path": tmp_path / "q"}, "QUEUES": {"mail": {"kind": "fifo"}}}
    with override_settings(FDBQUEUE=setting):
        for _ in range(30):
            made.clear()
            done = threading.Event()
            try:
                with testing.empty_queues():
                    folder = Path(fdbqueue.queue("mail").database.path).parent
                    fdbqueue.queue("mail").push("x")
                    thread = threading.Thread(target=make_files, args=(folder, done))
                    thread.start()
                    assert made.wait(60)
            finally:
                done.set()
            thread.join()
    assert list(tmp_path.iterdir()) == []


@testing.empty_queues()
def test_a_function_may_be_decorated():
    """It runs with empty queues, each time."""
    assert testing.values("mail") == []
    fdbqueue.queue("mail").push("x")


test_it_runs_again = test_a_function_may_be_decorated


def test_a_coroutine_may_be_decorated(project):
    """It has the queues until it is done."""

    @testing.empty_queues()
    async def work():
        await fdbqueue.queue("mail").apush("x")
        await asyncio.sleep(0)
        return testing.values("mail")

    assert asyncio.run(work()) == ["x"]
    assert testing.values("mail") == ["the project's"]


class Mixed(testing.EmptyQueuesMixin, TestCase):
    """A test case with the mixin, which also keeps what the class sets up apart."""

    @classmethod
    def setUpTestData(cls):
        """Push once for the class."""
        fdbqueue.queue("mail").push("of the class")

    def setUp(self):
        """Push, without calling the parent's."""
        fdbqueue.queue("mail").push("x")

    def tearDown(self):
        """The queues are still there."""
        assert testing.values("mail")[0] == "x"

    def test_one(self):
        """Only what this test has set up is there, not what the class did."""
        fdbqueue.queue("mail").push("y")
        assert testing.values("mail") == ["x", "y"]

    def test_another(self):
        """Likewise."""
        assert testing.values("mail") == ["x"]

    async def test_async(self):
        """Also in a coroutine."""
        assert (await fdbqueue.queue("mail").apop()).value == "x"
        await fdbqueue.queue("mail").apush("x")


class MixedWithQueues(testing.EmptyQueuesMixin, SimpleTestCase):
    """A test case that names its queues."""

    fdbqueue_queues = {"only": {"kind": "priority"}}  # noqa: RUF012  # as users write it

    def test_they_are_there(self):
        """And no others."""
        assert conf.catalog().names() == ["only"]


@pytest.mark.django_db
@pytest.mark.parametrize("is_inherited", [False, True])
def test_the_mixin_leaves_the_queues_of_a_class_override_alone(setting, tmp_path, is_inherited):
    """What the class says of the setting holds, in queues of the test's own."""
    own = {**setting, "OPTIONS": {"path": tmp_path / "of-the-class"}}
    own["QUEUES"] = {"letters": {"kind": "fifo"}}

    @override_settings(FDBQUEUE=own, USE_TZ=False)
    class Case(testing.EmptyQueuesMixin, TestCase):
        @classmethod
        def setUpClass(cls):
            super().setUpClass()
            fdbqueue.queue("letters").push("of the class")

        @classmethod
        def setUpTestData(cls):
            fdbqueue.queue("letters").push("of its data")
            cls.seen = testing.values("letters")

        def test(self):
            assert not django_settings.USE_TZ
            assert self.seen == ["of its data"]
            assert conf.catalog().names() == ["letters"]
            assert testing.values("letters") == []
            fdbqueue.queue("letters").push("x")

    class Heir(Case):
        pass

    case = Heir if is_inherited else Case
    overridden = dict(case._overridden_settings)
    result = unittest.defaultTestLoader.loadTestsFromTestCase(case).run(unittest.TestResult())
    assert (result.testsRun, result.failures, result.errors) == (1, [], [])
    assert not (tmp_path / "of-the-class").exists()
    assert case._overridden_settings == overridden
    assert ("_overridden_settings" in vars(case)) == (not is_inherited)
    with override_settings(FDBQUEUE=own):
        assert testing.values("letters") == []


def test_the_mixin_leaves_the_project_alone(project):
    """Under unittest's own runner, and when it debugs."""
    loader = unittest.defaultTestLoader

    class Case(testing.EmptyQueuesMixin, SimpleTestCase):
        def test(self):
            assert testing.values("mail") == []
            fdbqueue.queue("mail").push("x")

    result = loader.loadTestsFromTestCase(Case).run(unittest.TestResult())
    assert (result.testsRun, result.failures, result.errors) == (1, [], [])
    loader.loadTestsFromTestCase(Case).debug()
    assert testing.values("mail") == ["the project's"]


PLUGIN = """
import pytest

import fdbqueue
from fdbqueue import testing


def test_empty(empty_queues):
    fdbqueue.queue("mail").push("x")
    assert empty_queues.queue("mail").size() == 1


def test_empty_again(empty_queues):
    assert testing.values("mail") == []


def test_nothing_is_done_unasked():
    assert testing.values("mail") == ["the project's"]


class TestOthers:
    @pytest.fixture
    def fdbqueue_queues(self):
        return {"only": {"kind": "fifo"}}

    def test_the_queues_may_be_others(self, empty_queues):
        assert empty_queues.names() == ["only"]
"""

#: pytest-django's fixture, before and after the queues.
BESIDE_DJANGOS = """

@pytest.mark.parametrize("again", range(2))
def test_settings_before(settings, empty_queues, again):
    assert testing.values("mail") == []
    fdbqueue.queue("mail").push("x")
    settings.USE_TZ = False
    settings.FDBQUEUE = {**settings.FDBQUEUE, "API": {"MAX_LIMIT": 7}}
    assert testing.values("mail") == ["x"]


@pytest.mark.parametrize("again", range(2))
def test_settings_after(empty_queues, settings, again):
    assert testing.values("mail") == []
    fdbqueue.queue("mail").push("x")
    settings.USE_TZ = False
    settings.FDBQUEUE = {**settings.FDBQUEUE, "API": {"MAX_LIMIT": 7}}
    assert testing.values("mail") == ["x"]


def test_all_is_as_it_was():
    from django.conf import settings

    assert settings.USE_TZ
    assert "API" not in settings.FDBQUEUE
    assert testing.values("mail") == ["the project's"]
"""


@pytest.mark.parametrize("has_djangos", [False, True])
def test_the_plugin_is_one_line(tmp_path, has_djangos):
    """With pytest-django or without; only tests that ask for queues have their own."""
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["fdbqueue.testing.pytest_plugin"]\n')
    (tmp_path / "test_it.py").write_text(PLUGIN + (BESIDE_DJANGOS if has_djangos else ""))
    (tmp_path / "site_settings.py").write_text(
        "SECRET_KEY = 'x'\n"
        f"FDBQUEUE = {{'OPTIONS': {{'path': {str(tmp_path / 'q')!r}}},"
        " 'QUEUES': {'mail': {'kind': 'fifo'}}}\n"
    )
    with override_settings(
        FDBQUEUE={"OPTIONS": {"path": tmp_path / "q"}, "QUEUES": {"mail": {"kind": "fifo"}}}
    ):
        fdbqueue.queue("mail").push("the project's")
    plugins = () if has_djangos else ("-p", "no:django")
    answer = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:randomly"),
            *("-W", "error"),
            *plugins,
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={
            **{name: value for name, value in os.environ.items() if name != "FDB_CLUSTER_FILE"},
            "DJANGO_SETTINGS_MODULE": "site_settings",
            "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}",
        },
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert f"{9 if has_djangos else 4} passed" in answer.stdout


def test_pytest_is_not_needed():
    """Importing the helpers loads no pytest, and using them neither."""
    code = "import sys, fdbqueue.testing; print('pytest' in sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert answer.stdout.strip() == "False"


# What is in them


@testing.empty_queues({"quakes": {"kind": "priority"}})
def test_values_are_in_their_order():
    """From either end, in each state, by name or by queue."""
    queue = fdbqueue.queue("quakes")
    queue.push_many([("b", 2), ("a", 1), ("c", 3)])
    queue.push("later", 0, delay=60)
    assert testing.values("quakes") == testing.values(queue) == ["a", "b", "c"]
    assert testing.values("quakes", end="max") == ["c", "b", "a"]
    assert testing.values(queue, state="delayed") == ["later"]
    with pytest.raises(QueueNotFound):
        testing.values("nope")
