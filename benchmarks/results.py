"""The stored lines of whole runs: ``benchmarks/results/*.ndjson``.

``embedded`` is on a disk, ``memory`` the same engine with its files in memory.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "results"

Record = dict[str, Any]


@dataclass
class Results:
    """What was measured on one engine: of a line that was measured again, the last.

    Attributes:
        engine: The engine's name, or ``memory``.
        machine: What it was measured on; empty where nothing was.
        lines: The lines, in the order of their first measurement.
    """

    engine: str
    machine: Record = field(default_factory=dict)
    lines: list[Record] = field(default_factory=list)

    @classmethod
    def read(cls, engine: str, folder: Path = FOLDER) -> Results:
        """Return what is stored of an engine, nothing where that is nothing."""
        file = folder / f"{engine}.ndjson"
        found = cls(engine)
        if not file.exists():
            return found
        lines: dict[tuple[str, ...], Record] = {}
        for text in file.read_text(encoding="utf-8").splitlines():
            record = json.loads(text)
            if "machine" in record:
                found.machine = found.machine or record["machine"]
            else:
                lines[record["benchmark"], record["name"], record["peer_name"]] = record
        found.lines = list(lines.values())
        return found

    def of(self, *benchmarks: str) -> list[Record]:
        """Return the lines of some benchmarks, in the order of these."""
        return [line for name in benchmarks for line in self.lines if line["benchmark"] == name]

    @property
    def is_whole(self) -> bool:
        """Whether all was measured at its full length."""
        return all(line["scale"] == "full" for line in self.lines)
