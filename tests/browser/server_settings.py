"""The demo project under a strict Content-Security-Policy, with files of its own."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

from project.settings import *
from project.settings import DATABASES, FDBQUEUE, INSTALLED_APPS, MIDDLEWARE

_FOLDER = Path(os.environ["FDBQUEUE_BROWSER_FOLDER"])
_PREFIX = os.environ.get("FDBQUEUE_BROWSER_PREFIX") or secrets.token_hex(8)

MIDDLEWARE = [*MIDDLEWARE, "tests.browser.policy.strict"]
if "fdbqueue.tasks" not in INSTALLED_APPS:
    INSTALLED_APPS = [*INSTALLED_APPS, "fdbqueue.tasks"]
TASKS = {
    "default": {
        "BACKEND": "fdbqueue.tasks.FdbQueueBackend",
        "QUEUES": ["default", "errands", "parcels"],
        "OPTIONS": {
            "lease_seconds": 3_600,
            "grace_seconds": 0.1,
            "schedules": {
                "the-yearly-report-of-a-long-name": {
                    "task": "tests.browser.shop.report",
                    "args": [6],
                    "cron": "0 3 1 1 *",
                }
            },
        },
    }
}
if "--tasks" in sys.argv:
    TASKS["rows"] = {
        "BACKEND": "fdbqueue.tasks.FdbQueueBackend",
        "QUEUES": ["rows"],
        "OPTIONS": {"outbox": True},
    }
DATABASES = {
    "default": {
        **DATABASES["default"],
        "NAME": _FOLDER / "django.sqlite3",
        "OPTIONS": {"timeout": 30},
    }
}
AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "tests.browser.people.OneQueue",
]
FDBQUEUE = {
    **FDBQUEUE,
    "ENGINE": "fdbqueue.engines.embedded",
    "OPTIONS": {"path": _FOLDER / "queues.sqlite3", "durability": "normal"},
    "PREFIX": ("fdbqueue-test", _PREFIX),
    "PAGES": {"actions": "--actions" in sys.argv},
    "QUEUES": {
        "quakes": {"kind": "priority", "priority_type": "float", "max_attempts": 2},
        "mail": {"kind": "fifo", "max_attempts": 3},
        "raw": {"kind": "fifo", "codec": "bytes"},
        "user-*": {"kind": "fifo"},
    },
}
