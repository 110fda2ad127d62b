"""Serve the demo project on a free port: ``python -m tests.browser.serve [--tasks] [--actions]``.

Prints the port once the server responds. With ``--tasks`` there are tasks in every state, and
their ids are in ``tasks.json``. With ``--actions`` the pages have actions, and there are people who
may do them, and who may not.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.browser.server_settings"

import django
from django.core.management import call_command

import fdbqueue
from project.demo import server
from project.demo.earthquakes import records


def main() -> None:
    """Make the data, say the port, and serve until killed."""
    django.setup()
    call_command("migrate", verbosity=0)
    if "--tasks" in sys.argv:
        from tests.browser import shop

        shop.work()
        shop.wait_in_the_outbox()
        if "--actions" in sys.argv:
            shop.wait_in_groups()
        path = Path(os.environ["FDBQUEUE_BROWSER_FOLDER"]) / "tasks.json"
        path.write_text(json.dumps(shop.addresses()), encoding="utf-8")
    from project.demo.user import create_user  # once Django is set up

    create_user()
    if "--actions" in sys.argv:
        from tests.browser import people

        people.create()
    fdbqueue.queue("quakes").push_many((quake, quake["magnitude"]) for quake in records())
    bound = server.bind(0)
    sys.stdout.write(f"{bound.server_port}\n")
    sys.stdout.flush()
    server.serve(bound)


if __name__ == "__main__":
    main()
