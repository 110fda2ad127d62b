"""What runs the documentation notices what is wrong in it."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.docs.blocks import Page
from tests.docs.notation import is_as_shown
from tests.docs.running import Failure
from tests.docs.shell import DEADLINE_SECONDS, Shell, Step, is_readable, steps


@pytest.fixture
def run(tmp_path, runner_of):
    """Run a page of this text."""

    def run_text(text):
        path = tmp_path / "page.md"
        path.write_text(text)
        runner_of(Page(str(path))).run()

    return run_text


BAD = {
    "an unknown language": "```perl\n1\n```",
    "no language": "```\n1\n```",
    "an indented block": "text\n\n    $ true\n",
    "Python that raises": "```python\n1 / 0\n```",
    "a module that raises": "```python\n# shop/prices.py\n1 / 0\n```",
    "settings that raise": "```python\n# settings.py\n1 / 0\n```",
    "settings that the checks refuse": '```python\n# settings.py\nFDBQUEUE["QUEUE"] = {}\n```',
    "a script that nobody runs": "```python\n# script.py\n1\n```",
    "another result": "```pycon\n>>> 1 + 1\n3\n```",
    "no result": "```pycon\n>>> 1 + 1\n```",
    "another error": '```pycon\n>>> int("x")\nTraceback (most recent call last):\nKeyError: 1\n```',
    "an error that does not come": (
        "```pycon\n>>> 1\nTraceback (most recent call last):\nKeyError: 1\n```"
    ),
    "another output": "```console\n$ echo one\ntwo\n```",
    "a command that fails": "```console\n$ false\n```",
    "no command": "```console\nfalse\n```",
    "no JSON": "```json\n{...}\n```",
    "no YAML": "```yaml\na: [\n```",
    "no ini": "```ini\na\n```",
    "no header": "```http\nGET / HTTP/1.1\nnonsense\n```",
    "no instruction": "```dockerfile\nfrom x\n```",
    "no directive": "```nginx\nserver {\n    listen 80\n}\n```",
    "an open block": "```nginx\nserver {\n    listen 80;\n```",
    "a block ended twice": "```nginx\nserver {\n}\n}\nserver {\n```",
}


@pytest.mark.parametrize("what", sorted(BAD))
def test_a_bad_block_is_a_failure(run, what):
    """None of them passes, and the failure names the line."""
    with pytest.raises(Failure, match=r"page\.md"):
        run(BAD[what])


def test_blocks_share_what_they_make(run):
    """Names, files, queues and the shell's variables and folder last to the end of the page."""
    run(
        "```python\nimport fdbqueue\nmail = fdbqueue.queue('mail')\nasync def one():\n"
        "    return 1\n```\n"
        "```pycon\n>>> mail.push(await one()).value\n1\n```\n"
        "```console\n$ mkdir folder && cd folder\n$ NUMBER=1\n```\n"
        "```console\n$ echo $(basename $PWD) $NUMBER\nfolder 1\n"
        "$ python ../manage.py queue_pop mail --json\n"
        '{"id": "...", "priority": null, "value": 1, "pushed_at": "2026-11-21T03:12:44.251094Z", '
        '"attempts": 0}\n```\n'
        "```python\n# shop/words.py\nWORD = 'word'\n```\n"
        "```pycon\n>>> from shop.words import WORD\n>>> WORD\n'word'\n```\n"
        "```python\n# script.py\nprint('ran')\n```\n"
        "```console\n$ python ../script.py\nran\n```\n"
    )


def test_a_question_is_answered_as_shown(run):
    """A command that asks has a terminal, and the answer that the page shows."""
    run(
        "```console\n$ echo 1 | python manage.py queue_push mail\nPushed 1 item into 'mail'.\n"
        "$ python manage.py queue_purge mail\n"
        "Remove 1 item from 'mail' for good (1 ready, 0 leased, 0 delayed, 0 dead)? "
        "Type 'yes' to continue: no\nCommandError: Nothing was changed.\n"
        "$ python manage.py queue_purge mail\n"
        "Remove ... Type 'yes' to continue: yes\nRemoved 1 item from 'mail'.\n```\n"
    )


def test_ctrl_c_is_pressed_when_what_stands_before_it_is_printed(run):
    """A command that would go on is interrupted, and prints what is shown behind that."""
    run(
        "```console\n$ echo 1 | python manage.py queue_push mail --verbosity 0\n...\n"
        "$ python manage.py queue_work mail --handler builtins.print --follow\n"
        "Item(value=1, ...)\n^C...CommandError: Interrupted. 1 item handled, 0 failed.\n```\n"
    )


