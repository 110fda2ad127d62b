"""The demo's server: Django's own for development, in the process of the command."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.core.wsgi import get_wsgi_application

HOST = "127.0.0.1"


class QuietHandler(WSGIRequestHandler):
    """Answers requests without a line in the log for each; Django logs what fails."""

    def log_message(self, *_: object) -> None:
        """Do nothing."""


def bind(port: int) -> ThreadedWSGIServer:
    """Take a port, so that requests wait for :func:`serve`; 0 takes any that is free.

    Raises:
        OSError: The port is taken, or not to be had.
    """
    return ThreadedWSGIServer((HOST, port), QuietHandler)


def serve(server: ThreadedWSGIServer) -> None:
    """Serve until this thread is interrupted."""
    server.set_app(StaticFilesHandler(get_wsgi_application()))
    server.serve_forever()


@contextlib.contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does."""

    def interrupt(_number: int, _frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
