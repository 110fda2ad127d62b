"""What is wrong with the setting: each system check has an id and a hint."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.core.checks import WARNING, run_checks
from django.test import override_settings

import fdbqueue
from fdbqueue import checks, conf
from fdbqueue.exceptions import ConfigurationError
from fdbqueue.tasks.backend import FdbQueueBackend
from fdbqueue.tasks.checks import check_app
from fdbqueue.tasks.compat import ImmediateBackend, task_backends
from tests.api import rules
from tests.cases import cases


def test_a_valid_setting_has_no_problems(setting):
    """Nothing is reported, and the engine's file is not even created."""
    with override_settings(FDBQUEUE=setting, DEBUG=True):
        assert [m for m in run_checks() if (m.id or "").startswith("fdbqueue")] == []
    assert not setting["OPTIONS"]["path"].exists()


WRONG_OPTIONS = [
    ("E010", "order", ["commits", "loose", None, 1, ["count"]]),
    ("E013", "shards", [1, 101, -1, 4.0, "4", True]),
    ("E013", "choices", [0, 101, "2", True, 2]),
    (
        "E013",
        "handoff_timeout_seconds",
        [0, 0.09, 86_401, -1, math.nan, math.inf, "30", None, True],
    ),
    ("E013", "max_attempts", [0, 1_000_001, -1, 5.0, "5", True]),
    ("E013", "max_value_bytes", [0, 1_000_001, -1, 1e5, "100000", None, True]),
    ("E013", "max_leased", [0, 1_000_001, -1, 5.0, "5", True, 10**30]),
    ("E013", "rate", ["", "100", "0/s", "1000001/s", "-1/m", "1/w", "1.5/s", 100, True, (1, "s")]),
    ("E013", "burst", [0, 1_000_001, -1, 5.0, "5", True, 5]),
]
WRONG_API_OPTIONS = {
    "IDEMPOTENCY_SECONDS": [0, 0.9, 31_536_001, -1, math.nan, math.inf, "86400", None, True],
    "MAX_BODY_BYTES": [0, 999, 100_000_001, 1e6, "5000000", None, True],
    "MAX_LIMIT": [0, 1_001, -1, 10.0, "100", None, True],
    "MAX_WAITING": [-1, 100_001, 16.0, "16", None, True],
    "MAX_WAITING_PER_USER": [-1, 100_001, 16.0, "16", True],
    "MAX_WAIT_SECONDS": [-1, 3_601, math.nan, math.inf, "20", None, True],
    "TIMEOUT_SECONDS": [0, 0.09, 3_601, math.nan, math.inf, "5", None, True],
}
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
    ("E006", "PREFIX", (1j,)),
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
    ("E012", "QUEUES", {"a": {"kind": "fifo", "subspace": ("fdbqueue", "receipt")}}),
    ("E012", "QUEUES", {"a": {"kind": "fifo", "subspace": ("fdbqueue", "receipt", 1)}}),
    ("E014", "API", None),
    ("E014", "API", ["MAX_LIMIT"]),
    ("E014", "API", "MAX_LIMIT"),
    ("E014", "API", {"max_limit": 10}),
    ("E014", "API", {"EXTRA": 1}),
    ("E014", "API", {7: 1}),
    *(
        ("E015", "API", {key: value})
        for key, values in WRONG_API_OPTIONS.items()
        for value in values
    ),
    ("E016", "API", {"AUTHORIZER": "tests.api.no_such_module.may"}),
    ("E016", "API", {"AUTHORIZER": "tests.api.rules.no_such_function"}),
    ("E016", "API", {"AUTHORIZER": "tests.api.rules.not_callable"}),
    ("E016", "API", {"AUTHORIZER": "tests.django.broken_module.may"}),
    ("E016", "API", {"AUTHORIZER": "may"}),
    ("E016", "API", {"AUTHORIZER": ""}),
    ("E016", "API", {"AUTHORIZER": 7}),
    ("E016", "API", {"AUTHORIZER": rules.may_everything}),
    *(
        (number, "QUEUES", {"mail": {"kind": kind, option: value}})
        for kind, (number, option, values) in itertools.product(["fifo", "priority"], WRONG_OPTIONS)
        for value in values
    ),
]


@cases(("number", "key", "value"), PROBLEMS)
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


