"""Forks while another thread takes items: whatever line it is held up at, the child goes on."""

from __future__ import annotations

import json
import random

import pytest

from tests.engines.children import Child

#: How many lines of each verb are tried; ``make soak`` tries them all.
LINES = 12

#: The child of each fork takes, leases and pushes, and then takes from all queues at once again.
_SCRIPT = """
import json, time
from fdbqueue.service import Catalog, QueueSpec
from fdbqueue.service import instrumentation
from tests.concurrency.preemption import holding_at

names = ("high", "low", "user-*")
catalog = Catalog(database, ("forks",), [QueueSpec(name, "fifo") for name in names])
users = catalog.several(["user-*"])
for n in range(10):
    catalog.queue(f"user-{n}").push_many(range(20))
several, low = catalog.several(["high", "low"]), catalog.queue("low")
low.push_many(range(40))
verbs = {
    "pop_from": several.pop,
    "pop_from, none": lambda: several.pop(end="max", wait=0),
    "lease_from": lambda: several.lease(seconds=600),
    "pop_from, family": users.pop,
    "pop_from, family, none": lambda: catalog.several(["user-x*"]).pop(wait=0.01),
    "lease_from, family": lambda: users.lease(seconds=600),
    "pop": low.pop,
    "lease": lambda: low.lease_many(1, seconds=600, ack=low.lease_many(1, seconds=600)),
    "wait": lambda: high.pop(wait=0.01),
    "push": lambda: low.push("x"),
}
high = catalog.queue("high")
verb = verbs[sys.argv[2]]
for _ in range(2):
    verb()  # what is done once in a process is done


def in_child():
    signal.alarm(120)  # a child that hangs is killed
    low.push_many(range(5))
    catalog.queue("user-0").push_many(range(3))  # what it takes, and what the verb may
    assert several.pop() is not None
    assert several.lease(seconds=600) is not None
    assert users.pop() is not None
    assert users.lease(seconds=600) is not None
    assert low.pop() is not None
    assert low.lease_many(1, seconds=600, ack=low.lease_many(1, seconds=600))
    assert high.pop(wait=0.01) is None


def fork_at(line):
    low.push_many(range(5))
    held, go_on = threading.Event(), threading.Event()
    trace, count = holding_at(line, held, go_on)

    def take():
        sys.settrace(trace)
        try:
            verb()
        finally:
            sys.settrace(None)
            held.set()

    thread = threading.Thread(target=take)
    thread.start()
    assert held.wait(60)
    child = os.fork()
    if not child:
        code = 1
        try:
            in_child()
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    go_on.set()
    thread.join(60)
    assert not thread.is_alive()
    return status, count()


lines = fork_at(0)[1]
chosen = json.loads(sys.argv[3]) or range(1, lines + 1)
chosen = sorted({1 + line % lines for line in chosen})
failed = [line for line in chosen if fork_at(line)[0]]
say(json.dumps([lines, failed], separators=(",", ":")))
"""


def check_forks(path, verb, lines):
    """Fork while a thread is held up at lines of a verb, at all where none is given."""
    with Child(path, _SCRIPT, verb, json.dumps(lines), deadline_seconds=600) as child:
        (said,) = child.end()
    count, failed = json.loads(said)
    assert failed == []
    assert count > 50


VERBS = [
    "pop_from",
    "pop_from, none",
    "lease_from",
    "pop_from, family",
    "pop_from, family, none",
    "lease_from, family",
    "pop",
    "lease",
    "wait",
    "push",
]


@pytest.mark.nightly
@pytest.mark.parametrize("verb", VERBS)
def test_a_fork_while_a_thread_takes(tmp_path, verb):
    """The child takes items at once, in one transaction from several queues, too."""
    dice = random.Random(verb)
    check_forks(tmp_path / "q.sqlite3", verb, [dice.randrange(1_000) for _ in range(LINES)])
