"""The demo project's settings, with queues of one benchmark."""

import os

from project.settings import *
from project.settings import FDBQUEUE as PROJECT

FDBQUEUE = {
    "ENGINE": PROJECT["ENGINE"],
    "OPTIONS": PROJECT["OPTIONS"],
    "PREFIX": ("fdbqueue-benchmarks", os.environ["FDBQUEUE_BENCHMARKS_PREFIX"]),
    "QUEUES": {
        "quakes": {"kind": "priority", "priority_type": "float"},
        "mail": {"kind": "fifo"},
    },
}