def test_each_key_of_the_api_is_looked_at(setting):
    """All that is wrong is said at once, each with the numbers or the keys there may be."""
    options = {
        **{key: values[0] for key, values in WRONG_API_OPTIONS.items()},
        "EXTRA": 1,
        "OTHER": 2,
        "AUTHORIZER": "nowhere.may",
    }
    with override_settings(FDBQUEUE={**setting, "API": options}, DEBUG=True):
        found = [m for m in run_checks() if (m.id or "").startswith("fdbqueue")]
    assert sorted(message.id for message in found) == [
        *["fdbqueue.E014"] * 2,
        *["fdbqueue.E015"] * 7,
        "fdbqueue.E016",
    ]
    texts = {message.msg: message.hint for message in found}
    assert texts["API has the MAX_LIMIT 0."] == "It must be a whole number from 1 to 1,000."
    keys = (
        "AUTHORIZER, IDEMPOTENCY_SECONDS, MAX_BODY_BYTES, MAX_LIMIT, MAX_WAITING, "
        "MAX_WAITING_PER_USER, MAX_WAIT_SECONDS, TIMEOUT_SECONDS"
    )
    assert texts["API has an unknown key, 'EXTRA'."] == f"The keys are {keys}."


def test_a_wrong_api_is_no_open_api(setting):
    """What is wrong in API closes the queues as well: nobody is let in by mistake."""
    wrong = {**setting, "API": {"AUTHORIZER": "nowhere.may"}}
    with override_settings(FDBQUEUE=wrong), pytest.raises(ConfigurationError) as caught:
        conf.api()
    assert caught.value.context["id"] == "fdbqueue.E016"


@cases("wrong", [None, ["mail"], "mail"])
@cases("debug", [True, False])
def test_a_setting_that_is_no_dictionary(wrong, debug):
    """It is E001 alone: the checks of other apps do not stumble over it."""
    with override_settings(FDBQUEUE=wrong, DEBUG=debug):
        ids = [m.id for m in run_checks() if (m.id or "").startswith("fdbqueue.E")]
        assert ids == ["fdbqueue.E001"]
        assert conf.own_names() == []


@pytest.mark.parametrize(
    ("engine", "hint"),
    [
        ("embedded", "The embedded engine takes {'path': BASE_DIR / 'queues.sqlite3'}."),
        ("foundationdb", "FoundationDB takes {'cluster_file': '/etc/foundationdb/fdb.cluster'}."),
    ],
)
def test_refused_options_have_an_example(engine, hint):
    """The hint of E004 is about the engine that the setting has."""
    wrong = {"ENGINE": f"fdbqueue.engines.{engine}", "OPTIONS": {"nope": 1}}
    (found,) = conf.problems(wrong)
    assert (found.id, found.hint) == ("fdbqueue.E004", hint)


@cases(
    ("part", "wrong", "meant"),
    [
        ({}, {"queues": {}}, "QUEUES"),
        ({}, {"ENGIN": "x"}, "ENGINE"),
        ({"ENGINE": "fdbqueue.engine.embeded"}, {}, "fdbqueue.engines.embedded"),
        ({"OPTIONS": {"pth": "/q"}}, {}, "path"),
        (
            {"ENGINE": "fdbqueue.engines.foundationdb", "OPTIONS": {"clusterfile": "/q"}},
            {},
            "cluster_file",
        ),
        ({"QUEUES": {"mail": {"kind": "fifo", "max_attempt": 3}}}, {}, "max_attempts"),
        ({"QUEUES": {"mail": {"kind": "fifo", "subspaces": ("P",)}}}, {}, "subspace"),
        ({"API": {"MAXLIMIT": 10}}, {}, "MAX_LIMIT"),
    ],
)
def test_a_wrong_key_is_answered_with_the_one_most_like_it(setting, part, wrong, meant):
    """Whichever part of the setting it is in, and whatever its case."""
    (found,) = conf.problems({**setting, **part, **wrong})
    assert found.hint.startswith(f"Did you mean {meant!r}? ")


@pytest.mark.parametrize("key", ["nope", 7, "x" * 10_000])
def test_a_wrong_key_that_is_like_none_is_answered_with_all(setting, key):
    """Nothing is guessed."""
    (found,) = conf.problems({**setting, key: 1})
    assert found.hint == "The keys are API, ENGINE, OPTIONS, PAGES, PREFIX, QUEUES."


_WITHOUT_SQLITE = """
import sys
from django.conf import settings
from django.core.management import execute_from_command_line
sys.modules["_sqlite3"] = None
settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes", "fdbqueue"],
    FDBQUEUE={"OPTIONS": {"path": "/nowhere/queues"}},
)
execute_from_command_line(["manage.py", *sys.argv[1:]])
"""


@pytest.mark.parametrize("command", ["check", "queue_list", "queue_doctor"])
def test_a_python_without_sqlite_is_told_what_to_use(command):
    """The embedded engine is not, since that is what cannot be imported; nothing else fails."""
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_SQLITE, command],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    shown = done.stdout + done.stderr
    assert "Traceback" not in shown
    assert "fdbqueue.E003" in shown
    hint = "Use a Python that was built with SQLite, or 'fdbqueue.engines.foundationdb'."
    assert hint in shown


