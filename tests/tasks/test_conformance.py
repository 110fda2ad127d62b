"""The kit over this backend, with its own worker: all that it can claim holds."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile

import fdb.tuple
from django.core.management import call_command
from django.test import SimpleTestCase, TransactionTestCase, override_settings

from fdbqueue import conf
from fdbqueue.service import run
from tests.conftest import CLUSTER_FILE
from tests.task_backends.kit import CLAIMS, BackendConformance
from tests.tasks.conftest import APPS
from tests.tasks.engines import engine_setting
from tests.tasks.killing import ROOT
from tests.tasks.outboxes import database_at


class Ours(BackendConformance):
    """The backend, and its worker."""

    backend = "fdbqueue.tasks.FdbQueueBackend"
    options = {"lease_seconds": 1, "max_attempts": 3, "backoff": "tests.tasks.jobs.at_once"}  # noqa: RUF012  # the kit's
    claims = frozenset(CLAIMS)
    deadline_seconds = 120.0

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="conformance-", ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        prefix = ("fdbqueue-test", secrets.token_hex(8))
        path = f"{folder.name}/queues.sqlite3"
        engine = "foundationdb" if CLUSTER_FILE else "embedded"
        setting = {**engine_setting(engine, path), "PREFIX": prefix, "QUEUES": {}}
        self._start(override_settings(INSTALLED_APPS=APPS, FDBQUEUE=setting))
        super().setUp()
        self.addCleanup(self.clear, prefix)
        self.folder = folder.name
        self._environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.tasks.process_settings",
            "FDBQUEUE_PATH": path,
            "FDBQUEUE_TEST_ATTEMPTS": "3",
            "FDBQUEUE_TEST_PREFIX": fdb.tuple.pack(prefix).hex(),
        }

    def clear(self, prefix):
        def clear(tr):
            tr.clear_range_startswith(fdb.tuple.pack(prefix))

        run(conf.database(), clear)

    def run_worker(self, count=None):
        call_command("tasks_worker", batch=True, max_tasks=count, verbosity=0)

    def worker_process(self):
        command = [sys.executable, "manage.py", "tasks_worker", "--verbosity", "0"]
        return subprocess.Popen(command, cwd=ROOT, env=self._environment)


class TestOurs(Ours, SimpleTestCase):
    """Everything that the API and the kit have names for."""


class TestOursWithAnOutbox(Ours, TransactionTestCase):
    """All that holds for tasks that are enqueued in a table, too."""

    options = {**Ours.options, "outbox": True}  # noqa: RUF012  # the kit's

    def setUp(self):
        super().setUp()
        path = f"{self.folder}/orm.sqlite3"
        self._start(database_at(path))
        options = json.dumps({"outbox": True})
        self._environment |= {"FDBQUEUE_TEST_ORM": path, "FDBQUEUE_TEST_OPTIONS": options}
        self._environment["DJANGO_SETTINGS_MODULE"] = "tests.tasks.kept_settings"
