"""The settings of :mod:`tests.commands.copy_project`, and where a process of it is killed."""

import itertools
import os
import signal

from fdbqueue.service.tools import engine_copy
from project.settings import *
from project.settings import INSTALLED_APPS
from tests.commands import copy_project

_NEEDED = ("django.contrib.auth", "django.contrib.contenttypes", "fdbqueue")
INSTALLED_APPS = [app for app in INSTALLED_APPS if app.startswith(_NEEDED)]
INSTALLED_APPS += ["fdbqueue.tasks"] if "fdbqueue.tasks" not in INSTALLED_APPS else []
FDBQUEUE = copy_project.setting_at(
    os.environ["FDBQUEUE_TEST_AT"], os.environ["FDBQUEUE_TEST_PREFIX"]
)
TASKS = copy_project.TASKS
engine_copy.PORTION_BYTES = int(os.environ.get("FDBQUEUE_TEST_PORTION", "1000000"))
_run, _number = engine_copy.run, itertools.count(1)


def _dying_run(database, function, *, wrote=True, **options):
    """Run a transaction; before or after one of those that write, the process kills itself."""
    when, number = os.environ["FDBQUEUE_TEST_DIES"].split()
    is_now = wrote is False and next(_number) == int(number)
    if is_now and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    found = _run(database, function, wrote=wrote, **options)
    if is_now:
        os.kill(os.getpid(), signal.SIGKILL)
    return found


if os.environ.get("FDBQUEUE_TEST_DIES"):
    engine_copy.run = _dying_run
