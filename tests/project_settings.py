"""The demo project's settings without its tasks: tests that need tasks have their own."""

from project import settings
from project.settings import *

INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "fdbqueue.tasks"]
globals().pop("TASKS")
