"""The FDBQUEUE setting: what it makes, what is wrong with it, and when it is read."""

from __future__ import annotations

import fdb.subspace_impl
import pytest
from django.core.checks import run_checks
from django.core.management import call_command
from django.test import override_settings

import fdbqueue
from fdbqueue import conf
from fdbqueue.engines import embedded
from fdbqueue.exceptions import ConfigurationError, QueueNotFound
from fdbqueue.service import FifoQueue, PriorityQueue

ENGINE = "fdbqueue.engines.embedded"


@pytest.fixture
def setting(tmp_path):
    """A valid setting on a file of the test's own."""
    return {
        "ENGINE": ENGINE,
        "OPTIONS": {"path": tmp_path / "q.sqlite3", "durability": "normal"},
        "PREFIX": ("fdbqueue",),
        "QUEUES": {
            "quakes": {"kind": "priority", "priority_type": "float"},
            "mail": {"kind": "fifo"},
            "legacy": {"kind": "priority", "subspace": ("P",), "codec": "bytes"},
            "user-*": {"kind": "fifo", "codec": "tuple"},
            "*-urgent": {"kind": "priority"},
        },
    }


def test_a_queue_is_as_the_setting_says(setting):
    """Kind, codec, priority type and place come from the setting."""
    with override_settings(FDBQUEUE=setting):
        quakes, legacy = fdbqueue.queue("quakes"), fdbqueue.queue("legacy")
        assert isinstance(quakes, PriorityQueue)
        assert (quakes.priority_type, quakes.codec.name, quakes.name) == ("float", "json", "quakes")
        assert isinstance(fdbqueue.queue("mail"), FifoQueue)
        assert legacy.codec.name == "bytes"
        assert legacy.subspace.key() == b"\x02P\x00"


def test_a_pattern_makes_queues_that_exist_once_pushed_to(setting):
    """A name that fits opens; it is listed while something is stored under it."""
    with override_settings(FDBQUEUE=setting):
        queue = fdbqueue.queue("user-7")
        assert queue.codec.name == "tuple"
        assert conf.catalog().names() == ["legacy", "mail", "quakes"]
        queue.push(1)
        fdbqueue.queue("user-2").push(1)
        fdbqueue.queue("fire-urgent").push(1)
        assert conf.catalog().names() == [
            "fire-urgent",
            "legacy",
            "mail",
            "quakes",
            "user-2",
            "user-7",
        ]
        queue.pop()
        assert "user-7" not in conf.catalog().names()


def test_names_come_a_page_at_a_time(setting):
    """Plain names and those that fit a pattern stand in one order, each once."""
    with override_settings(FDBQUEUE=setting):
        for name in ("user-1", "user-2", "a-urgent", "z-urgent", "mail"):
            fdbqueue.queue(name).push(1)
        everything = conf.catalog().names()
        assert everything == sorted({*everything})
        assert everything == [
            "a-urgent",
            "legacy",
            "mail",
            "quakes",
            "user-1",
            "user-2",
            "z-urgent",
        ]
        found, after = [], ""
        while page := conf.catalog().names(after=after, limit=2):
            found += page
            after = page[-1]
        assert found == everything


def test_the_first_pattern_that_fits_counts(setting):
    """A name that fits two patterns is of the one that stands first."""
    with override_settings(FDBQUEUE=setting):
        assert isinstance(fdbqueue.queue("user-urgent"), FifoQueue)


def test_listing_names_does_not_read_the_items_of_other_queues(setting):
    """A queue that fits no pattern is passed over at once, however long it is."""
    with override_settings(FDBQUEUE=setting):
        fdbqueue.queue("quakes").push_many((n, n) for n in range(3_000))
        fdbqueue.queue("user-1").push("x")
        database = conf.database()
        created = []
        create = database.create_transaction
        database.create_transaction = lambda: created.append(1) or create()
        try:
            assert conf.catalog().names() == ["legacy", "mail", "quakes", "user-1"]
        finally:
            del database.create_transaction
        assert len(created) <= 4


