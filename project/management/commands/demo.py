"""Prepare the demo project and serve it: a user, queues with an hour of history, life in them."""

from __future__ import annotations

import contextlib
import functools
import os
import random
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.core.servers.basehttp import ThreadedWSGIServer
from django.urls import reverse

from project.demo import jobs, past, server, user
from project.demo.flows import Stream
from project.demo.life import STEP_SECONDS, Life
from project.demo.queues import flows

_PORT = 8000


class Command(BaseCommand):
    help = (
        "Serve the demo on this machine: create its user, fill new queues with an hour of history, "
        "and go on working in them until Ctrl-C. What is in them is kept for the next time."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--port",
            type=int,
            default=os.environ.get("PORT") or _PORT,
            help="Serve on this port; by default the variable PORT says which, or 8000. "
            "0 takes a free one.",
        )
        parser.add_argument(
            "--token",
            action="store_true",
            help="Only print the user's token for the REST API; the user is created if need be.",
        )

    def handle(self, *_: Any, port: int, token: bool, **__: Any) -> None:
        if not settings.DEBUG:
            raise CommandError("The demo user has a known password. Run this only with DEBUG on.")
        if token:
            self.stdout.write(user.create_user())
            return
        with server.interrupted_by_sigterm(), _bound(port) as bound:
            try:
                self._run(bound)
            except KeyboardInterrupt:
                self._say("\nThe demo has stopped; its data is kept.")

    def _run(self, bound: ThreadedWSGIServer) -> None:
        """Prepare what is missing, then serve."""
        chance = random.Random()
        jobs.be_quiet()
        user.show_login()
        self._say("Preparing the database and the user...")
        call_command("migrate", verbosity=0)
        token = user.create_user()
        streams = [Stream(flow, chance) for flow in flows()]
        self._prepare(streams, chance)
        steps = [functools.partial(stream.step, STEP_SECONDS / 60) for stream in streams]
        with (
            _started(Life([*steps, functools.partial(jobs.enqueue_some, chance)])),
            _started(jobs.Worker()),
            _started(jobs.Worker("rows", threads=1)),
        ):
            self._say(_addresses(bound.server_port, token))
            server.serve(bound)

    def _prepare(self, streams: list[Stream], chance: random.Random) -> None:
        """Write an hour of history into the queues that have none."""
        new = [stream for stream in streams if stream.is_new()]
        if new:
            self._say(f"Writing an hour of history into {len(new)} queues...")
            past.work(new)
        if jobs.is_new():
            self._say("Running tasks of the last hour...")
            ran = jobs.work_through_the_past(chance)
            self._say(f"Ran {ran} tasks; a worker goes on with more while this serves.")
        if not new:
            self._say("The queues are as the demo left them.")

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def _bound(port: int) -> ThreadedWSGIServer:
    try:
        return server.bind(port)
    except (OSError, OverflowError) as error:
        raise CommandError(
            f"Port {port} cannot be used ({error}). Choose another: make run PORT=8001"
        ) from error


@contextlib.contextmanager
def _started(running: Life | jobs.Worker) -> Iterator[None]:
    """Start something, and stop it at the end of the block."""
    running.start()
    try:
        yield
    finally:
        running.stop()


def _addresses(port: int, token: str) -> str:
    """Return what to open, the login being the last line."""
    host = f"http://{server.HOST}:{port}"
    return (
        "\nThe demo is running; Ctrl-C stops it.\n"
        f"REST API  {host}/api/queues/   token {token}\n"
        f"Swagger   {host}/api/docs/\n"
        f"Queues    {host}{reverse('admin:fdbqueue_queuename_changelist')}\n"
        f"Log in    user {user.NAME}, password {user.NAME}"
    )
