"""The arguments of the commands, as ``--help`` says them: ``python -m tests.docs.options``.

In ``docs/commands.md`` what stands between ``<!-- help: COMMAND -->`` and ``<!-- end -->`` is
replaced: what the command does, and a row for each of its arguments.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator

import django
from django.core.management import load_command_class
from django.core.management.base import BaseCommand

from tests.docs.blocks import ROOT

PAGE = ROOT / "docs" / "commands.md"
#: What the page says once, because many commands have it.
SAID_ONCE = frozenset({"--json", "--engine-timeout", "--no-input"})
_PLACE = re.compile(r"(<!-- help: (?P<name>\w+) -->\n)(?:.*?\n)??(<!-- end -->)", re.DOTALL)


def commands() -> dict[str, str]:
    """Return fdbqueue's commands, each with the app that it is of, installed or not."""
    files = (ROOT / "fdbqueue").rglob("management/commands/[a-z]*.py")
    apps = {file.stem: file.parents[2].relative_to(ROOT).parts for file in files}
    return {name: ".".join(parts) for name, parts in apps.items()}


def rendered(text: str) -> str:
    """Return a page with what the commands say of themselves now."""
    return _PLACE.sub(lambda found: f"{found[1]}{_section(found['name'])}\n{found[3]}", text)


def _section(name: str) -> str:
    """Return what a command does, and the table of its arguments."""
    command = load_command_class(commands()[name], name)
    parser = command.create_parser("manage.py", name)
    rows = [f"| {title} | {text} |" for title, text in _rows(parser)]
    table = ["", "| argument | what it does |", "|---|---|", *rows] if rows else []
    return "\n".join([" ".join(command.help.split()), *table])


def _rows(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """Yield each argument and what ``--help`` says of it, but for Django's own."""
    djangos = {action.dest for action in BaseCommand().create_parser("", "")._actions}
    formatter = parser._get_formatter()
    for action in parser._actions:
        if action.dest in djangos or SAID_ONCE & set(action.option_strings):
            continue
        default = formatter._get_default_metavar_for_optional(action)
        given = "" if action.nargs == 0 else formatter._format_args(action, default)
        title = f"{', '.join(action.option_strings)} {given}".strip() or action.dest
        text = " ".join(formatter._expand_help(action).split())
        yield f"`{title}`", re.sub(r"([|*])", r"\\\1", text)


def main() -> None:
    """Write the page again."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
