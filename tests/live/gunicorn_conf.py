"""Gunicorn's settings for a server that tests start."""

from __future__ import annotations

import ctypes
import signal
import sys
from typing import Any

from tests.live.server import DEADLINE_SECONDS, THREADS, WORKERS

worker_class = "gthread"
workers, threads = WORKERS, THREADS
keepalive, graceful_timeout = DEADLINE_SECONDS, 1
limit_request_line = 0  # what is tested is the API's limit
control_socket_disable = True
access_log_format = "%(s)s %(r)s"

_PR_SET_PDEATHSIG = 1


def on_starting(server: Any) -> None:
    """Let the server end when the tests are killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