def test_a_server_runs_to_the_end_of_the_page(run):
    """What follows can ask it, at the address of the page."""
    run(
        "```console\n$ python manage.py runserver\n```\n"
        "```console\n$ curl -s http://127.0.0.1:8000/api/queues/\n"
        '{"code":"not_authenticated",...}\n```\n'
    )


def test_another_programs_server_is_not_taken_for_ours(tmp_path, runner_of):
    """What answers before the page's server was started is a failure."""
    path = tmp_path / "page.md"
    path.write_text("```console\n$ python manage.py runserver\n```\n")
    runner = runner_of(Page(str(path)))
    with ThreadingHTTPServer(("127.0.0.1", runner._port), BaseHTTPRequestHandler) as stranger:
        serving = threading.Thread(target=stranger.serve_forever)
        serving.start()
        try:
            with pytest.raises(Failure, match="somebody else"):
                runner.run()
        finally:
            stranger.shutdown()
            serving.join()


def test_an_address_that_is_not_there_is_a_failure(run):
    """Where a page runs a server, the addresses that its text names are asked for."""
    with pytest.raises(Failure, match="answers 404"):
        run("```console\n$ python manage.py runserver\n```\n<http://127.0.0.1:8000/none/>\n")


def test_what_is_wrong_in_a_shell_ends_it(run):
    """A step in which the shell itself ends is a failure, not a wait."""
    with pytest.raises(Failure, match="has ended"):
        run("```console\n$ exit 3\n```")


@pytest.mark.parametrize("control", ["set -m", "set +m"])
@pytest.mark.parametrize("end", [Shell.close, lambda shell: shell._shell.stdin.close()])
def test_nothing_outlives_its_shell(tmp_path, control, end):
    """What a shell has started ends with it, or with who uses it, in a group of its own or not."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with closing(Shell(tmp_path, dict(os.environ), tmp_path)) as shell:
        assert shell.run(Step(f"{control}; (echo up; exec sleep 600) >{pipe} &", "")) is None
        assert _next(reader) == b"up\n"
        end(shell)
        assert _next(reader) == b""  # nobody has its other end any more
    os.close(reader)


def _next(reader):
    """Return what comes next, nothing where no writer is left."""
    assert is_readable(reader, DEADLINE_SECONDS)
    return os.read(reader, 100)


@pytest.mark.parametrize("disposition", [signal.default_int_handler, signal.SIG_IGN])
def test_ctrl_c_in_the_first_step(tmp_path, disposition):
    """No output of an earlier step is there to be read, or to be taken for this one's.

    Also where the tests ignore Ctrl-C, as a shell's background job does.
    """
    before = signal.signal(signal.SIGINT, disposition)
    try:
        _press_ctrl_c(tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)


def _press_ctrl_c(tmp_path):
    with closing(Shell(tmp_path, dict(os.environ), tmp_path)) as shell:
        for _ in range(3):
            (tmp_path / "printed.txt").unlink(missing_ok=True)
            assert shell.run(Step("sleep 0.1; echo up; exec sleep 600", "up\n^C")) is None
        assert shell.run(Step("echo up", "up")) is None
        assert shell.run(Step("sleep 0.1; echo up; exec sleep 600", "up\n^C")) is None


@pytest.mark.parametrize(
    ("printed", "shown", "is_shown"),
    [
        ("a  b\n", "a b", True),
        ("a b", "ab", False),
        ("a\nb", "a", False),
        ("a\nb", "a...", True),
        ("at 2026-11-21T03:12:44.251094Z", "at 2020-01-01T00:00:00Z", True),
        ("at 2026-11-21 03:12:44", "at noon", False),
        ("for 12s, 3.4 ms", "for 4h, 12.0 ms", True),
        ("for 12s", "for 12 sheep", False),
        ('"IcAZmZmZmZmaFAGK6Ip64BLc0K"', '"FQEBCF7MemwH8xOTchMtvRknhCudzkMA"', True),
        ("IcAYZmZmFQEBpvJElMBC_sVefZzcLNybEg", "IcAYZmZmFQEBpvJElMBC_sVefZzcLNy-Eg", True),
        ("antidisestablishmentarianism", "pseudopseudohypoparathyroidism", False),
        ("http://127.0.0.1:41234/", "http://127.0.0.1:8000/", True),
    ],
)
def test_the_notation(printed, shown, is_shown):
    """Moments, tokens, ports and spaces vary; all else is as shown."""
    assert is_as_shown(printed, shown) is is_shown


def test_a_command_may_go_on_in_the_next_line():
    """After a backslash, and behind the shell's second prompt."""
    assert steps("$ a \\\n  b\nc\n$ cat <<X\n> d\n> X\nd\n") == [
        Step("a \\\n  b", "c"),
        Step("cat <<X\nd\nX", "d"),
    ]
