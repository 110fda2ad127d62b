"""Where the metrics of this process, or of all processes of a server, are gathered."""

from __future__ import annotations

import functools
import os

from prometheus_client import REGISTRY, CollectorRegistry, multiprocess

from fdbqueue.metrics.operations import Measuring
from fdbqueue.metrics.sizes import SizeCollector
from fdbqueue.service import observing


@functools.cache
def install() -> None:
    """Measure in this process from now on, and offer the sizes, in the default registry."""
    observing.add(Measuring(REGISTRY))
    REGISTRY.register(SizeCollector())


def registry() -> CollectorRegistry:
    """Return what to expose.

    With ``PROMETHEUS_MULTIPROC_DIR`` in the environment, what all processes that share
    that folder have written there; else what this process has measured. The sizes are the
    engine's in either case.
    """
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return REGISTRY
    gathered = CollectorRegistry()
    multiprocess.MultiProcessCollector(gathered)  # type: ignore[no-untyped-call]
    gathered.register(SizeCollector())
    return gathered
