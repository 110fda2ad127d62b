"""The arguments of the commands, as ``--help`` says them: ``python -m tests.docs.options``.

On these pages what stands between ``<!-- help: COMMAND -->`` and ``<!-- end -->`` is
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

from tests.docs.blocks import ROOT, Page

PAGES = (Page("docs/commands.md"), Page("docs/tasks-operations.md"))
#: What the page says once, because many commands have it.
SAID_ONCE = frozenset(
    {
        "--json",
        "--engine-timeout",
        "--no-input",
        "--end",
        "--backend",
        "--limit",
        "--follow",
        "--id",
    }
)
PLACE = re.compile(r"(<!-- help: (?P<name>\w+) -->\n)(?:.*?\n)??(<!-- end -->)", re.DOTALL)


def commands() -> dict[str, str]:
    """Return fdbqueue's commands, each with the app that it is of, installed or not."""
    files = (ROOT / "fdbqueue").rglob("management/commands/[a-z]*.py")
    apps = {file.stem: file.parents[2].relative_to(ROOT).parts for file in files}
    return {name: ".".join(parts) for name, parts in apps.items()}


def rendered(text: str) -> str:
    """Return a page with what the commands say of themselves now."""
    return PLACE.sub(lambda found: f"{found[1]}{_section(found['name'])}\n{found[3]}", text)


def _section(name: str) -> str:
    """Return what a command takes and does, and the table of its arguments."""
    command = load_command_class(commands()[name], name)
    parser = command.create_parser("manage.py", name)
    names = [_title(parser, action) for action in parser._get_positional_actions()]
    text = " ".join(command.help.split())
    rows = [f"| `{title}` | {said} |" for title, said in _rows(parser)]
    table = ["", "| argument | what it does |", "|---|---|", *rows] if rows else []
    return "\n".join([f"`{' '.join([name, *names])}`: {_escaped(text)}", *table])


def _rows(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """Yield each option and what ``--help`` says of it, but for Django's own."""
    djangos = {action.dest for action in BaseCommand().create_parser("", "")._actions}
    formatter = parser._get_formatter()
    for action in parser._get_optional_actions():
        is_said = action.dest in djangos or SAID_ONCE & set(action.option_strings)
        if not is_said and action.help != argparse.SUPPRESS:
            yield _title(parser, action), _escaped(" ".join(formatter._expand_help(action).split()))


def _title(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """Return an argument as the usage has it."""
    formatter = parser._get_formatter()
    default = action.metavar or formatter._get_default_metavar_for_optional(action)
    given = "" if action.nargs == 0 else formatter._format_args(action, str(default))
    return f"{', '.join(action.option_strings)} {given}".strip()


def _escaped(text: str) -> str:
    """Return a text as Markdown shows it unchanged."""
    return re.sub(r"([|*])", r"\\\1", text)


def main() -> None:
    """Write the pages again."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    for page in PAGES:
        (ROOT / page.path).write_text(rendered(page.text), encoding="utf-8")


if __name__ == "__main__":
    main()
