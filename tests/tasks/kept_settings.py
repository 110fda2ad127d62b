"""The settings of a test's processes, with options of the test's own."""

import json
import os

from tests.tasks import process_settings
from tests.tasks.process_settings import *

process_settings.TASKS["default"]["OPTIONS"] |= json.loads(
    os.environ.get("FDBQUEUE_TEST_OPTIONS", "{}")
)
if os.environ.get("FDBQUEUE_TEST_DEBUG"):
    DEBUG = True
