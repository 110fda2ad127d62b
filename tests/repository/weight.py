"""How heavy the house is: ``make weight`` prints a table.

A *line of code* is one that has more than a comment, a docstring or blanks. The *pages of the
protocols* are the docstrings of the modules that say how queues hold under faults. A class or a
file has *two meanings* if its name is another's, too: names that Django or a protocol of the
engines asks for do not count, because their meaning is one.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "fdbqueue"
#: What is counted by itself, below the sum of the package.
ROOMS = ("service", "engines", "tasks", "columns", "pages", "api", "management")
PROTOCOLS = (
    "service/consume",
    "service/storage",
    "service/combiner.py",
    "service/transactions.py",
    "engines/embedded",
)
#: Files that Django looks for by their name.
DJANGO_FILES = {"__init__.py", "apps.py", "urls.py", "models.py", "views.py", "checks.py"}

#: Classes that Django looks for by their name.
DJANGO_CLASSES = {"Command", "Migration"}


def lines_of_code(source: str) -> int:
    """Count the lines of a module that are no comment, docstring or blank."""
    with_docstring = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    lines = enumerate(map(str.lstrip, source.splitlines()), 1)
    code = {number for number, line in lines if line and not line.startswith("#")}
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Constant, ast.JoinedStr)):
            code.update(_lines(node))  # a text of several lines has blank ones, too
        elif isinstance(node, with_docstring) and ast.get_docstring(node, clean=False) is not None:
            docstrings.update(_lines(node.body[0]))
    return len(code - docstrings)


def files(*roots: Path) -> list[Path]:
    """Return the Python files of folders, and the files among them, by path."""
    return sorted(
        path for root in roots for path in (root.rglob("*.py") if root.is_dir() else [root])
    )


def words_of_pages(paths: Iterable[Path]) -> int:
    """Count the words in the docstrings of modules."""
    return sum(len((ast.get_docstring(ast.parse(_text(path))) or "").split()) for path in paths)


def classes_of_two_meanings() -> list[str]:
    """Return the names that two modules of the package give to classes of their own."""
    names = Counter(
        name for path in files(PACKAGE) if path.name != "protocols.py" for name in _classes(path)
    )
    asked_for = DJANGO_CLASSES.union(_classes(PACKAGE / "engines/protocols.py"))
    return sorted(name for name, count in names.items() if count > 1 and name not in asked_for)


def files_of_two_meanings() -> list[str]:
    """Return the names that several files of the package have."""
    names = Counter(path.name for path in files(PACKAGE))
    return sorted(name for name, count in names.items() if count > 1 and name not in DJANGO_FILES)


def table() -> Iterator[tuple[str, str]]:
    """Yield what is measured, and its figure."""
    for name, root in {
        "fdbqueue": PACKAGE,
        **{f"fdbqueue/{room}": PACKAGE / room for room in ROOMS},
        "benchmarks": ROOT / "benchmarks",
        "tests": ROOT / "tests",
        "tests/simulation": ROOT / "tests/simulation",
    }.items():
        found = files(root)
        lines = sum(map(_lines_of, found))
        yield f"lines of code in {name}", f"{lines:,} in {len(found)} files"
    pages = files(*(PACKAGE / name for name in PROTOCOLS))
    yield "words in the pages of the protocols", f"{words_of_pages(pages):,}"
    for what, names in {
        "classes": classes_of_two_meanings(),
        "files": files_of_two_meanings(),
    }.items():
        yield f"names of {what} with two meanings", f"{len(names)}: {', '.join(names)}"


def main() -> None:
    """Print the table."""
    for what, figure in table():
        sys.stdout.write(f"{what:<40} {figure}\n")


@cache
def _lines_of(path: Path) -> int:
    """Count the lines of code of a file, which is in a folder and in one of its rooms."""
    return lines_of_code(_text(path))


def _lines(node: ast.stmt | ast.expr) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _classes(path: Path) -> list[str]:
    """Return the classes of a module that it defines at its top."""
    return [node.name for node in ast.parse(_text(path)).body if isinstance(node, ast.ClassDef)]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


if __name__ == "__main__":
    main()