def test_what_others_store_among_the_queues_is_no_queue(setting):
    """Names that fit no rule, other types and keys that are no tuples are passed over."""
    with override_settings(FDBQUEUE=setting):
        place = fdb.subspace_impl.Subspace(("fdbqueue", "queue"))
        transaction = conf.database().create_transaction()
        for name in (7, "user-a b", b"user-x", None):
            transaction[place.pack((name, 1))] = b""
        transaction[place.key() + b"\x02\xff\xff"] = b""
        transaction[place.key() + b"\x03"] = b""
        transaction.commit().wait()
        fdbqueue.queue("user-z").push(1)
        assert conf.catalog().names() == ["legacy", "mail", "quakes", "user-z"]


@pytest.mark.parametrize("name", ["nope", "user", "", "user-/7", "user-" + "x" * 200, "user-*"])
def test_an_unknown_name_is_no_queue(setting, name):
    """No spec and no pattern: the error names the queue."""
    with override_settings(FDBQUEUE=setting), pytest.raises(QueueNotFound) as caught:
        fdbqueue.queue(name)
    assert caught.value.context == {"name": name}


def test_queues_do_not_see_each_other(setting):
    """Each queue has its own place under the prefix."""
    with override_settings(FDBQUEUE=setting):
        fdbqueue.queue("user-1").push("one")
        fdbqueue.queue("user-12").push("twelve")
        assert fdbqueue.queue("user-1").pop().value == "one"
        assert fdbqueue.queue("user-1").pop() is None


def test_override_settings_is_heard(setting, tmp_path):
    """A new setting takes effect at once, and the old one returns."""
    other = {**setting, "QUEUES": {"only": {"kind": "fifo"}}}
    with override_settings(FDBQUEUE=setting):
        with override_settings(FDBQUEUE=other):
            assert conf.catalog().names() == ["only"]
        assert "only" not in conf.catalog().names()
        assert conf.database() is embedded.open(tmp_path / "q.sqlite3", durability="normal")


def test_a_valid_setting_has_no_problems(setting):
    """Nothing is reported, and the engine's file is not even created."""
    with override_settings(FDBQUEUE=setting, DEBUG=True):
        assert [m for m in run_checks() if (m.id or "").startswith("fdbqueue")] == []
    assert not setting["OPTIONS"]["path"].exists()


PROBLEMS = [
    ("E001", None, ["not", "a", "dictionary"]),
    ("E002", "EXTRA", 1),
    ("E003", "ENGINE", "fdbqueue.engines.nowhere"),
    ("E003", "ENGINE", "fdbqueue.exceptions"),
    ("E004", "OPTIONS", {}),
    ("E004", "OPTIONS", {"path": ":memory:"}),
    ("E004", "OPTIONS", {"path": "q", "durability": "none"}),
    ("E005", "QUEUES", ["mail"]),
    ("E006", "PREFIX", "fdbqueue"),
    ("E006", "PREFIX", (object(),)),
    ("E007", "QUEUES", {"no spaces": {"kind": "fifo"}}),
    ("E007", "QUEUES", {"-x": {"kind": "fifo"}}),
    ("E007", "QUEUES", {7: {"kind": "fifo"}}),
    ("E008", "QUEUES", {"mail": {}}),
    ("E008", "QUEUES", {"mail": {"kind": "lifo"}}),
    ("E008", "QUEUES", {"mail": "fifo"}),
    ("E009", "QUEUES", {"mail": {"kind": "fifo", "priority_type": "int"}}),
    ("E009", "QUEUES", {"mail": {"kind": "fifo", "colour": "red"}}),
    ("E010", "QUEUES", {"mail": {"kind": "fifo", "codec": "pickle"}}),
    ("E010", "QUEUES", {"mail": {"kind": "priority", "priority_type": "decimal"}}),
    ("E011", "QUEUES", {"mail": {"kind": "fifo", "subspace": "P"}}),
    ("E011", "QUEUES", {"mail": {"kind": "fifo", "subspace": ()}}),
    ("E011", "QUEUES", {"mail-*": {"kind": "fifo", "subspace": ("P",)}}),
    (
        "E012",
        "QUEUES",
        {"a": {"kind": "fifo", "subspace": ("P",)}, "b": {"kind": "fifo", "subspace": ("P", 1)}},
    ),
    ("E012", "QUEUES", {"a": {"kind": "fifo", "subspace": ("fdbqueue",)}}),
]


