"""Collect the metrics of this process, or of all processes of a server."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from prometheus_client import REGISTRY, CollectorRegistry, multiprocess

from fdbqueue.logs import get_logger
from fdbqueue.metrics.gauges import SizeCollector
from fdbqueue.metrics.operations import OperationMetrics
from fdbqueue.service import instrumentation

logger = get_logger(__name__)

FOLDER = "PROMETHEUS_MULTIPROC_DIR"


@functools.cache
def install() -> None:
    """Measure this process from now on, and register the sizes, in the default registry."""
    instrumentation.add(OperationMetrics(REGISTRY))
    REGISTRY.register(SizeCollector())


def registry() -> CollectorRegistry:
    """Return the registry to expose.

    With ``PROMETHEUS_MULTIPROC_DIR`` in the environment it has the metrics that all processes
    wrote to that folder, or none if there is no such folder; else the metrics of this process.
    The sizes are read from the engine in both cases.
    """
    folder = os.environ.get(FOLDER)
    if folder is None:
        return REGISTRY
    gathered = CollectorRegistry()
    if is_folder(folder):
        multiprocess.MultiProcessCollector(gathered)  # type: ignore[no-untyped-call]  # it has no types
    else:
        logger.error("the folder that processes share is not there", extra={"folder": folder})
    gathered.register(SizeCollector())
    return gathered


def is_folder(name: str) -> bool:
    """Tell whether there is a folder of that name; the empty name is not one."""
    return name != "" and Path(name).is_dir()
