"""The queues of the demo, and what happens in each: an observatory's work with earthquakes."""

from __future__ import annotations

import itertools
import random
from typing import Any

from fdbqueue.service import Push
from project.demo.earthquakes import records
from project.demo.flows import Flow

#: An item of this queue cannot be decoded, so that nothing behind it is taken.
BLOCKED = "imports"
#: This queue is paused.
PAUSED = "exports"
PAUSED_BECAUSE = "the disk of the archive is full"

_STATIONS = ("ANMO", "COLA", "HNR", "KIP", "MAJO", "PAYG", "SNZO", "TUC")
_READERS = ("ada", "barbara", "grace", "hedy", "inge", "mary", "rosalind", "vera")
_BROKEN_ADDRESSES = {
    "nobody@example.org": "SMTPRecipientsRefused: 550 no mailbox has this name",
    "full@example.org": "SMTPDataError: 452 the mailbox is full",
}
_STRONG = 5
_MINUTE = 60.0


class _Catalogue:
    """The sample's earthquakes, again and again."""

    def __init__(self) -> None:
        self._records = itertools.cycle(records())

    def push(self, chance: random.Random) -> Push:
        """Return the next earthquake, its magnitude being its priority; some weak ones wait."""
        record = next(self._records)
        waits = record["magnitude"] < _STRONG and chance.random() < 0.03
        return Push(record, record["magnitude"], delay=20 * _MINUTE if waits else None)


def _alert(chance: random.Random) -> Push:
    """Return a letter about an earthquake, now and then for later or to a broken address."""
    quake = chance.choice(records())
    reader = f"{chance.choice(_READERS)}@example.org"
    if chance.random() < 0.03:
        reader = chance.choice(sorted(_BROKEN_ADDRESSES))
    value = {"to": reader, "subject": f"Magnitude {quake['magnitude']}: {quake['place']}"}
    return Push(value, delay=30 * _MINUTE if chance.random() < 0.05 else None)


def _alert_failure(value: Any) -> str | None:
    return _BROKEN_ADDRESSES.get(value["to"])


def _pick(chance: random.Random) -> Push:
    """Return when a wave reached a station, as a tuple."""
    return Push((chance.choice(_STATIONS), chance.choice("PS"), round(chance.uniform(0, 90), 2)))


def _waveform(chance: random.Random) -> Push:
    """Return a record of the ground's motion, in bytes."""
    return Push(b"\x00MSEED" + chance.randbytes(chance.randint(200, 2_000)))


def _visit(chance: random.Random) -> Push:
    """Return a visit to a station, of which there is one at a time."""
    station = chance.choice(_STATIONS)
    value = {"station": station, "job": "change the battery"}
    return Push(value, chance.randint(1, 5), unique=station)


def _catalogue_of_a_day(chance: random.Random) -> Push:
    """Return a file to import."""
    return Push({"file": f"catalogue-2018-02-{chance.randint(1, 28):02}.csv", "rows": 250})


def _export(chance: random.Random) -> Push:
    """Return a file to write."""
    return Push({"format": chance.choice(("csv", "kml", "quakeml")), "days": chance.randint(1, 30)})


def _old_message(chance: random.Random) -> Push:
    """Return bytes as an older program pushes them."""
    return Push(
        f"QUAKE;{chance.choice(records())['id']};v1".encode("latin-1"), chance.randint(0, 3)
    )


def _download(chance: random.Random) -> Push:
    """Return what a user has asked for."""
    return Push({"download": f"{chance.choice(records())['id']}.zip"})


def flows() -> list[Flow]:
    """Return what happens in each queue; ``mail`` is left to those who try the demo."""
    return [
        Flow("quakes", 34, _Catalogue().push, takes=14, depth=1_400, lease_seconds=900, held=6),
        Flow(
            "alerts",
            12,
            _alert,
            takes=11,
            depth=25,
            lease_seconds=300,
            held=3,
            failure=_alert_failure,
        ),
        Flow("picks", 24, _pick, takes=23, depth=40),
        Flow("waveforms", 3, _waveform, takes=2.6, depth=20, lease_seconds=1_800, held=4),
        Flow("maintenance", 1, _visit, takes=0.3, depth=6, end="max", lease_seconds=3_600, held=2),
        Flow(BLOCKED, 2, _catalogue_of_a_day, takes=2),
        Flow(PAUSED, 2, _export, takes=2, depth=2),
        Flow("legacy", 1.5, _old_message, takes=1.2, depth=20, end="max"),
        Flow("user-ada", 1, _download, takes=0.8, depth=10),
        Flow("user-grace", 0.5, _download, takes=0.5, depth=3),
    ]
