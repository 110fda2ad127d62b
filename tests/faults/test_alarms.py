"""Ordinary exceptions that a signal handler raises, as job runners' timeouts are."""

from __future__ import annotations

import json

import pytest

from tests.engines.children import Child

_STORM = """
import json, random, time
from fdb.subspace_impl import Subspace
from fdbqueue.service import (run, transactions)

subspace = Subspace(rawPrefix=bytes.fromhex(sys.argv[2]))
transactions.keep_receipts_at(database, subspace["receipts"])
signals = int(sys.argv[3])
dice = random.Random(4)
came = 0

class Alarm(Exception):
    pass

def raise_alarm(_, frame):
    global came
    if frame.f_code.co_name == "_pass_on":
        return  # the engine's own clean-up, which is not what is tested here
    came += 1
    raise Alarm

def write(number):
    run(database, lambda tr: tr.set(subspace["kept"].pack((number,)), b"x"))

def attempt(number):
    signal.setitimer(signal.ITIMER_REAL, dice.uniform(0.00005, longest))
    try:
        write(number)
        return ["done", None]
    except Alarm as alarm:
        return ["raised", getattr(alarm, "outcome_known", None)]

write(0)
began = time.perf_counter()
for number in range(-20, 0):
    write(number)
longest = (time.perf_counter() - began) / 20  # as long as a call takes
signal.signal(signal.SIGALRM, raise_alarm)
told, number = {}, 0
while came < signals:
    number += 1
    try:
        end = attempt(number)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Alarm:  # it came a moment after the call
        continue
    told[number] = end
say(json.dumps(told).replace(" ", ""))
"""


@pytest.mark.parametrize("engine", ["embedded"], indirect=True)
def test_an_alarm_says_what_is_known(database, subspace):
    """Of hundreds that came at any moment of a call, each said the truth, and most said it."""
    with Child(database.path, _STORM, subspace.key().hex(), 600) as child:
        (line,) = child.end()
    told = {int(number): end for number, end in json.loads(line).items()}
    kept = subspace["kept"].range()
    rows = database.create_transaction().get_range(kept.start, kept.stop)
    held = {subspace["kept"].unpack(row.key)[0] for row in rows}
    raised = {number: known for number, (end, known) in told.items() if end == "raised"}
    assert {number for number, (end, _) in told.items() if end == "done"} <= held
    assert not held & {number for number, known in raised.items() if known}
    unknown = {number for number, known in raised.items() if known is False}
    assert unknown & held
    assert unknown - held
    assert sum(known is None for known in raised.values()) < len(raised) / 10
