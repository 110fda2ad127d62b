"""``override_settings(FDBQUEUE=...)``: at once, everywhere, and back at the end."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from django.core.management import call_command
from django.test import override_settings
from django.test.utils import modify_settings
from rest_framework.test import APIClient

import fdbqueue
from fdbqueue import conf, deadlines
from fdbqueue.engines import embedded
from fdbqueue.exceptions import ConfigurationError, QueueNotFound
from fdbqueue.service import FifoQueue, PriorityQueue
from tests import injection
from tests.django.open_files import open_files

LONG_SECONDS = 60


class OwnDatabase:
    """A database of the project's own, that counts how often it was closed."""

    def __init__(self, database):
        self.closed = 0
        self._database = database

    def create_transaction(self):
        """Return a transaction."""
        return self._database.create_transaction()

    def close(self):
        """Close the file."""
        self.closed += 1
        self._database.close()


def setting_at(path, **queues):
    """Return a setting on a file, with a FIFO queue unless others are given."""
    return {
        "OPTIONS": {"path": path, "durability": "normal"},
        "QUEUES": queues or {"mail": {"kind": "fifo"}},
    }


@pytest.fixture
def one(tmp_path):
    """A setting."""
    return setting_at(tmp_path / "one")


@pytest.fixture
def other(tmp_path):
    """Another, on another file, where the queue of that name is of another kind."""
    return setting_at(tmp_path / "other", mail={"kind": "priority"}, extra={"kind": "fifo"})


def test_the_engine_the_queues_and_their_kinds_change(one, other):
    """And change back, each with what it holds."""
    with override_settings(FDBQUEUE=one):
        fdbqueue.queue("mail").push("in one")
        with override_settings(FDBQUEUE=other):
            assert isinstance(fdbqueue.queue("mail"), PriorityQueue)
            assert fdbqueue.queue("mail").pop() is None
            assert conf.catalog().names() == ["extra", "mail"]
            fdbqueue.queue("mail").push("in the other", 1)
        assert isinstance(fdbqueue.queue("mail"), FifoQueue)
        assert fdbqueue.queue("mail").pop().value == "in one"
        with pytest.raises(QueueNotFound):
            fdbqueue.queue("extra")
        with override_settings(FDBQUEUE=other):
            assert fdbqueue.queue("mail").pop().value == "in the other"


def test_the_prefix_changes(one):
    """The same names on the same file, and nothing in common."""
    with override_settings(FDBQUEUE=one):
        fdbqueue.queue("mail").push("x")
        with override_settings(FDBQUEUE={**one, "PREFIX": ("another",)}):
            assert fdbqueue.queue("mail").pop() is None
        assert fdbqueue.queue("mail").size() == 1


def test_a_wrong_setting_is_an_error_when_it_is_used(one):
    """Not when it is set; and it is forgotten afterwards."""
    with override_settings(FDBQUEUE=one):
        with override_settings(FDBQUEUE={"NONSENSE": 1}):
            with pytest.raises(ConfigurationError):
                fdbqueue.queue("mail")
            with pytest.raises(ConfigurationError):
                conf.api()
        assert fdbqueue.queue("mail").pop() is None


@pytest.mark.parametrize("is_used", [False, True])
def test_the_file_is_closed_at_the_end(one, other, tmp_path, is_used):
    """At once, also where somebody still has a queue of it; who uses that opens it again."""
    with override_settings(FDBQUEUE=one):
        with override_settings(FDBQUEUE=other):
            kept = fdbqueue.queue("mail")
            if is_used:
                kept.push("x", 1)
                assert any(str(tmp_path / "other") in name for name in open_files())
        assert not any(str(tmp_path / "other") in name for name in open_files())
        if is_used:
            assert kept.pop().value == "x"
        kept.database.close()


def test_the_outer_file_is_closed_meanwhile(one, other, tmp_path):
    """A block holds the files of its own setting open, and no others."""
    with override_settings(FDBQUEUE=one):
        fdbqueue.queue("mail").push("x")
        with override_settings(FDBQUEUE=other):
            assert not any(str(tmp_path / "one") in name for name in open_files())
        assert fdbqueue.queue("mail").pop().value == "x"


def test_a_database_is_the_same_as_long_as_somebody_has_it(one):
    """A file has one database object in a process, whichever setting names it."""
    with override_settings(FDBQUEUE=one):
        database = conf.database()
        with override_settings(FDBQUEUE={**one, "API": {"MAX_LIMIT": 7}}):
            assert conf.database() is database
        assert conf.database() is database
        assert embedded.open(one["OPTIONS"]["path"], durability="normal") is database


def test_who_waits_goes_on_waiting(one, other):
    """Another thread's wait survives it, and its item comes."""
    with override_settings(FDBQUEUE=one), ThreadPoolExecutor(1) as pool:
        queue = fdbqueue.queue("mail")
        waiting = pool.submit(queue.pop, wait=LONG_SECONDS)
        with override_settings(FDBQUEUE=other):
            fdbqueue.queue("mail").push("not this", 1)
        fdbqueue.queue("mail").push("this")
        assert waiting.result(LONG_SECONDS).value == "this"


