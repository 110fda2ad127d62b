"""For a long time: what the short test of a worker's memory says."""

from __future__ import annotations

import sys

import pytest

from tests.live.test_memory import check_memory


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process's memory so")
def test_two_hundred_bodies_leave_no_memory_behind(tmp_path, prepared):
    """A hundred bodies of 5 MB that are refused, and a hundred that are accepted."""
    check_memory(tmp_path, 100, prepared)
