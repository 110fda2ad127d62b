"""The same for a server whose threads a test may hold."""

from tests.live.server_settings import *  # noqa: F403
from tests.live.server_settings import MIDDLEWARE

MIDDLEWARE = ["tests.live.gate.hold", *MIDDLEWARE]
