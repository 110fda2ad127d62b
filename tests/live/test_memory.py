"""The memory of one worker under bodies of 5 MB, however many come."""

from __future__ import annotations

import json
import re
import secrets
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
import requests

from tests.concurrency.clients import together
from tests.live.server import THREADS, Server

#: Most of it are Python and Django, and the objects of one body at a time.
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
        "tests.live.patient_settings",
        config="tests.live.one_worker_conf",
        tables=prepared.tables,
    ) as one:
        headers = {"Authorization": f"Token {prepared.token}", "Content-Type": "application/json"}
        address = f"{one.api}/user-{secrets.token_hex(8)}/push/"
        bodies, lock, statuses = iter([_REFUSED, _ACCEPTED] * count), threading.Lock(), Counter()

        def push():
            while True:
                with lock:
                    body = next(bodies, None)
                if body is None:
                    return
                status = requests.post(address, body, headers=headers, timeout=600).status_code
                with lock:
                    statuses[status] += 1

        together(THREADS, lambda _: push(), deadline_seconds=3_600)
        assert statuses == {201: count, 400: count}
        (worker,) = one.workers
        assert peak_bytes(worker) < MAX_BYTES, f"{peak_bytes(worker):,} bytes"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process's memory so")
def test_bodies_leave_no_memory_behind(tmp_path, prepared):
    """As many clients at once as the worker has threads cost little more than one."""
    check_memory(tmp_path, 8, prepared)
