"""The demo project's settings, with the queues and files of one server under test."""

import os

from project.settings import *
from project.settings import DATABASES, MIDDLEWARE
from tests.live.setting import fdbqueue_setting

DATABASES = {
    "default": {
        **DATABASES["default"],
        "NAME": os.environ["FDBQUEUE_TEST_DJANGO"],
        "CONN_MAX_AGE": None,  # a thread keeps its connection
    }
}
FDBQUEUE = fdbqueue_setting(os.environ["FDBQUEUE_TEST_PREFIX"], os.environ["FDBQUEUE_PATH"])
MIDDLEWARE = ["tests.live.worker.tell_worker", *MIDDLEWARE]
