"""A module whose import takes as long as the tests' gate is closed."""

from __future__ import annotations

import time

from tests.tasks import jobs

while not jobs.gate.is_set():
    time.sleep(0.001)
