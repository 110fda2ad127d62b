"""Serve the demo project on a free port: ``python -m tests.browser.serve [--busy] [--tasks]``.

Prints the port once the server responds. With ``--busy`` the demo's data look as after an hour
of work; with ``--tasks`` there are tasks in every state, and their ids are in ``tasks.json``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.browser.server_settings"

import django
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.management import call_command
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.core.wsgi import get_wsgi_application


class Handler(WSGIRequestHandler):
    """Keeps quiet about each request."""

    def log_message(self, *_: object) -> None:
        """Do nothing."""


def main() -> None:
    """Make the data, say the port, and serve until killed."""
    django.setup()
    call_command("migrate", verbosity=0)
    if "--busy" in sys.argv:
        from tests.browser.hour import work

        work()
    if "--tasks" in sys.argv:
        from tests.browser import shop

        shop.work()
        path = Path(os.environ["FDBQUEUE_BROWSER_FOLDER"]) / "tasks.json"
        path.write_text(json.dumps(shop.ids()), encoding="utf-8")
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        call_command("demo", stdout=nowhere)
    server = ThreadedWSGIServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.set_app(StaticFilesHandler(get_wsgi_application()))
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
