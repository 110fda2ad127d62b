"""Exit codes: each error of the tree, and the commands that end with them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from django.core.management import load_command_class
from django.core.management.base import CommandError

import fdbqueue
from fdbqueue import exceptions
from fdbqueue.engines import embedded
from fdbqueue.management.exit_codes import Interrupted, OutputFailed, command_error, exit_code
from tests.cases import cases
from tests.commands.conftest import ROOT

#: What each positional argument is in these tests.
VALUES = {
    "name": "mail",
    "names": "mail",
    "to": "user-1",
    "id": "FQEBDbYb3GbgT4gq4jbixKtEGZ-DxqMA",
    "ids": "FQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQA",
}
#: Options without which a command does nothing.
MORE = {
    "queue_give_back": ["--all"],
    "queue_work": ["--handler=tests.commands.handlers.note", "--until-empty"],
}


def call_of(command):
    """Return a call of a command with the arguments that it needs, and no question."""
    actions = load_command_class("fdbqueue", command).create_parser("manage.py", command)._actions
    needed = [
        VALUES[action.dest]
        for action in actions
        if action.dest in VALUES and not action.option_strings
    ]
    asks = command != "queue_drain" and any(action.dest == "interactive" for action in actions)
    more = MORE.get(command, [])
    return [command, *needed, *(["--no-input"] if asks else []), *more]


COMMANDS = sorted(path.stem for path in (ROOT / "fdbqueue/management/commands").glob("queue_*.py"))
#: A call of each; queue_doctor reports an engine that is away in its own way.
CALLS = [call_of(command) for command in COMMANDS if command != "queue_doctor"]


@cases(
    ("error", "code"),
    [
        (exceptions.FdbQueueError(), 1),
        (exceptions.ConfigurationError(), 1),
        (exceptions.InvalidPriority(), 1),
        (exceptions.CorruptItem(), 1),
        (exceptions.OutcomeUnknown(), 1),
        (exceptions.LeaseLost(), 1),
        (OutputFailed(), 1),
        (exceptions.QueueNotFound(), 3),
        (exceptions.EngineError(), 4),
        (exceptions.EngineUnavailable(), 4),
        (exceptions.ClientLibraryMissing(), 4),
        (embedded.FDBError(1031), 4),
        (Interrupted(), 130),
        (KeyboardInterrupt(), 130),
        (ValueError(), None),
        (SystemExit(7), None),
    ],
)
def test_errors(error, code):
    """Every error has one exit code, and what only a bug raises has none."""
    assert exit_code(error) == code
    made = command_error(error)
    assert (made and made.returncode) == code
    assert made is None or str(made)


@pytest.mark.parametrize("kind", [exceptions.PushInterrupted, OutputFailed])
@cases(
    ("cause", "code"),
    [
        (None, 1),
        (exceptions.InvalidValue(), 1),
        (OSError(), 1),
        (exceptions.EngineUnavailable(), 4),
        (embedded.FDBError(1031), 4),
        (Interrupted(), 130),
        (KeyboardInterrupt(), 130),
    ],
)
def test_errors_with_a_cause(kind, cause, code):
    """What stopped part way ends with the code of what stopped it."""
    error = kind()
    error.__cause__ = cause
    assert exit_code(error) == code


@cases("command", [call_of(command) for command in COMMANDS if "mail" in call_of(command)])
def test_an_unknown_queue(call, command):
    """An unknown queue is 3; the message names it harmlessly, and those there are."""
    assert call(*("no\x1bsuch" if one == "mail" else one for one in command), code=3) == (
        "There is no queue named 'no\\x1bsuch'. "
        "The setting FDBQUEUE has quakes, ranks, mail, blobs, ranked-blobs, tuples, user-*."
    )


def test_a_queue_that_was_meant(call):
    """The name in the setting that is most like the wrong one is named."""
    with pytest.raises(CommandError, match=r"named 'mial'\. Did you mean 'mail'\? The setting"):
        call("queue_pop", "mial")


def test_an_unknown_queue_among_many(call, settings):
    """The hint names the first 20 queues of the setting, or says that there are none."""
    names = {f"q{n:02}": {"kind": "fifo"} for n in range(25)}
    settings.FDBQUEUE = {**settings.FDBQUEUE, "QUEUES": names}
    with pytest.raises(CommandError, match=r"q18, q19 and 5 more\.$"):
        call("queue_pop", "none")
    settings.FDBQUEUE = {**settings.FDBQUEUE, "QUEUES": {}}
    with pytest.raises(CommandError, match="is empty"):
        call("queue_pop", "none")


@cases("command", CALLS)
@cases("directory", ["none", "file"])
def test_an_engine_that_cannot_be_opened(manage, settings, tmp_path, directory, command):
    """An engine whose file is in no directory, or in no such thing, is 4; no traceback."""
    (tmp_path / "file").touch()
    options = {"path": str(tmp_path / directory / "queues.sqlite3")}
    settings.FDBQUEUE = {
        **settings.FDBQUEUE,
        "ENGINE": "fdbqueue.engines.embedded",
        "OPTIONS": options,
    }
    refused(manage(*command, stdin=b"1\n"))


@pytest.mark.parametrize("directory", ["none", "file"])
def test_an_engine_that_cannot_be_opened_by_a_process(processes, tmp_path, directory):
    """Nor is there one where the process that cannot open it ends."""
    (tmp_path / "file").touch()
    processes.environment.pop("FDB_CLUSTER_FILE", None)
    path = str(tmp_path / directory / "queues.sqlite3")
    refused(processes.run("queue_push", "mail", stdin=b"1\n", env={"FDBQUEUE_PATH": path}))


def refused(done):
    """Check how a command has ended whose engine's file is in no folder: it says that."""
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith("CommandError: The engine cannot use its file")
    assert re.search(r"reason='(there is no folder .+; create it|.+ is no folder)'", done.stderr)
    assert done.stderr.count("\n") == 1