@pytest.mark.parametrize(("number", "key", "value"), PROBLEMS, ids=lambda value: str(value)[:40])
def test_each_problem_has_an_id_and_a_hint(setting, number, key, value):
    """The system check reports it, and no queue opens."""
    wrong = value if key is None else {**setting, key: value}
    with override_settings(FDBQUEUE=wrong, DEBUG=True):
        found = [m for m in run_checks() if (m.id or "").startswith("fdbqueue")]
        assert [message.id for message in found] == [f"fdbqueue.{number}"]
        assert all(message.hint for message in found)
        with pytest.raises(ConfigurationError) as caught:
            fdbqueue.queue("mail")
    assert caught.value.context["id"] == f"fdbqueue.{number}"


def test_a_missing_setting_has_no_queues(settings):
    """Without FDBQUEUE the engine's path is asked for."""
    del settings.FDBQUEUE
    with pytest.raises(ConfigurationError):
        fdbqueue.queue("mail")


def test_the_embedded_engine_without_debug_is_warned_of(setting):
    """W001 shows with DEBUG off and the embedded engine, and only then."""

    def warned():
        return "fdbqueue.W001" in [message.id for message in run_checks()]

    with override_settings(FDBQUEUE=setting, DEBUG=False):
        assert warned()
    with override_settings(FDBQUEUE=setting, DEBUG=True):
        assert not warned()
    cluster = {**setting, "ENGINE": "fdbqueue.engines.foundationdb", "OPTIONS": {}}
    with override_settings(FDBQUEUE=cluster, DEBUG=False):
        assert not warned()


def test_an_engine_may_be_a_projects_own(setting, tmp_path):
    """ENGINE is a path to any module with open(); its OPTIONS are its own."""
    own = {**setting, "ENGINE": "tests.django.own_engine", "OPTIONS": {"folder": tmp_path}}
    with override_settings(FDBQUEUE=own, DEBUG=True):
        assert [m for m in run_checks() if (m.id or "").startswith("fdbqueue")] == []
        fdbqueue.queue("mail").push("x")
        assert fdbqueue.queue("mail").pop().value == "x"
    assert (tmp_path / "own.sqlite3").exists()


@pytest.mark.django_db
def test_the_demo_fills_the_queue_once(setting, capsys):
    """The demo command pushes the earthquakes when the queue is empty, and only then."""
    with override_settings(FDBQUEUE=setting, DEBUG=True):
        call_command("demo")
        call_command("demo")
        assert capsys.readouterr().out.count("Pushed 1707 earthquakes") == 1
        assert len(list(fdbqueue.queue("quakes"))) == 1707
        assert fdbqueue.queue("quakes").peek_max().priority == 6.4


@pytest.mark.django_db
def test_the_demo_user_exists_only_with_debug(setting, django_user_model):
    """Its password is known to all, so it is never made in production."""
    from django.core.management.base import CommandError

    with override_settings(FDBQUEUE=setting, DEBUG=False):
        with pytest.raises(CommandError):
            call_command("demo")
        assert not django_user_model.objects.exists()
    with override_settings(FDBQUEUE=setting, DEBUG=True):
        call_command("demo", verbosity=0)
    user = django_user_model.objects.get(username="demo")
    assert user.check_password("demo")
    assert user.has_perms([f"fdbqueue.{verb}_queue" for verb in ("view", "push", "pop", "lease")])
