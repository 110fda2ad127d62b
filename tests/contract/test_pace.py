"""Batches become smaller where a transaction has taken too much."""

from __future__ import annotations

import pytest

from fdbqueue.engines.embedded import FDBError
from fdbqueue.service.tools.streams import Pace


@pytest.mark.parametrize("code", [1007, 2101])
def test_too_much_is_halved(code):
    """After a transaction that was too old or too large the next takes half, and at least one."""
    pace = Pace(3)
    assert pace.slow_down(FDBError(code))
    assert pace.count == 1
    assert not pace.slow_down(FDBError(code))


def test_another_error_is_nobodys_pace():
    """A conflict, or an error that is not the engine's, is not mended by taking fewer."""
    pace = Pace(100)
    assert not pace.slow_down(FDBError(1020))
    assert not pace.slow_down(ValueError())
    assert pace.count == 100