_WITHOUT_LOG = """
import sys
from django.conf import settings
from django.core.management import execute_from_command_line
settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes", "fdbqueue"],
    FDBQUEUE={
        "ENGINE": "fdbqueue.engines.foundationdb",
        "OPTIONS": {"cluster_file": sys.argv[1]},
        "QUEUES": {"mail": {"kind": "fifo"}},
    },
)
"""


def without_log(tmp_path, program):
    """Run a program on a cluster that there is not, in a project that sets up no log."""
    return subprocess.run(
        [sys.executable, "-c", _WITHOUT_LOG + program, tmp_path / "fdb.cluster"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_cluster_that_cannot_be_reached_is_told_once(tmp_path):
    """A project that sets up no log sees the error alone, and no line of a log before it."""
    done = without_log(tmp_path, "execute_from_command_line(['manage.py', 'queue_pop', 'mail'])")
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith("CommandError: ")
    assert done.stderr.count("\n") == 1


def test_a_cluster_that_a_program_cannot_reach_is_logged(tmp_path):
    """Python prints the line, because a program may catch the error and say nothing."""
    program = "import django, fdbqueue; django.setup(); fdbqueue.queue('mail').pop()"
    line, *trace = without_log(tmp_path, program).stderr.splitlines()
    assert line in {"the cluster does not answer", "the client library cannot be used"}
    assert trace[0].startswith("Traceback ")


def test_a_wrong_setting(call, settings):
    """A setting that is wrong is 1, with what is wrong."""
    settings.FDBQUEUE = {**settings.FDBQUEUE, "QUEUES": {"mail": {"kind": "lifo"}}}
    with pytest.raises(CommandError, match="has no valid kind") as caught:
        call("queue_list")
    assert caught.value.returncode == 1


OF_FAMILIES = (
    *("queue_doctor", "queue_give_back", "queue_list", "queue_pause", "queue_resume"),
    *("queue_run_now", "queue_work"),
)


#: What each command does not take.
WRONG_USAGE = {
    "queue_bury": ["mail x"],
    "queue_doctor": [
        *("--adopt-settings", "user-* --adopt-settings --no-input", "--recount", "--sweep"),
        *("--timeout=0", "--timeout=-1"),
    ],
    "queue_drain": [
        *("mail --threads=2", "mail --retry-delay=1", "mail --priority=0", "mail --fair"),
        *("mail --worker=mine", "mail --resume", "mail --force", "mail --output=- --resume"),
        *("mail --output=x --discard", "mail --output=x --resume --force"),
        *("mail --output=x --no-input", "mail --batch=10001", "mail --limit=0"),
        *("mail --lease-seconds=-1", "mail quakes"),
    ],
    "queue_give_back": [
        *("", "mail", "mail --no-input", "mail --worker=a --all", "user-* --id=x --no-input"),
        *("mail --worker=", "mail --all --limit=0"),
    ],
    "queue_list": [
        *("--watch", "--by-priority", "--family", "--minutes=1440", "--engine-timeout=nan"),
        *("--workers mail", "--workers --rates", "--workers --minutes=3"),
        *("--workers --by-reason", "user-* --by-reason"),
    ],
    "queue_move": ["mail"],
    "queue_pause": [""],
    "queue_peek": ["", "mail --limit=-1", "mail --limit x", "mail --end top", "a b"],
    "queue_pop": ["", "mail --limit 0", "mail --limit x", "mail --end top", "a b"],
    "queue_purge": ["", "mail --state=lost", "mail --reason=x --state=ready --no-input"],
    "queue_push": [
        *("", "quakes --priority high", "quakes --priority NaN", "quakes --priority 1e999"),
        *("quakes --priority true", "quakes --priority 1 --priority-field magnitude"),
        "mail --engine-timeout=-0.0",
    ],
    "queue_redrive": ["mail --limit=0", "mail --id=x --no-input"],
    "queue_remove": ["mail x --no-input"],
    "queue_resume": [""],
    "queue_run_now": ["", "mail --limit=0", "user-* --id=x --no-input"],
    "queue_show": ["mail x"],
    "queue_work": [
        *("mail", "--handler=print", "mail --handler=print --threads=257"),
        *(
            "mail --handler=print --threads=0",
            "mail --handler=print --batch=5",
            "mail --handler=print --follow",
        ),
        *("mail --handler=print --no-input", "mail --handler=print --output=x"),
        *("mail --handler=print --limit=0", "mail --handler=print --lease-seconds=-1"),
    ],
}


@cases(
    ("command", "line"), [(command, one) for command in WRONG_USAGE for one in WRONG_USAGE[command]]
)
def test_wrong_usage(manage, command, line):
    """Arguments that are missing, too many, wrong or make no sense together: nothing is done."""
    mail = fdbqueue.queue("mail")
    mail.push(1)
    before = mail.size()
    done = manage(command, *line.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr
    assert "Traceback" not in done.stderr
    assert mail.size() == before


def test_wrong_usage_from_a_program(call):
    """It is the error that a program can catch, with the same code."""
    with pytest.raises(CommandError, match="Error: ") as caught:
        call("queue_pop", "mail", "--limit", "0")
    assert caught.value.returncode == 2


@cases(
    "command",
    [
        call_of(command)
        for command in COMMANDS
        if "mail" in call_of(command) and command not in OF_FAMILIES
    ],
)
def test_a_pattern_in_place_of_a_name(call, command):
    """It is called a pattern, and is 2: no queue can have such a name.

    Some commands take the pattern of a family: tests/commands/test_families.py.
    """
    message = "'user-*' is a pattern: give the name of a queue."
    assert call(*("user-*" if one == "mail" else one for one in command), code=2) == message


def test_wrong_usage_in_a_process(processes):
    """So does its process: the usage and the error, a line each."""
    done = processes.run("queue_push", env={"COLUMNS": "60"})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "usage: manage.py queue_push [options] NAME [FILE]",
        "manage.py queue_push: error: the following arguments are required: NAME",
    ]


@cases("command", COMMANDS)
def test_help(manage, command):
    """``--help`` ends with examples, a line each, of which none is wider than a terminal."""
    check_help(manage(command, "--help"), command)


def check_help(done, command):
    """Check what a command says of itself."""
    assert done.returncode == 0
    _, _, examples = done.stdout.partition("\nexamples:\n")
    assert f"manage.py {command}" in examples
    assert all(line.startswith("  ") and len(line) <= 80 for line in examples.splitlines())


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("queue_list", 0),
        ("queue_list --rates", 0),
        ("queue_doctor", 1),
    ],
)
def test_a_reader_that_is_gone(processes, command, code):
    """It is no error for what only shows what is there, and 1 for others; never a message."""
    reader, writer = os.pipe()
    os.close(reader)
    done = processes.run(*command.split(), "--json", stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (code, "")


@pytest.mark.parametrize(("name", "code"), [("nosuch", 3), ("mail", 0)])
def test_standard_error_that_is_closed(processes, name, code):
    """What goes there is lost, and the exit code is the same."""
    assert processes.run("queue_pop", name, redirect="2>&-").returncode == code


def test_a_result_that_has_no_reader(processes):
    """What was done is said on standard error, because nothing is left to do."""
    fdbqueue.queue("mail").push("x")
    reader, writer = os.pipe()
    os.close(reader)
    done = processes.run("queue_purge", "mail", "--no-input", stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "Removed 1 item from 'mail'.\n")


def test_json_is_all_there_is(manage):
    """With --json, whatever is on standard output is JSON."""
    for arguments, stdin in (
        (("queue_push", "mail", "--json"), b'"\\u001b[2J"\n[2]\n'),
        (("queue_peek", "mail", "--json"), b""),
        (("queue_list", "--json"), b""),
        (("queue_list", "--rates", "--json", "--by-reason"), b""),
        (("queue_doctor", "--json"), b""),
        (("queue_redrive", "mail", "--no-input", "--json"), b""),
        (("queue_move", "mail", "user-1", "--no-input", "--json"), b""),
        (("queue_move", "user-1", "mail", "--no-input", "--json"), b""),
        (("queue_purge", "ranks", "--no-input", "--json"), b""),
        (("queue_drain", "ranks", "--discard", "--no-input", "--json"), b""),
        (("queue_pop", "mail", "--json", "--limit=5"), b""),
        (("queue_pop", "mail", "--json"), b""),
    ):
        done = manage(*arguments, stdin=stdin)
        assert (done.returncode, done.stderr) == (0, "")
        assert all(json.loads(line) for line in done.stdout.splitlines())
