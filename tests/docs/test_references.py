"""The reference tables say what the code says, and leave nothing out."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import re

import pytest
import yaml

from fdbqueue import conf, exceptions
from fdbqueue.api import errors as api_errors
from fdbqueue.engines import client_library, embedded, foundationdb
from fdbqueue.management import exit_codes
from fdbqueue.service import options as queue_options
from fdbqueue.service.options import Choice, Range
from fdbqueue.tasks import options as task_options
from fdbqueue.tasks.options import FdbQueueTask
from tests.docs import options
from tests.docs.blocks import ROOT, Page
from tests.docs.tables import code, table

SETTINGS, ERRORS = Page("docs/settings.md"), Page("docs/errors.md")
PERMISSIONS = {f"fdbqueue.{verb}_queue" for verb in ("view", "push", "pop", "lease", "manage")}


def classes(kind=exceptions.FdbQueueError):
    """Return an error's class and those below it, as they are declared."""
    below = [sub for sub in kind.__subclasses__() if sub.__module__ == exceptions.__name__]
    return [kind, *(one for sub in below for one in classes(sub))]


def value_of(cell):
    """Return the value that a cell of defaults states."""
    return eval(cell.strip("`").replace(",", "") if cell[0].isdigit() else cell.strip("`"))


def test_the_settings_keys_are_all_there():
    """Each key of ``FDBQUEUE`` has a row."""
    rows = table(SETTINGS, "key", "type", "what", "default")
    assert {code(row["key"]) for row in rows} == conf._RULES.keys()


def test_the_options_of_queues_are_all_there():
    """Each has a row with its default, its choices and its range."""
    rows = {code(row["option"]): row for row in table(SETTINGS, "option", "type")}
    assert rows.keys() == {"kind", "subspace", *queue_options.ALLOWED}
    defaults = {
        field.name: field.default for field in dataclasses.fields(queue_options.QueueOptions)
    }
    assert defaults.keys() == queue_options.ALLOWED.keys()
    for option, allowed in queue_options.ALLOWED.items():
        row = rows[option]
        assert value_of(row["default"]) == defaults[option], option
        if isinstance(allowed, Choice):
            assert tuple(re.findall(r'"(\w+)"', row["type"])) == allowed.texts
        elif isinstance(allowed, queue_options.RateText):
            (example,) = re.findall(r'"([^"]+)"', row["type"])
            assert example in allowed
            assert "`None`" in row["type"]
        else:
            assert f"{allowed.least:,} to {allowed.most:,}" in row["type"]
            assert ("`None`" in row["type"]) == allowed.none_is_valid


def test_the_keys_of_the_api_are_all_there():
    """Each has a row with its default and its range."""
    rows = {code(row["key of `API`"]): row for row in table(SETTINGS, "key of `API`")}
    assert rows.keys() == conf._API_RULES.keys()
    for field in dataclasses.fields(conf.ApiOptions):
        assert value_of(rows[field.name.upper()]["default"]) == field.default
    for key, numbers in ranges(conf._API_RULES).items():
        assert f"{numbers.least:,} to {numbers.most:,}" in rows[key]["type"]


def ranges(rules):
    """Return the ranges of the keys of a table that are numbers."""
    return {key: rule.allowed for key, rule in rules.items() if isinstance(rule.allowed, Range)}


@pytest.mark.parametrize("engine", [embedded, foundationdb], ids=lambda engine: engine.__name__)
def test_the_options_of_engines_are_all_there(engine):
    """Each argument of ``open()`` has a row with its default."""
    rows = [row for row in table(SETTINGS, "engine") if code(row["engine"]) == engine.__name__]
    parameters = inspect.signature(engine.open).parameters
    assert [code(row["option"]) for row in rows] == list(parameters)
    for row, parameter in zip(rows, parameters.values(), strict=True):
        if parameter.default is inspect.Parameter.empty:
            assert row["default"] == "required"
        else:
            assert value_of(row["default"]) == parameter.default


def test_the_files_of_the_client_library_are_all_there():
    """Each file that an error can name is in the table, and the table names no other."""
    rows = table(Page("docs/engines.md"), "system", "file")
    told = set(re.findall(r"`((?:foundationdb-clients|libfdb_c\.|FoundationDB-)[^`]+)`", str(rows)))
    families = [frozenset({"debian"}), frozenset({"fedora"}), frozenset()]
    systems = itertools.product(["Linux"], ["x86_64", "aarch64"], families)
    macs = itertools.product(["Darwin"], ["x86_64", "arm64"], [frozenset()])
    texts = [client_library.instruction(*one, "7.3.79") for one in [*systems, *macs]]
    assert told == {re.findall(r"/download/7.3.79/(\S+)", text)[0] for text in texts}


def test_the_checks_are_all_there():
    """Each id that the code can report has a row."""
    rows = {code(row["id"]) for row in table(SETTINGS, "id")}
    sources = "".join(path.read_text() for path in (ROOT / "fdbqueue").rglob("*.py"))
    assert rows == set(re.findall(r'"(fdbqueue\.[EW]\d{3})"', sources))


