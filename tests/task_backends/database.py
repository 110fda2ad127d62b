"""django-tasks-db under the kit, on a database file that its worker processes share."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.contrib import admin
from django.core.management import call_command
from django.db import connections
from django.test import override_settings

from tests.task_backends.kit import ConformanceCase

ROOT = Path(__file__).resolve().parents[2]
APP, LABEL = "django_tasks_db", "django_tasks_database"


@contextmanager
def database_file() -> Iterator[None]:
    """Let the default database be a new file, with the tables of all apps."""
    connection = connections["default"]
    before = connection.settings_dict["NAME"]
    del connections["default"]  # it stays open: the tests' database may be in memory
    with (
        tempfile.TemporaryDirectory(prefix="conformance-") as folder,
        override_settings(INSTALLED_APPS=[*settings.INSTALLED_APPS, APP]),
    ):
        os.environ["CONFORMANCE_DATABASE"] = f"{folder}/database.sqlite3"
        connections.settings["default"]["NAME"] = os.environ["CONFORMANCE_DATABASE"]
        try:
            call_command("migrate", verbosity=0)
            yield
        finally:
            # ready() has registered it in the admin, which forgets nothing by itself
            for model in [one for one in admin.site._registry if one._meta.app_label == LABEL]:
                admin.site.unregister(model)
            connections["default"].close()
            connections["default"] = connection
            connection.settings_dict["NAME"] = before
            del os.environ["CONFORMANCE_DATABASE"]


@contextmanager
def process_wide_state() -> Iterator[None]:
    """Restore what the command changes in its process: handlers of signals, levels of loggers."""
    signals = {
        one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)
    }
    loggers = {logging.getLogger(name): None for name in ("django.tasks", "django_tasks", APP)}
    levels = {logger: logger.level for logger in loggers}
    try:
        yield
    finally:
        for one, handler in signals.items():
            signal.signal(one, handler)
        for logger, level in levels.items():
            logger.setLevel(level)


class DatabaseConformance(ConformanceCase):
    """The configuration of django-tasks-db, and its worker."""

    backend = "django_tasks_db.DatabaseBackend"

    @classmethod
    def setUpClass(cls):
        cls.enterClassContext(database_file())
        super().setUpClass()

    def run_worker(self, count=None):
        with process_wide_state():
            call_command(
                "db_worker",
                batch=True,
                backend_name=self.alias,
                queue_name="*",
                max_tasks=count,
                startup_delay=False,
                reload=False,
                verbosity=0,
            )

    def worker_process(self):
        command = [sys.executable, "-m", "django", "db_worker", "--queue-name=*", "--interval=0.05"]
        return self.popen([*command, "--no-startup-delay", "--no-reload", "--verbosity=0"])

    def popen(self, command):
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.task_backends.worker_settings",
            "PYTHONPATH": str(ROOT),
        }
        return subprocess.Popen(command, cwd=ROOT, env=environment)
