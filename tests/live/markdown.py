"""Programs and shell sessions in the documentation, to be run."""

from __future__ import annotations

import re
import subprocess
from typing import NamedTuple

from tests.live.server import DEADLINE_SECONDS, ROOT

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = "\x1e"


class Step(NamedTuple):
    """A command, and what it shall print: ``...`` stands for anything."""

    command: str
    printed: str

    def is_kept(self, printed: str) -> bool:
        """Tell whether it has printed that."""
        parts = self.printed.split("...")
        return bool(re.fullmatch(".*".join(map(re.escape, parts)), printed.strip(), re.DOTALL))


def blocks(page: str, heading: str, kind: str) -> list[str]:
    """Return the blocks of a kind under a heading of a page."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [content for name, content in _BLOCK.findall(section) if name == kind]


def steps(session: str) -> list[Step]:
    """Return the steps of a shell session."""
    found = []
    for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        found.append(Step(command, printed.strip()))
    return found


def run_session(found: list[Step], folder: object, environment: dict[str, str]) -> list[str]:
    """Run the commands in one shell, and return what each has printed."""
    script = "".join(f"{step.command}\nprintf '{_MARK}'\n" for step in found)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=str(folder),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,  # some of them may fail
    )
    return done.stdout.split(_MARK)[:-1]
