"""Prepare the demo project: a user with all permissions, a queue of earthquakes, and tasks."""

from __future__ import annotations

import datetime
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone
from rest_framework.authtoken.models import Token

import fdbqueue
from fdbqueue.tasks import FdbQueueBackend
from fdbqueue.tasks.compat import task_backends
from fdbqueue.tasks.worker import TaskWorker

_EARTHQUAKES = Path(__file__).resolve().parents[2] / "sample_data" / "earthquakes.ndjson"
_NAME = "demo"
_REPORTS = "reports"


class Command(BaseCommand):
    help = (
        "Create the demo user, fill the queue of earthquakes, enqueue and run tasks, and print the "
        "addresses."
    )

    def handle(self, *_: Any, **__: Any) -> None:
        if not settings.DEBUG:
            raise CommandError("The demo user has a known password. Run this only with DEBUG on.")
        token = _create_user()
        quakes = fdbqueue.queue("quakes")
        if quakes.peek() is None:
            count = quakes.push_many(_earthquakes())
            self.stdout.write(f"Pushed {count} earthquakes into the queue 'quakes'.")
        backend = task_backends["default"]
        if isinstance(backend, FdbQueueBackend) and _REPORTS in backend.queues:
            self.stdout.write(_run_tasks(backend))
        host = f"http://127.0.0.1:{os.environ.get('PORT') or 8000}"
        self.stdout.write(f"Pages     {host}/admin/   user {_NAME}, password {_NAME}")
        self.stdout.write(f"REST API  {host}/api/queues/   token {token}")
        self.stdout.write(f"Swagger   {host}/api/docs/")


def _create_user() -> str:
    """Create the user unless there is one, and return the token."""
    user, created = get_user_model().objects.get_or_create(
        username=_NAME, defaults={"is_staff": True}
    )
    if created:
        user.set_password(_NAME)
        user.save()
    user.user_permissions.add(*Permission.objects.filter(content_type__app_label="fdbqueue"))
    token, _ = Token.objects.get_or_create(user=user)
    return token.key


def _run_tasks(backend: FdbQueueBackend) -> str:
    """Enqueue tasks of which some have run, some wait, and some have failed; say how many."""
    from project import tasks  # which can be imported only where the setting has their queues

    if any(backend.queue(name).peek() for name in ("default", "reports")):
        return "There are tasks already."
    for place in ("Alaska", "Japan", "California", "Chile", "Indonesia", "Fiji"):
        tasks.summarise.enqueue(place)
    for magnitude in (6.4, 7.1):
        tasks.alert.enqueue(magnitude)
    worker = TaskWorker(backend, follow=False)
    logging.disable(logging.ERROR)  # Django logs each task that fails, as two do on purpose
    try:
        worker.run()
    finally:
        logging.disable(logging.NOTSET)
    for place in ("Tonga", "Peru", "Mexico"):
        tasks.summarise.enqueue(place)
    tomorrow = timezone.now() + datetime.timedelta(days=1)
    tasks.summarise.using(run_after=tomorrow).enqueue("Alaska")
    return (
        f"Ran {worker.succeeded + worker.failed} tasks, of which {worker.failed} failed; four wait "
        "for: manage.py tasks_worker"
    )


def _earthquakes() -> Iterator[tuple[dict[str, Any], float]]:
    with _EARTHQUAKES.open(encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            yield record, record["magnitude"]