def test_a_path_that_cannot_be_a_file_is_warned_of(setting, tmp_path):
    """W005 shows for a folder, and for a file in a folder that does not exist."""

    def warned(path):
        with override_settings(FDBQUEUE={**setting, "OPTIONS": {"path": path}}, DEBUG=True):
            return [found.msg for found in run_checks() if found.id == "fdbqueue.W005"]

    (folder,) = warned(tmp_path)
    assert folder.endswith("is a folder.")
    (missing,) = warned(tmp_path / "none" / "queues.sqlite3")
    assert missing.endswith("is in a folder that does not exist.")
    assert warned(tmp_path / "queues.sqlite3") == []


class OwnBackend(FdbQueueBackend):
    """A backend that a project has made from that of fdbqueue."""


@pytest.mark.parametrize(
    "path", ["fdbqueue.tasks.FdbQueueBackend", "tests.django.test_checks.OwnBackend"]
)
def test_a_task_backend_without_its_app_is_found(setting, path):
    """The check says so, and the backend's own check does not say it again."""
    apps = [app for app in settings.INSTALLED_APPS if app != "fdbqueue.tasks"]
    tasks = {"default": {"BACKEND": path}, "other": {"BACKEND": "nowhere.Backend"}}
    with override_settings(INSTALLED_APPS=apps, FDBQUEUE=setting, TASKS=tasks, DEBUG=True):
        found = [one for one in check_app() if one.id == "fdbqueue.tasks.E001"]
        assert [one.hint for one in found] == ["Add 'fdbqueue.tasks' to INSTALLED_APPS."]
        assert task_backends["default"].check() == []
    with override_settings(INSTALLED_APPS=[*apps, "fdbqueue.tasks"], TASKS=tasks):
        assert check_app() == []


_ENQUEUE = """
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes", "fdbqueue"],
    FDBQUEUE={"OPTIONS": {"path": "/nowhere/queues"}},
    TASKS={"default": {"BACKEND": "fdbqueue.tasks.FdbQueueBackend"}},
)
django.setup()
from tests.tasks import jobs
jobs.note.enqueue(1)
"""


