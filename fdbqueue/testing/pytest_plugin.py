"""A fixture for pytest; no test is changed that does not ask for it.

In the root ``conftest.py``::

    pytest_plugins = ["fdbqueue.testing.pytest_plugin"]
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fdbqueue import testing
from fdbqueue.service import Catalog


@pytest.fixture
def empty_queues() -> Iterator[Catalog]:
    """The project's queues, empty, and the test's own; the value is their catalog."""
    with testing.empty_queues() as catalog:
        yield catalog
