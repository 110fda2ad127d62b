"""The settings of a server whose master uses a queue before it forks."""

from tests.live.server_settings import *
from tests.live.server_settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.live.opening"]
