"""What is measured of the house."""

from __future__ import annotations

from tests.repository.weight import (
    classes_of_two_meanings,
    files_of_two_meanings,
    lines_of_code,
    table,
)

MODULE = '''"""A page
of two lines."""

import os  # why


def path() -> str:
    """Return it."""
    # a comment
    return os.path.join(
        "a",

        """b
c""",
    )
'''


def test_lines_without_comments_docstrings_and_blanks():
    assert lines_of_code(MODULE) == 7


def test_the_table_is_whole():
    figures = dict(table())
    assert {"lines of code in fdbqueue", "words in the pages of the protocols"} <= figures.keys()
    assert "__init__.py" not in files_of_two_meanings()


def test_names_that_are_asked_for():
    """What Django and the engines' protocol name has one meaning, however many have the name."""
    assert not {"Command", "Database", "Migration"} & {*classes_of_two_meanings()}
