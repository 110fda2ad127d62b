"""Remove what tests have left behind on a cluster."""

from __future__ import annotations

import os

import fdb.tuple

from fdbqueue.engines import foundationdb
from fdbqueue.service import run


def forget_queues(prefix: str) -> None:
    """Remove what was pushed under a test's prefix on a cluster; a file goes with its folder."""
    if cluster_file := os.environ.get("FDB_CLUSTER_FILE"):
        everything = fdb.tuple.range(("fdbqueue-test", prefix))
        database = foundationdb.open(cluster_file)
        run(database, lambda tr: tr.clear_range(everything.start, everything.stop))
