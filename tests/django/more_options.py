"""Import the package with two more options in ``options.py``, and print what shows options."""

from __future__ import annotations

import importlib.machinery
import json
import os
import sys
from typing import Any

MODULE = "fdbqueue.service.options"
#: Lines of the module, and what is added below each.
ADDED = [
    (
        b"ALLOWED: Mapping[str, Choice | Range | RateText] = {\n",
        (
            b'    "colour": Choice(("red", "blue"), gettext_noop("Colour of the queue")),\n'
            b'    "tries": Range(int, 1, 9, gettext_noop("Tries"), none_is_valid=True),\n'
        ),
    ),
    (
        b"    max_value_bytes: int = DEFAULT_MAX_VALUE_BYTES\n",
        b'    colour: str = "red"\n    tries: int | None = None\n',
    ),
]
QUEUES = {"mail": {"kind": "fifo", "colour": "blue"}}
WRONG_QUEUES = {"mail": {"kind": "fifo", "colour": "green", "tries": 10}}


class Edited(importlib.machinery.SourceFileLoader):
    """Load the module with its additions, never from what was compiled before."""

    def get_data(self, path: str) -> bytes:
        """Return the source with the additions."""
        data = super().get_data(path)
        for line, added in ADDED:
            assert data.count(line) == 1, line
            data = data.replace(line, line + added)
        return data

    def path_stats(self, path: str) -> Any:
        """Refuse, so that the source is read."""
        raise OSError(path)

    def set_data(self, *_: Any, **__: Any) -> None:
        """Keep nothing that is compiled."""


class Finder(importlib.machinery.PathFinder):
    """Find the one module that is edited."""

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the module's spec with the other loader, None for other modules."""
        if name != MODULE:
            return None
        found = super().find_spec(name, path, target)
        assert found is not None
        assert found.origin is not None
        found.loader = Edited(name, found.origin)
        return found


def main(file: str) -> None:
    """Print what the checks, REST, the schema and the page of a queue say."""
    sys.meta_path.insert(0, Finder)
    import django
    from django.conf import settings

    os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
    settings.FDBQUEUE = {"OPTIONS": {"path": file}, "QUEUES": QUEUES}
    django.setup()
    from drf_spectacular.generators import SchemaGenerator

    import fdbqueue
    from fdbqueue import conf, service
    from fdbqueue.api import outputs
    from fdbqueue.pages import queue_page

    queue = fdbqueue.queue("mail")
    schema = SchemaGenerator().get_schema(public=True)["components"]["schemas"]
    wrong = {"OPTIONS": {"path": file}, "QUEUES": WRONG_QUEUES}
    shown = {
        "checks": [problem.id for problem in conf.problems(wrong)],
        "rest": service.run(queue.database, lambda tr: outputs.queue_detail(queue, tr)),
        "schema": schema["QueueDetailOutput"]["properties"],
        "page": [[str(one.label), str(one.value)] for one in queue_page.settings(queue)],
    }
    print(json.dumps(shown))  # noqa: T201  # what it is run for


if __name__ == "__main__":
    main(sys.argv[1])
