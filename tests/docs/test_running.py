"""What runs the documentation notices what is wrong in it."""

from __future__ import annotations

import os
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.docs.blocks import Page
from tests.docs.notation import is_as_shown
from tests.docs.running import Failure
from tests.docs.shell import DEADLINE_SECONDS, Shell, Step, is_readable


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
        ("on\nTask id=a1 path=shop.tasks.add state=RUNNING\noff", "on\noff", True),
        ("on\nTask a1 of shop.tasks.add\noff", "on\noff", False),
        ("http://127.0.0.1:41234/", "http://127.0.0.1:8000/", True),
    ],
)
def test_the_notation(printed, shown, is_shown):
    """Moments, tokens, ports and spaces vary; all else is as shown."""
    assert is_as_shown(printed, shown) is is_shown
