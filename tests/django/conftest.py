"""A setting for each test."""

from __future__ import annotations

import pytest


@pytest.fixture
def setting(tmp_path):
    """A valid setting on a file of the test's own."""
    return {
        "ENGINE": "fdbqueue.engines.embedded",
        "OPTIONS": {"path": tmp_path / "q.sqlite3", "durability": "normal"},
        "PREFIX": ("fdbqueue",),
        "QUEUES": {
            "quakes": {"kind": "priority", "priority_type": "float"},
            "mail": {"kind": "fifo"},
            "legacy": {"kind": "priority", "subspace": ("P",), "codec": "bytes"},
            "user-*": {"kind": "fifo", "codec": "tuple"},
            "*-urgent": {"kind": "priority"},
        },
    }
