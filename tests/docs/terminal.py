"""Run a command at a terminal of its own, and answer its question.

A program: ``python terminal.py ANSWER COMMAND...`` prints what the terminal shows.
"""

from __future__ import annotations

import os
import pty
import sys

_QUESTION = b"Type 'yes' to continue: "


def main(answer: str, *command: str) -> int:
    """Return the command's exit status."""
    process, terminal = pty.fork()
    if process == 0:
        os.execvp(command[0], command)
    shown, is_answered = b"", False
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # Linux: nobody has the other end any more
            break
        if not part:
            break
        shown += part
        if not is_answered and shown.endswith(_QUESTION):
            os.write(terminal, answer.encode() + b"\n")
            is_answered = True
    lines = shown.decode().replace("\r\n", "\n").split("\n")
    sys.stdout.write("\n".join(line.rpartition("\r")[2] for line in lines))
    sys.stdout.flush()
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


sys.exit(main(*sys.argv[1:]))
