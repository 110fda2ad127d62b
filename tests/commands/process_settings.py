"""The demo project's settings, with the queues of the test that started the process."""

import os

from project.settings import *
from project.settings import INSTALLED_APPS
from tests.commands import dying
from tests.commands.setting import fdbqueue_setting

# Commands need no admin and no API, which a process would take a sixth of its time to import.
_NEEDED = ("django.contrib.auth", "django.contrib.contenttypes", "fdbqueue")
INSTALLED_APPS = [app for app in INSTALLED_APPS if app.startswith(_NEEDED)]
FDBQUEUE = fdbqueue_setting(os.environ["FDBQUEUE_TEST_PREFIX"], os.environ["FDBQUEUE_PATH"])
dying.install()
