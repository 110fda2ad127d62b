"""The stored lines of whole runs: ``benchmarks/results/*.ndjson``.

``embedded`` is on a disk, ``memory`` the same engine with its files in memory; ``simulated`` is on
no machine at all (:mod:`benchmarks.distant`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "results"

Record = dict[str, Any]


@dataclass
class Run:
    """The lines of one run that count.

    Attributes:
        machine: What they were measured on, and how busy that was when the run began.
        lines: The lines.
    """

    machine: Record
    lines: list[Record] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether all was measured at its full length."""
        return all(line["scale"] == "full" for line in self.lines)


@dataclass
class Results:
    """What was measured on one engine: of a line that was measured again, the last.

    Attributes:
        engine: The engine's name, ``memory`` or ``simulated``.
        lines: The lines, in the order of their first measurement.
        runs: Those of each run, where the run has any that was not measured again.
    """

    engine: str
    lines: list[Record] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)

    @classmethod
    def read(cls, engine: str, folder: Path = FOLDER) -> Results:
        """Return what is stored of an engine, nothing where that is nothing."""
        file = folder / f"{engine}.ndjson"
        if not file.exists():
            return cls(engine)
        runs: list[Run] = []
        lines: dict[tuple[str, ...], tuple[Record, Run]] = {}
        for text in file.read_text(encoding="utf-8").splitlines():
            record = json.loads(text)
            if "machine" in record:
                runs.append(Run(record["machine"]))
            else:
                key = record["benchmark"], record["name"], record["peer_name"]
                lines[key] = record, runs[-1]
        for line, run in lines.values():
            run.lines.append(line)
        return cls(engine, [line for line, _ in lines.values()], [run for run in runs if run.lines])

    def of(self, *benchmarks: str) -> list[Record]:
        """Return the lines of some benchmarks, in the order of these."""
        return [line for name in benchmarks for line in self.lines if line["benchmark"] == name]
