"""Processes that fork after they have awaited something."""

from __future__ import annotations

from tests.engines.children import Child

FORKED = """
import asyncio
from fdb.subspace_impl import Subspace
from fdbqueue.service import FifoQueue

queue = FifoQueue(database, Subspace(("fork",)))


async def work(value):
    await queue.apush(value)
    return (await queue.apop(wait=30)).value


say(asyncio.run(work("parent")))
child = os.fork()
if not child:
    signal.alarm(60)  # nobody else would end it
    say(asyncio.run(work("child")))
    sys.stdout.flush()
    os._exit(0)
os.waitpid(child, 0)
say(asyncio.run(work("parent again")))
"""


def test_parent_and_child_go_on(tmp_path):
    """The child has threads of its own, and the parent keeps its own."""
    with Child(tmp_path / "q.sqlite3", FORKED) as child:
        for word in ("parent", "child", "parent again"):
            child.expect(word)