def test_the_checks_of_tasks_are_all_there():
    """Each id that the backend, the outbox and the schedules can report has a row."""
    rows = {code(row["check of tasks"]) for row in table(SETTINGS, "check of tasks")}
    sources = "".join(path.read_text() for path in (ROOT / "fdbqueue" / "tasks").rglob("*.py"))
    reported = set(re.findall(r'"(?:fdbqueue\.tasks\.)?([EW]\d{3})"', sources))
    assert rows == {f"fdbqueue.tasks.{number}" for number in reported}


def test_the_options_of_tasks_are_all_there():
    """Those of the backend have rows with their ranges and defaults, those of a task rows."""
    rows = {code(row["key of `OPTIONS`"]): row for row in table(SETTINGS, "key of `OPTIONS`")}
    defaults = dataclasses.asdict(task_options.BackendOptions())
    assert rows.keys() == defaults.keys()
    for name, numbers in ranges(task_options.RULES).items():
        assert f"{numbers.least:,} to {numbers.most:,}" in rows[name]["type"]
        assert value_of(rows[name]["default"]) == defaults[name], name
    for name in ("queue_prefix", "enqueue_on_commit", "schedules"):
        assert value_of(rows[name]["default"]) == defaults[name], name
    days = [f"{seconds / 86_400:.0f} days" for seconds in defaults["retention"].values()]
    assert rows["retention"]["default"] == f"{days[0]}, and {days[1]}"
    names = {field.name for field in dataclasses.fields(FdbQueueTask)}
    names -= {field.name for field in dataclasses.fields(FdbQueueTask.__base__)}
    assert {code(row["option"]) for row in table(SETTINGS, "option", "what")} == names


def test_the_errors_are_all_there():
    """Each class has a row: its code, its status, its exit code, its text; a nested one a sign."""
    rows = {code(row["class"]): row for row in table(ERRORS, "class")}
    assert list(rows) == [kind.__name__ for kind in classes()]
    for kind in classes():
        row = rows[kind.__name__]
        assert code(row["code"]) == kind.code
        assert int(row["HTTP"]) == api_errors.handle(kind(), {}).status_code
        assert int(row["exit"]) == exit_codes.exit_code(kind())
        assert row["text"] == str(kind())
        assert row["class"].startswith("↳") == (exceptions.FdbQueueError not in kind.__mro__[:2])


def test_the_errors_to_retry_are_named():
    """The page names the classes that are retryable, and no other."""
    (sentence,) = re.findall(r"`retryable` if [^:]+: ([^.]+) are\.", ERRORS.text)
    assert re.findall(r"`(\w+)`", sentence) == [one.__name__ for one in classes() if one.retryable]


@pytest.mark.parametrize("number", [1031, 2015, 2101, 1036, 1510])
def test_foundationdbs_errors_have_the_status_that_is_said(number):
    """Over REST and as an exit code."""
    (row,) = [row for row in table(ERRORS, "code", "name") if row["code"] == str(number)]
    response = api_errors.handle(embedded.FDBError(number), {})
    assert row["HTTP"] == f"{response.status_code} `{response.data['code']}`"
    assert int(row["exit"]) == exit_codes.exit_code(embedded.FDBError(number))


def test_the_exit_codes_are_all_there():
    """Each that a command can end with has a row."""
    rows = {int(row["code"]) for row in table(Page("docs/commands.md"), "code", "meaning")}
    codes = {
        exit_codes.FAILED,
        exit_codes.USAGE,
        exit_codes.NO_SUCH_QUEUE,
        exit_codes.UNAVAILABLE,
        exit_codes.INTERRUPTED,
    }
    assert rows == {0, *codes}


def test_the_commands_are_all_there():
    """Each has a section."""
    shown = {found["name"] for page in options.PAGES for found in options.PLACE.finditer(page.text)}
    assert shown == options.commands().keys()


@pytest.mark.parametrize("page", options.PAGES, ids=lambda page: page.path)
def test_the_arguments_of_commands_are_as_help_says(page):
    """The page has what the commands say now; ``python -m tests.docs.options`` writes it."""
    assert options.rendered(page.text) == page.text


def test_the_addresses_are_all_there():
    """Each operation of the schema has a row with its permission and its success statuses."""
    rows = {code(row["request"]): row for row in table(Page("docs/rest-api.md"), "request")}
    schema = yaml.safe_load((ROOT / "docs" / "openapi.yaml").read_text(encoding="utf-8"))
    operations = {
        f"{verb.upper()} {path.removeprefix('/api/')}": operation
        for path, verbs in schema["paths"].items()
        for verb, operation in verbs.items()
    }
    assert rows.keys() == operations.keys()
    for name, operation in operations.items():
        success = {status for status in operation["responses"] if status.startswith("2")}
        assert set(re.findall(r"\b2\d\d\b", rows[name]["success"])) == success, name
        assert code(rows[name]["permission"]) in PERMISSIONS


def test_the_figures_of_the_readme_are_those_of_their_sources():
    """The packages are as many as are pinned, and the time of the tests is as CONTRIBUTING says."""
    readme, contributing = Page("README.md").text, Page("CONTRIBUTING.md").text
    pinned = (ROOT / "requirements.txt").read_text(encoding="utf-8").count("==")
    assert f"installs {pinned} packages" in readme
    minutes = [
        re.findall(r"make test .*?(some \w+ minutes)", text) for text in (readme, contributing)
    ]
    assert minutes[0] == minutes[1] != []
