"""The server's settings, with short waits and timeouts."""

import os

from tests.live.server_settings import *
from tests.live.setting import fdbqueue_setting

FDBQUEUE = fdbqueue_setting(
    os.environ["FDBQUEUE_TEST_PREFIX"], os.environ["FDBQUEUE_PATH"], max_wait_seconds=0.05
)
