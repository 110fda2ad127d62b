"""The demo project's settings, with the queues of the test that started the process."""

import os

from project.settings import *
from tests.commands import dying
from tests.commands.setting import fdbqueue_setting

FDBQUEUE = fdbqueue_setting(os.environ["FDBQUEUE_TEST_PREFIX"], os.environ["FDBQUEUE_PATH"])
dying.install()
