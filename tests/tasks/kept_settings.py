"""The settings of a test's processes, with options of the test's own."""

import json
import os

from tests.tasks.process_settings import *
from tests.tasks.process_settings import TASKS

TASKS["default"]["OPTIONS"] |= json.loads(os.environ.get("FDBQUEUE_TEST_OPTIONS", "{}"))
