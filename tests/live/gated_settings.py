"""The server's settings, with requests that a test can hold."""

from tests.live.server_settings import *
from tests.live.server_settings import MIDDLEWARE

MIDDLEWARE = ["tests.live.gate.hold", *MIDDLEWARE]
