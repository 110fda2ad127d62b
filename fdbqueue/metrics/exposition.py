"""Where the metrics of this process, or of all processes of a server, are gathered."""

from __future__ import annotations

import functools
import logging
import os
from pathlib import Path

from prometheus_client import REGISTRY, CollectorRegistry, multiprocess

from fdbqueue.metrics.operations import Measuring
from fdbqueue.metrics.sizes import SizeCollector
from fdbqueue.service import instrumentation

logger = logging.getLogger(__name__)

FOLDER = "PROMETHEUS_MULTIPROC_DIR"


@functools.cache
def install() -> None:
    """Measure in this process from now on, and offer the sizes, in the default registry."""
    instrumentation.add(Measuring(REGISTRY))
    REGISTRY.register(SizeCollector())


def registry() -> CollectorRegistry:
    """Return what to expose.

    With ``PROMETHEUS_MULTIPROC_DIR`` in the environment, what all processes that share
    that folder have written there, or nothing where it is no folder; else what this process
    has measured. The sizes are the engine's in any case.
    """
    folder = os.environ.get(FOLDER)
    if folder is None:
        return REGISTRY
    gathered = CollectorRegistry()
    if is_folder(folder):
        multiprocess.MultiProcessCollector(gathered)  # type: ignore[no-untyped-call]
    else:
        logger.error("the folder that processes share is not there", extra={"folder": folder})
    gathered.register(SizeCollector())
    return gathered


def is_folder(name: str) -> bool:
    """Tell whether processes can share a folder of that name; the empty one is none."""
    return name != "" and Path(name).is_dir()