def test_a_task_that_is_enqueued_without_the_app_says_so():
    """In place of a queue that is not found."""
    command = [sys.executable, "-c", _ENQUEUE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.splitlines()[-1] == (
        "django.core.exceptions.ImproperlyConfigured: The task backend 'default' needs the app "
        "'fdbqueue.tasks': add it to INSTALLED_APPS."
    )


@pytest.mark.parametrize(
    "tasks", [None, [], {"default": None}, {"default": {}}, {"a": {"BACKEND": 7}}]
)
def test_a_setting_of_tasks_that_is_not_ours_is_left_alone(tasks):
    """Django says what is wrong with it."""
    apps = [app for app in settings.INSTALLED_APPS if app != "fdbqueue.tasks"]
    with override_settings(INSTALLED_APPS=apps, TASKS=tasks):
        assert check_app() == []


@pytest.mark.parametrize(
    ("tasks", "is_warned"),
    [
        (None, True),
        ({"default": {"BACKEND": f"{ImmediateBackend.__module__}.ImmediateBackend"}}, True),
        ({"other": {"BACKEND": "tests.django.test_checks.OwnBackend"}}, False),
    ],
)
def test_the_app_of_tasks_without_a_backend_is_warned_of(setting, tasks, is_warned):
    """W003 says that Django runs the tasks, and how to set a backend."""
    apps = [*settings.INSTALLED_APPS, "fdbqueue.tasks"]
    given = {} if tasks is None else {"TASKS": tasks}
    with override_settings(INSTALLED_APPS=apps, FDBQUEUE=setting, **given):
        found = [one for one in run_checks() if one.id == "fdbqueue.tasks.W003"]
    assert [one.level for one in found] == [WARNING] * is_warned
    assert all("'fdbqueue.tasks.FdbQueueBackend'" in one.hint for one in found)


def test_a_path_that_depends_on_the_folder_is_warned_of(setting):
    """W003 shows for a relative path of the embedded engine, and only then."""

    def warned(options, engine="embedded"):
        wrong = {**setting, "ENGINE": f"fdbqueue.engines.{engine}", "OPTIONS": options}
        with override_settings(FDBQUEUE=wrong, DEBUG=True):
            return "fdbqueue.W003" in [message.id for message in run_checks()]

    assert warned({"path": "queues.sqlite3"})
    assert warned({"path": Path("var/queues.sqlite3")})
    assert not warned({"path": Path("queues.sqlite3").absolute()})
    assert not warned({"path": 3})
    assert not warned({})
    assert not warned({"path": "queues.sqlite3"}, "foundationdb")


@cases(
    ("mounts", "environment", "text"),
    [
        ("ext4 /\nnfs4 /srv", {}, "network file system, nfs4"),
        ("nfs /srv\next4 /srv/queues", {}, None),
        ("nfs /srv/my\\040files\next4 /", {}, None),
        ("ext4 /\nfuse.sshfs /srv/queues", {}, "network file system, fuse.sshfs"),
        ("ext4 /srv\ncifs /srv", {}, "network file system, cifs"),  # the last covers it
        ("cifs /srv\next4 /srv", {}, None),
        ("ext4 /\nnfs /srv/que", {}, None),
        ("ext4 /", {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "on Kubernetes"),
        ("ext4 /", {"DYNO": "web.1"}, "on Heroku"),
        ("", {}, None),
    ],
)
def test_a_file_where_it_would_harm(setting, mounts, environment, text, monkeypatch, tmp_path):
    """W001 shows on a network file system, and where there are several machines; else never."""
    listed = tmp_path / "mounts"
    lines = [line.split() for line in mounts.splitlines()]
    listed.write_text("".join(f"device {place} {kind} rw 0 0\n" for kind, place in lines))
    options = {"path": "/srv/queues/queues.sqlite3"}
    with monkeypatch.context() as patch:
        patch.setattr("fdbqueue.checks._MOUNTS", listed)
        for name in checks._PLATFORMS:
            patch.delenv(name, raising=False)
        for name, value in environment.items():
            patch.setenv(name, value)
        for debug in (True, False):
            with override_settings(FDBQUEUE={**setting, "OPTIONS": options}, DEBUG=debug):
                found = [one for one in run_checks() if one.id == "fdbqueue.W001"]
            assert [text in one.msg for one in found] == ([] if text is None else [True])
            cluster = {**setting, "ENGINE": "fdbqueue.engines.foundationdb", "OPTIONS": {}}
            with override_settings(FDBQUEUE=cluster, DEBUG=debug):
                assert "fdbqueue.W001" not in [one.id for one in run_checks()]


def test_a_machine_without_a_list_of_mounts(setting, monkeypatch, tmp_path):
    """As on macOS, where nothing is said of file systems."""
    monkeypatch.setattr("fdbqueue.checks._MOUNTS", tmp_path / "missing")
    with override_settings(FDBQUEUE=setting, DEBUG=False):
        assert "fdbqueue.W001" not in [one.id for one in run_checks()]


# With a database


def compared(setting, databases):
    """Return what the checks say of the settings that queues are written under."""
    with override_settings(FDBQUEUE=setting, DEBUG=True):
        found = run_checks(databases=databases)
    return [message for message in found if message.id in {"fdbqueue.E017", "fdbqueue.W004"}]


def test_other_settings_are_an_error_where_a_database_may_be_asked(setting):
    """E017 names both; nothing is read without --database."""
    with override_settings(FDBQUEUE=setting):
        fdbqueue.queue("quakes").push("a", priority=1.5)
        fdbqueue.queue("mail").push("b")
    assert compared(setting, ["default"]) == []
    queues = {**setting["QUEUES"], "quakes": {"kind": "priority", "priority_type": "int"}}
    wrong = {**setting, "QUEUES": queues}
    assert compared(wrong, None) == []
    (error,) = compared(wrong, ["default"])
    assert error.id == "fdbqueue.E017"
    assert "'quakes' was written under priority_type float" in error.msg
    assert "the setting says priority_type int" in error.msg
    assert "queue_doctor quakes --adopt-settings" in error.hint


def test_an_engine_that_does_not_answer_is_a_warning(setting):
    """W004 says why; the command goes on."""
    away = {**setting, "OPTIONS": {"path": Path("/dev/null/queues.sqlite3")}}
    (warning,) = compared(away, ["default"])
    assert warning.id == "fdbqueue.W004"
    assert "could not be compared" in warning.msg


@cases(
    ("names", "hidden"),
    [
        (["user-*", "user-*-urgent"], ["user-*-urgent"]),
        (["user-*-urgent", "user-*"], []),
        (["*", "a*", "b", "*b*"], ["a*", "*b*"]),
        (["a*", "*a", "a*a"], ["a*a"]),
        (["mail", "m*"], []),
        ([7, "m*"], []),
    ],
)
def test_a_pattern_behind_a_wider_one_is_warned_of(setting, names, hidden):
    """W006 names those that no queue is of."""
    wrong = {**setting, "QUEUES": {name: {"kind": "fifo"} for name in names}}
    with override_settings(FDBQUEUE=wrong, DEBUG=True):
        found = [one.msg for one in run_checks() if one.id == "fdbqueue.W006"]
    assert [text.split("'")[1] for text in found] == hidden
