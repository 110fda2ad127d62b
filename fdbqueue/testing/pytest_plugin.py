"""Fixtures for pytest; a test that does not use them is not changed.

In the root ``conftest.py``::

    pytest_plugins = ["fdbqueue.testing.pytest_plugin"]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from fdbqueue import conf
from fdbqueue.service import Catalog
from fdbqueue.testing.isolation import empty_queues as isolation


class _ByFixture(isolation):
    """Empty queues, set through pytest-django's fixture ``settings``.

    The fixture undoes all its changes at its own end, in reverse order. An override of its own in
    between would have to end first.
    """

    def __init__(self, queues: Mapping[str, Any] | None, fixture: Any) -> None:
        super().__init__(queues)
        self._fixture = fixture

    def _set(self, setting: dict[str, Any]) -> None:
        setattr(self._fixture, conf.SETTING, setting)

    def _reset(self) -> None:
        """Do nothing: the fixture resets the setting."""


@pytest.fixture
def fdbqueue_queues() -> Mapping[str, Any] | None:
    """The setting's ``QUEUES`` for ``empty_queues``; None for the project's. Override it."""
    return None


@pytest.fixture
def empty_queues(
    request: pytest.FixtureRequest, fdbqueue_queues: Mapping[str, Any] | None
) -> Iterator[Catalog]:
    """The project's queues, empty, and the test's own; the value is their catalog."""
    fixture = None
    if request.config.pluginmanager.has_plugin("django"):
        fixture = request.getfixturevalue("settings")
    if type(fixture).__module__.startswith("pytest_django"):
        own: isolation = _ByFixture(fdbqueue_queues, fixture)
    else:
        own = isolation(fdbqueue_queues)
    with own as catalog:
        yield catalog
