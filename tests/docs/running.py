"""Run the blocks of a page, from its first to its last, in one project."""

from __future__ import annotations

import configparser
import contextlib
import json
import re
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.docs.blocks import Block, Page
from tests.docs.notation import is_as_shown
from tests.docs.projects import Project
from tests.docs.shell import DEADLINE_SECONDS, Shell, Step, is_readable, steps

_SESSION = Path(__file__).with_name("session.py")
_ADDRESS = "127.0.0.1:8000"
_STOP_SECONDS = 60
#: Below those that systems give to who asks for any: from 32,768 on Linux, 49,152 on macOS.
_PORTS = range(20_000, 32_000)
_HTTP = re.compile(r"(GET|POST|HEAD|PUT|DELETE|PATCH) /\S+ HTTP/1\.1|HTTP/1\.1 \d{3} .+")
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]*: \S.*")


class Failure(AssertionError):
    """A block does not do what the page says."""


class Runner:
    """Runs the blocks of one page.

    Args:
        page: The page.
        project: The project that they run in.
    """

    def __init__(self, page: Page, project: Project) -> None:
        self._page, self._project = page, project
        self._port = _free_port()
        self._shell = Shell(project.folder, project.environment, project.folder.parent)
        self._session: subprocess.Popen[bytes] | None = None
        self._servers: list[subprocess.Popen[bytes]] = []
        self._waiting: dict[str, int] = {}  # scripts that no block has run yet, and their lines

    def run(self) -> None:
        """Run all blocks.

        Raises:
            Failure: One does not do what the page says.
        """
        verbs: dict[str, Callable[[Block], None]] = {
            "python": self._python,
            "pycon": self._pycon,
            "console": self._console,
            "json": lambda block: json.loads(block.text),
            "yaml": lambda block: list(yaml.safe_load_all(block.text)),
            "ini": lambda block: configparser.RawConfigParser(strict=False).read_string(block.text),
            "http": _http,
            "dockerfile": _dockerfile,
            "nginx": _nginx,
            "text": lambda block: None,
        }
        for block in self._page.blocks:
            place = f"{self._page.path}:{block.line}"
            if block.kind not in verbs:
                kinds = ", ".join(verbs)
                raise Failure(f"{place}: {block.kind!r} is none of the languages: {kinds}")
            try:
                verbs[block.kind](block)
            except Exception as error:
                raise Failure(f"{place}: {error}") from error
        if self._waiting:
            raise Failure(f"{self._page.path}: no block runs {self._waiting}")
        if self._servers:
            self._look_at_addresses()

    def close(self) -> None:
        """End every process, and forget what was pushed."""
        with contextlib.ExitStack() as endings:  # each is done, also where another fails
            endings.callback(self._project.forget_queues)
            for server in self._servers:
                endings.callback(_stop, server)
            endings.callback(self._shell.close)
            endings.callback(self._end_session)

    # Python

    def _python(self, block: Block) -> None:
        text = self._here(block.text)
        if block.file is None:
            self._tell("python", text, block)
            return
        compile(text, block.file, "exec")
        file = self._project.file(block.file)
        file.parent.mkdir(parents=True, exist_ok=True)
        is_startprojects = file.name in {"settings.py", "urls.py"} and file.exists()
        with file.open("a" if is_startprojects else "w", encoding="utf-8") as written:
            written.write(f"\n{text}" if is_startprojects else text)
        name = file.relative_to(self._project.folder).with_suffix("")
        if file.name == "settings.py":
            self._end_session()
            self._check(block)
        elif len(name.parts) == 1:
            self._waiting[file.name] = block.line
        else:
            (file.parent / "__init__.py").touch()
            self._tell("module", ".".join(name.parts), block)

    def _check(self, block: Block) -> None:
        """Let the system checks look at new settings, unless more is to come for them."""
        for _, wrong in self._tell("settings", "tested_settings", block):
            raise Failure(wrong)

    def _pycon(self, block: Block) -> None:
        for shown, printed in self._tell("pycon", self._here(block.text), block):
            if not is_as_shown(printed, shown):
                raise Failure(f"it printed\n{printed}\nwhere is shown\n{shown}")

    def _tell(self, verb: str, text: str, block: Block) -> list[tuple[str, str]]:
        session = self._begin_session()
        assert session.stdin
        assert session.stdout
        place = f"{self._page.path}:{block.line}"
        request = json.dumps({"verb": verb, "text": text, "place": place})
        session.stdin.write(request.encode() + b"\n")
        session.stdin.flush()
        if not is_readable(session.stdout, DEADLINE_SECONDS):
            raise TimeoutError(text)
        line = session.stdout.readline()
        if not line:
            errors = (self._project.folder.parent / "session.log").read_text()
            raise Failure(f"Python has ended:\n{errors}")
        answer: dict[str, Any] = json.loads(line)
        if answer["failure"]:
            raise Failure(answer["failure"])
        return answer["outputs"]

    def _begin_session(self) -> subprocess.Popen[bytes]:
        if self._session is None:
            with (self._project.folder.parent / "session.log").open("ab") as errors:
                self._session = subprocess.Popen(
                    [sys.executable, str(_SESSION)],
                    cwd=self._project.folder,
                    env=self._project.environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                )
        return self._session

    def _end_session(self) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        try:
            session.communicate(timeout=_STOP_SECONDS)  # it ends when there is nothing more to read
        except subprocess.TimeoutExpired:
            session.kill()
            session.communicate()

    # Shells and servers

    def _console(self, block: Block) -> None:
        for step in steps(self._here(block.text)):
            for script in list(self._waiting):
                if script in step.command or Path(script).stem in step.command:
                    del self._waiting[script]
            if step.is_server:
                self._serve(step)
            elif wrong := self._shell.run(step):
                raise Failure(wrong)

    def _serve(self, step: Step) -> None:
        """Start a server, and wait until it answers."""
        command = _served(step.command, self._port)
        if not self._servers and _answers(self._port):
            raise Failure(f"{command}: somebody else has taken port {self._port}")
        log = self._project.folder.parent / "server.log"
        with log.open("ab") as errors:
            server = subprocess.Popen(
                ["bash", "-c", f"exec {command}" if "&&" not in command else command],
                cwd=self._project.folder,
                env={**self._project.environment, "PORT": str(self._port)},
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
            )
        self._servers.append(server)
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not _answers(self._port):
            if server.poll() is not None or time.monotonic() > deadline:
                raise Failure(f"{command} does not answer:\n{log.read_text()}")
            time.sleep(0.05)
        if server.poll() is not None:  # who has answered is somebody else
            raise Failure(f"{command} has ended:\n{log.read_text()}")
        if step.shown and not is_as_shown(log.read_text(), step.shown + "..."):
            raise Failure(f"{command} printed\n{log.read_text()}\nwhere is shown\n{step.shown}")

    def _look_at_addresses(self) -> None:
        """Ask for each page that the text sends its reader to."""
        for address in re.findall(rf"<(http://{re.escape(_ADDRESS)}/[^>]*)>", self._page.text):
            try:
                with urllib.request.urlopen(self._here(address), timeout=DEADLINE_SECONDS):
                    pass
            except urllib.error.HTTPError as error:
                with contextlib.closing(error):
                    raise Failure(f"{self._page.path}: {address} answers {error.code}") from error

    def _here(self, text: str) -> str:
        """Return a text with the address that servers have here."""
        return text.replace(_ADDRESS, f"127.0.0.1:{self._port}")


