"""The demo project's settings, with the queues of the test that started the process."""

import os

from project.settings import *
from project.settings import INSTALLED_APPS, REST_FRAMEWORK
from tests.commands import dying
from tests.commands.setting import fdbqueue_setting

# No command needs the API's schema, which takes as long to import as all of the package.
INSTALLED_APPS = [app for app in INSTALLED_APPS if not app.startswith("drf_spectacular")]
REST_FRAMEWORK = {key: value for key, value in REST_FRAMEWORK.items() if "SCHEMA" not in key}
FDBQUEUE = fdbqueue_setting(os.environ["FDBQUEUE_TEST_PREFIX"], os.environ["FDBQUEUE_PATH"])
dying.install()
