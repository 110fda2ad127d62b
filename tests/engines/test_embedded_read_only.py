"""Files that may be read here and not written: without the right to, or on such a disk."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from fdbqueue.engines import embedded
from fdbqueue.engines.embedded import files
from fdbqueue.service import Catalog, QueueSpec
from tests.engines.children import Child

_SPECS = [QueueSpec("mail", "fifo")]
_DEADLINE_SECONDS = 60

#: Reads all there is, says it, and then what a write says; once for each line it is told.
_READ = """
from fdbqueue.exceptions import EngineUnavailable
from fdbqueue.service import (Catalog, QueueSpec)

user = int(sys.argv[2])
if user:
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
mail = Catalog(database, ("fdbqueue",), [QueueSpec("mail", "fifo")]).queue("mail")
say("ready")
for line in sys.stdin:
    item = mail.peek()
    say(item.value if item else None)
    say(len(mail.peek_many(10)))
    say(mail.size())
    for write in (lambda: mail.push("more"), mail.pop, lambda: alone(database).set(b"a", b"")):
        try:
            write()
        except EngineUnavailable as error:
            say("unavailable" if "only be read" in error.context["reason"] else error)
"""

_PUSH = """
from fdbqueue.service import (Catalog, QueueSpec)

Catalog(database, ("fdbqueue",), [QueueSpec("mail", "fifo")]).queue("mail").push("kept")
say("done")
sys.stdin.read()
"""


@pytest.fixture
def place():
    """A directory that every user may enter; ``tmp_path``'s parents are closed to others."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name).resolve()
        directory.chmod(0o755)
        yield directory


@pytest.fixture(params=["a user without the right", "a read-only disk"])
def read(request, place):
    """Start a process that may only read the file: ``read(path)``."""
    if os.geteuid() != 0:
        pytest.skip("only root may become another user, and mount")
    children = []
    mounted = place / "mounted"
    is_mounted = []

    def start(path):
        if request.param == "a read-only disk":
            mounted.mkdir()
            mount = ["mount", "--bind", str(path.parent), str(mounted)]
            if subprocess.run(mount, check=False, capture_output=True).returncode:
                pytest.skip("no right to mount")
            is_mounted.append(True)
            subprocess.run(["mount", "-o", "remount,bind,ro", str(mounted)], check=True)
            path = mounted / path.name
        children.append(Child(path, _READ, 0 if path.parent == mounted else 65534))
        children[-1].expect("ready")
        return children[-1]

    yield start
    for child in children:
        child.kill()
    if is_mounted:
        subprocess.run(["umount", str(mounted)], check=True)


@pytest.fixture
def filled(place):
    """A database with three items, in a directory of its own."""
    directory = place / "data"
    directory.mkdir()
    database = embedded.open(directory / "queues.sqlite3")
    mail = Catalog(database, ("fdbqueue",), _SPECS).queue("mail")
    for number in range(3):
        mail.push(f"item{number}")
    yield database
    database.close()


def _answers(child, value, count):
    child.tell()
    assert [child.line() for _ in range(6)] == [value, str(count), str(count)] + ["unavailable"] * 3


def _listing(path):
    return sorted(name.name for name in Path(path).parent.iterdir())


def test_a_file_nobody_writes(filled, read):
    """It is read, nothing is made beside it, and writes say that it can only be read."""
    filled.close()
    before = _listing(filled.path)
    child = read(Path(filled.path))
    _answers(child, "item0", 3)
    _answers(child, "item0", 3)
    assert _listing(filled.path) == before


def test_a_file_that_is_new_for_ever(filled, monkeypatch):
    """It is opened, too, if a test holds time still at the moment of its last change."""
    filled.close()
    new_at = os.stat(filled.path).st_ctime_ns
    held = SimpleNamespace(**{**vars(time), "time_ns": lambda: new_at})
    monkeypatch.setattr(files, "time", held)
    opened = []
    open_it = threading.Thread(
        target=lambda: opened.append(files.connect_to_read(filled.path)), daemon=True
    )
    open_it.start()
    open_it.join(_DEADLINE_SECONDS)
    ((connection, check),) = opened
    check()
    connection.close()


def test_a_file_alone(filled, read):
    """A copy without anything beside it is read."""
    filled.close()
    shutil.rmtree(f"{filled.path}-sync")
    _answers(read(Path(filled.path)), "item0", 3)
    assert _listing(filled.path) == ["queues.sqlite3"]


def test_a_file_that_others_write(filled, read):
    """What other processes commit is seen, while they come and go."""
    mail = Catalog(filled, ("fdbqueue",), _SPECS).queue("mail")
    child = read(Path(filled.path))
    _answers(child, "item0", 3)
    mail.pop()
    _answers(child, "item1", 2)
    filled.close()
    _answers(child, "item1", 2)
    mail.push("item3")
    _answers(child, "item1", 3)
    mail.pop()
    filled.close()
    _answers(child, "item2", 2)


def test_a_log_left_by_a_killed_process(place, read):
    """What a killed process has committed is read, though only the log has it."""
    (place / "data").mkdir()
    path = place / "data" / "queues.sqlite3"
    writer = Child(path, _PUSH)
    writer.expect("done")
    writer.kill()
    child = read(path)
    _answers(child, "kept", 1)


def test_a_log_that_goes_while_it_is_looked_at_is_no_obstacle(filled, monkeypatch):
    """Another process may close the file, and with it the log, at any moment."""
    log = filled.path + "-wal"
    access, asked = os.access, []

    def closed_meanwhile(name, *arguments, **options):
        if name == log and not asked:
            asked.append(name)
            filled.close()
        return access(name, *arguments, **options)

    monkeypatch.setattr("os.access", closed_meanwhile)
    assert os.path.exists(log)
    assert files.obstacle_to_writing(filled.path) is None
    assert asked
