"""The settings of a server whose master uses a queue before it forks."""

from tests.live.server_settings import *  # noqa: F403
from tests.live.server_settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.live.opening"]
