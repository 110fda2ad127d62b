"""How gunicorn serves the demo project: ``gunicorn --config python:project.gunicorn_conf``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

bind = os.environ.get("GUNICORN_BIND", "0.0.0.0:8000")  # of a container
workers = int(os.environ.get("WEB_CONCURRENCY", "2"))
worker_class = "gthread"
threads = 32  # of each worker; a long poll holds one
# A worker takes no request that none of its threads is free for: another worker may have one that
# is. It keeps no connection open then, which the proxy in front does not need. That one is there:
# without it a client that does not close its connections stops a worker.
worker_connections, keepalive = threads, 0
preload_app = True  # queues are opened by the workers, on first use
worker_tmp_dir = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108  # gunicorn's advice
accesslog = "-"
control_socket_disable = True

_METRICS_DIR = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
if _METRICS_DIR:
    Path(_METRICS_DIR).mkdir(parents=True, exist_ok=True)


def child_exit(server: Any, worker: Any) -> None:
    """Forget what only a living worker can say of itself."""
    del server
    if _METRICS_DIR:
        from prometheus_client import multiprocess

        multiprocess.mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]  # no types