def _served(command: str, port: int) -> str:
    """Return the command of a server that serves on a port."""
    if command == "make run":  # what the Makefile says, without the installing
        return f"python manage.py demo --port {port}"
    if command == "python manage.py runserver":
        return f"{command} --noreload 127.0.0.1:{port}"
    return command


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _free_port() -> int:
    """Return a port that is free, and not among those that the system hands out by itself."""
    for _ in range(100):
        port = secrets.choice(_PORTS)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise OSError(f"no port is free in {_PORTS}")


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=DEADLINE_SECONDS):
            return True
    except urllib.error.HTTPError as error:
        with contextlib.closing(error):
            return True
    except (urllib.error.URLError, OSError):
        return False


def _http(block: Block) -> None:
    """A request or an answer: a first line, if it is there, headers, and a body of JSON."""
    head, _, body = block.text.partition("\n\n")
    lines = head.splitlines()
    if _HTTP.fullmatch(lines[0]):
        lines = lines[1:]
    for line in lines:
        if not _HEADER.fullmatch(line):
            raise Failure(f"no header: {line}")
    if body.strip():
        json.loads(body)


def _nginx(block: Block) -> None:
    """Check that each line opens a block, ends one, or is a directive; and that all are ended."""
    depth = 0
    for line in filter(None, map(str.strip, block.text.splitlines())):
        if not re.fullmatch(r"\}|[a-z_]+( [^{};]+)?( \{|;)", line):
            raise Failure(f"{line!r} is not a directive")
        depth += {"{": 1, "}": -1}.get(line[-1], 0)
        if depth < 0:
            raise Failure("a block is ended that was not begun")
    if depth:
        raise Failure("a block is not ended")


def _dockerfile(block: Block) -> None:
    """Each line that does not go on begins with an instruction."""
    text = block.text.replace("\\\n", " ")
    for line in text.splitlines():
        if line.strip() and not line.startswith("#") and not re.match(r"[A-Z]+ \S", line):
            raise Failure(f"no instruction: {line}")