def test_it_holds_in_all_threads(one, other):
    """The setting is the process's."""
    with override_settings(FDBQUEUE=one):
        conf.catalog()
        with override_settings(FDBQUEUE=other):
            found = []
            thread = threading.Thread(target=lambda: found.append(conf.catalog()))
            thread.start()
            thread.join(LONG_SECONDS)
            assert found == [conf.catalog()]
            assert found[0].names() == ["extra", "mail"]


def test_it_holds_in_coroutines(one, other):
    """Also in those that run in other threads for a while."""

    async def work():
        await fdbqueue.queue("mail").apush("in one")
        with override_settings(FDBQUEUE=other):
            assert await fdbqueue.queue("mail").apop() is None
        assert (await fdbqueue.queue("mail").apop()).value == "in one"

    with override_settings(FDBQUEUE=one):
        asyncio.run(work())


@pytest.mark.django_db
def test_the_rest_api_and_the_commands_hear_of_it(one, other, admin_user, capsys):
    """They ask for the setting each time."""
    client = APIClient()
    client.force_authenticate(admin_user)
    with override_settings(FDBQUEUE=one):
        assert client.get("/api/queues/extra/").status_code == 404
        assert deadlines.limited_catalog(5).names() == ["mail"]
        with override_settings(FDBQUEUE=other):
            assert client.get("/api/queues/extra/").status_code == 200
            assert deadlines.limited_catalog(5).names() == ["extra", "mail"]
            call_command("queue_list")
            assert "extra" in capsys.readouterr().out
        assert client.get("/api/queues/extra/").status_code == 404
        call_command("queue_list")
        assert "extra" not in capsys.readouterr().out


def test_a_change_that_nobody_tells_of_is_noticed(one, other, settings):
    """Whoever takes the setting away, or puts another in its place."""
    settings.FDBQUEUE = one
    fdbqueue.queue("mail").push("x")
    del settings.FDBQUEUE
    for ask in (conf.catalog, conf.api):
        with pytest.raises(ConfigurationError):
            ask()
    holder = SimpleNamespace(FDBQUEUE=other)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conf, "settings", holder)
        assert conf.catalog().names() == ["extra", "mail"]
        holder.FDBQUEUE = one
        assert fdbqueue.queue("mail").pop().value == "x"


def test_a_catalog_that_is_made_too_late_is_not_that_of_the_next_setting(one, other):
    """A thread is still at it when the setting changes back, or to another."""
    making, go_on = threading.Event(), threading.Event()
    options = {"making": making, "go_on": go_on, "options": one["OPTIONS"]}
    slow = {**one, "ENGINE": "tests.django.slow_engine", "OPTIONS": options}
    with ThreadPoolExecutor(1) as pool, override_settings(FDBQUEUE=slow):
        late = pool.submit(conf.catalog)
        assert making.wait(LONG_SECONDS)
        with override_settings(FDBQUEUE=other):
            assert conf.api().max_limit == 1_000  # so the change has been noticed
            go_on.set()
            assert late.result(LONG_SECONDS).names() == ["mail"]
            assert conf.catalog().names() == ["extra", "mail"]


def test_a_database_that_stays_is_not_closed(one, other, settings):
    """Not when the next setting has the same, or goes around it; when it goes, it is."""
    database = OwnDatabase(embedded.open(one["OPTIONS"]["path"], durability="normal"))
    own = {**one, "ENGINE": "tests.django.same_engine", "OPTIONS": {"database": database}}
    with override_settings(FDBQUEUE=own):
        fdbqueue.queue("mail").push("x")
        with override_settings(FDBQUEUE={**own, "API": {"MAX_LIMIT": 7}}):
            assert fdbqueue.queue("mail").size() == 1
        with injection.unknown_outcome(took_effect=True), injection.engine_unavailable() as faulty:
            faulty.is_available = True
            fdbqueue.queue("mail").push("y")
        assert fdbqueue.queue("mail").size() == 2
        assert database.closed == 0
        with override_settings(FDBQUEUE=other):
            assert database.closed == 1
        assert fdbqueue.queue("mail").size() == 2
    database.close()


def test_other_settings_change_nothing(one):
    """The catalog stays as it is, and so do its queues."""
    with override_settings(FDBQUEUE=one):
        catalog = conf.catalog()
        with override_settings(USE_TZ=False), modify_settings(INSTALLED_APPS={"remove": "x"}):
            assert conf.catalog() is catalog
        assert conf.catalog() is catalog


def test_an_engine_that_cannot_be_closed_need_not_be(one, settings, monkeypatch):
    """A cluster's database has nothing to close."""
    opened = []

    def open_one():
        opened.append(SimpleNamespace(create_transaction=None))
        return opened[-1]

    monkeypatch.setattr("tests.django.own_engine.open", open_one)
    with override_settings(FDBQUEUE={**one, "ENGINE": "tests.django.own_engine", "OPTIONS": {}}):
        assert conf.database() is opened[-1]
