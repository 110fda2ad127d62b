"""The demo project's settings, with the tasks of the test that started the process."""

import os

import fdb.tuple

from project.settings import *
from project.settings import DATABASES, INSTALLED_APPS
from tests.tasks.engines import engine_setting

# Workers need no admin and no API, which are a third of the start of a process.
_NEEDED = ("django.contrib.auth", "django.contrib.contenttypes", "fdbqueue")
INSTALLED_APPS = [app for app in INSTALLED_APPS if app.startswith(_NEEDED)]

FDBQUEUE = {
    **engine_setting(
        "foundationdb" if os.environ.get("FDB_CLUSTER_FILE") else "embedded",
        os.environ["FDBQUEUE_PATH"],
    ),
    "PREFIX": fdb.tuple.unpack(bytes.fromhex(os.environ["FDBQUEUE_TEST_PREFIX"])),
    "QUEUES": {},
}
TASKS = {
    "default": {
        "BACKEND": "fdbqueue.tasks.FdbQueueBackend",
        "QUEUES": ["default", "other"],
        "OPTIONS": {
            "lease_seconds": 1,
            "max_attempts": int(os.environ.get("FDBQUEUE_TEST_ATTEMPTS", "5")),
            "backoff": "tests.tasks.jobs.at_once",
        },
    }
}
if os.environ.get("FDBQUEUE_TEST_ORM"):
    DATABASES = {
        "default": {
            **DATABASES["default"],
            "NAME": os.environ["FDBQUEUE_TEST_ORM"],
            "OPTIONS": {"timeout": 20},
        }
    }
