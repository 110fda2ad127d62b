"""The memory of one worker under bodies of 5 MB, however many come one after the other."""

from __future__ import annotations

import json
import re
import secrets
import sys
from pathlib import Path

import pytest
import requests

from tests.live.server import Server

#: Most of it are Python and Django, and the objects of one body.
MAX_BYTES = 300_000_000
#: As many strings of two characters as a value of 5 kB has.
_VALUE = json.dumps(["ab"] * 999, separators=(",", ":"))
_ACCEPTED = '{"items":[' + ",".join(['{"value":' + _VALUE + "}"] * 995) + "]}"
_REFUSED = _ACCEPTED[:-1] + ',"unknown":1}'


def peak_bytes(process):
    """Return the most memory that a process has ever had."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found
    return int(found[1]) * 1024


def check_memory(folder, count, prepared):
    """Push so many bodies that are refused, and as many that are not, and look at the peak."""
    assert 4_900_000 < len(_ACCEPTED) < len(_REFUSED) < 5_000_000
    with Server(
        folder,
        "tests.live.server_settings",
        config="tests.live.one_worker_conf",
        tables=prepared.tables,
    ) as one:
        headers = {"Authorization": f"Token {prepared.token}", "Content-Type": "application/json"}
        address = f"{one.api}/user-{secrets.token_hex(8)}/push/"
        for body, status in [(_REFUSED, 400), (_ACCEPTED, 201)] * count:
            answer = requests.post(address, body, headers=headers, timeout=600)
            assert answer.status_code == status
        (worker,) = one.workers
        assert peak_bytes(worker) < MAX_BYTES, f"{peak_bytes(worker):,} bytes"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process's memory so")
def test_bodies_leave_no_memory_behind(tmp_path, prepared):
    """What a response was made of is freed with it: many bodies cost no more than one."""
    check_memory(tmp_path, 8, prepared)
