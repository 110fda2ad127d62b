"""The demo project's settings for pictures: its own queues on files in a folder of their own."""

from __future__ import annotations

import os
from pathlib import Path

from project.settings import *
from project.settings import DATABASES, INSTALLED_APPS

_FOLDER = Path(os.environ["FDBQUEUE_PATH"]).parent

DATABASES = {"default": {**DATABASES["default"], "NAME": _FOLDER / "django.sqlite3"}}
#: Themes of the admin stand before it.
INSTALLED_APPS = [*os.environ.get("FDBQUEUE_BROWSER_THEME", "").split(), *INSTALLED_APPS]
