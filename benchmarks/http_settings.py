"""The server's settings, with a view beside the API that does nothing."""

from tests.live.server_settings import *

ROOT_URLCONF = "benchmarks.http_urls"
