"""Blocks of the documentation that a test cannot run, each with the reason."""

from __future__ import annotations

import re

#: Shell commands, by how they begin.
COMMANDS = {
    r"(python -m )?pip install ": "needs a package index; tests/repository builds the wheel",
    r"python3? -m venv ": "the tests have their environment already",
    r"(source|\.) \.venv/bin/activate$": "as above",
    r"(sudo )?apt-get ": "installs into the machine",
    r"(sudo )?systemctl ": "needs a service manager",
    r"docker ": "needs a container engine and its images",
    r"kubectl ": "needs a Kubernetes cluster",
    r"(sudo )?fdb(cli|backup|restore|dr|server)\b|(sudo )?backup_agent\b": (
        "FoundationDB's own tools, which act on a whole cluster"
    ),
    r"python manage\.py engine_copy ": "needs a file and a cluster: tests/commands runs it",
    r"make (?!run$)": "the repository's own commands: CI runs them, or they take minutes",
    r"(\w+=\S+ )+make |\.venv/bin/python -m pytest ": "as above",
    r"git (clone|commit|push|tag|checkout|switch)\b": "needs the network, or changes the checkout",
}


def reason(command: str) -> str | None:
    """Return why a command is not run; None where it is."""
    found = [why for pattern, why in COMMANDS.items() if re.match(pattern, command)]
    return found[0] if found else None
