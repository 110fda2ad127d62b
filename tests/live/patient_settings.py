"""The server's settings, with a long timeout."""

from tests.live.server_settings import *
from tests.live.server_settings import FDBQUEUE

FDBQUEUE = {**FDBQUEUE, "API": {**FDBQUEUE["API"], "TIMEOUT_SECONDS": 300}}
