"""Random transactions that read ranges between selectors, beside keys known after the commit.

To record what a cluster answers:

    python -m tests.conformance.stamped_ranges CLUSTER_FILE FIRST COUNT FILE
"""

from __future__ import annotations

import gzip
import json
import random
import secrets
import sys
from typing import Any

from tests.conformance.replay import Replay

_KEYS = [f"6{digit}" for digit in "1234567"]
_OFFSETS = (0, 0, 0, 1, 1, 1, 2, 3, -1, -2)
#: Each with how often it is drawn.
_WRITES = {"set_versionstamped_value": 4, "set": 3, "clear": 2, "clear_range": 1, "add": 1}


def history(seed: int, transactions: int = 4) -> dict[str, Any]:
    """Return a history without its answers: each transaction writes, and then reads one range."""
    dice = random.Random(seed)
    stored = [key for key in _KEYS if dice.random() < dice.choice((0.2, 0.5))]
    steps: list[dict[str, Any]] = []
    for number in range(transactions):
        steps.append({"op": "begin"})
        steps += [_write(dice) for _ in range(dice.randint(1, 5))]
        steps.append(_read(dice))
        steps.append({"op": "commit"} if dice.random() < 0.3 else {"op": "cancel"})
        for step in steps:
            step.setdefault("t", number)
    setup = [[key, "76"] for key in stored]
    return {"seed": seed, "style": "selectors", "setup": setup, "steps": steps}


def _write(dice: random.Random) -> dict[str, Any]:
    (op,) = dice.choices([*_WRITES], [*_WRITES.values()])
    key = dice.choice(_KEYS)
    if op == "clear_range":
        begin, end = sorted((key, dice.choice(_KEYS)))
        return {"op": op, "begin": begin, "end": end}
    if op == "clear":
        return {"op": op, "key": key}
    return {"op": op, "key": key, "param" if op == "add" else "value": "01"}


def _read(dice: random.Random) -> dict[str, Any]:
    begin, end = (
        [dice.choice(_KEYS), dice.random() < 0.5, dice.choice(_OFFSETS)] for _ in range(2)
    )
    limit, reverse = dice.choice((0, 0, 1, 2, 3)), dice.random() < 0.5
    read = {"op": "get_range", "begin": begin, "end": end, "limit": limit, "reverse": reverse}
    return {**read, "snapshot": False}


def _record(cluster_file: str, first: str, count: str, path: str) -> None:
    import fdb

    fdb.api_version(730)
    database = fdb.open(cluster_file)
    with gzip.open(path, "wt") as file:
        for seed in range(int(first), int(first) + int(count)):
            place = b"conformance-" + secrets.token_hex(8).encode() + b"/"
            recorded = Replay(database, place, fdb.KeySelector).recorded(history(seed))
            file.write(json.dumps(recorded) + "\n")
            database.clear_range(place[:-1] + b".", place[:-1] + b"1")


if __name__ == "__main__":
    _record(*sys.argv[1:])
