"""The settings of a server on the cluster engine, over the stand-in for its binding."""

import os

from tests.live import binding
from tests.live.server_settings import *
from tests.live.server_settings import FDBQUEUE, INSTALLED_APPS

binding.install(os.environ["FDBQUEUE_PATH"], os.environ["FDBQUEUE_TEST_OPENED"])
FDBQUEUE = {
    **FDBQUEUE,
    "ENGINE": "fdbqueue.engines.foundationdb",
    "OPTIONS": {"cluster_file": "/nowhere/fdb.cluster"},
}
if os.environ.get("FDBQUEUE_TEST_OPENS"):
    INSTALLED_APPS = [*INSTALLED_APPS, "tests.live.opening"]
