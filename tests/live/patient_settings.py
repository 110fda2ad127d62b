"""The same for a server that works on a request for as long as that takes."""

from tests.live.server_settings import *  # noqa: F403
from tests.live.server_settings import FDBQUEUE

FDBQUEUE = {**FDBQUEUE, "API": {**FDBQUEUE["API"], "TIMEOUT_SECONDS": 300}}
