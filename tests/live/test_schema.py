"""Schemathesis: what the schema allows and forbids, sent to a live server.

No answer may be a 500, and none may be other than the schema says. ``make fuzz`` sets
``FDBQUEUE_FUZZ_SECONDS``, for how long to look; else it is a short look, always the same.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.live.server import ROOT, Server

SECONDS = os.environ.get("FDBQUEUE_FUZZ_SECONDS")
SHORT = ["--max-examples", "3", "--seed", "1"]
LONG = ["--max-examples", "100000", "--max-time", SECONDS or ""]


@pytest.fixture
def impatient_server(tmp_path, prepared):
    """A server with demo data of its own, on which long polls end soon."""
    with Server(tmp_path, "tests.live.impatient_settings", tables=prepared.tables) as server:
        yield server
    assert "Traceback" not in server.errors


def test_the_schema_is_kept(impatient_server, tmp_path):
    """In every phase of schemathesis, with all its checks."""
    token = impatient_server.manage("demo", "--token").strip()
    quakes = "project/sample_data/earthquakes.ndjson"
    impatient_server.manage("queue_push", "quakes", quakes, "--priority-field", "magnitude")
    done = subprocess.run(
        [
            *(sys.executable, "-c", "import schemathesis.cli; schemathesis.cli.schemathesis()"),
            *("--config-file", str(ROOT / "tests/live/schemathesis.toml"), "run", "--no-color"),
            *(f"{impatient_server.address}/api/schema/", *(LONG if SECONDS else SHORT)),
        ],
        cwd=tmp_path,  # it leaves what it has found there
        env={
            **impatient_server.environment,
            "FDBQUEUE_TEST_API": impatient_server.api,
            "FDBQUEUE_TEST_TOKEN": token,
            "PYTHONWARNINGS": "default",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900 + int(SECONDS or 0) * 2,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-50_000:]
    assert "passed" in done.stdout
    print(done.stdout)  # noqa: T201  # ``make fuzz`` shows it
