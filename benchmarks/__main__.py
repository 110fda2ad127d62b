"""Run the benchmarks: ``python -m benchmarks [--json] [--quick] [--folder DIR] [NAME...]``."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

from benchmarks import commands, contention, costs, embedded, http, pages
from benchmarks.measure import Line
from benchmarks.plan import Plan

BENCHMARKS = {
    **embedded.BENCHMARKS,
    **costs.BENCHMARKS,
    **contention.BENCHMARKS,
    **http.BENCHMARKS,
    **commands.BENCHMARKS,
    **pages.BENCHMARKS,
}


def main() -> None:
    """Run those that were named, or all, and print a line for each measurement."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--quick", action="store_true", help="one short round of each")
    parser.add_argument(
        "--folder", type=Path, help="where the files are made; its disk is what is measured"
    )
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    cluster_file = os.environ.get("FDB_CLUSTER_FILE") or None
    for name in arguments.names or BENCHMARKS:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            for line in BENCHMARKS[name](Plan(Path(folder), cluster_file, arguments.quick)):
                print(json.dumps(line.as_dict()) if arguments.json else _text(line), flush=True)


def _text(line: Line) -> str:
    text = (
        f"{line.name:32} {line.ours:12,.2f} {line.unit:3}"
        f" {line.peer_name:24} {line.peer:12,.2f}"
        f"  ratio {line.ratio:5.2f} ({line.lowest_ratio:.2f} to"
        f" {line.highest_ratio:.2f}), {line.bar}"
    )
    if line.our_latency:
        text += f"\n{'':32} {line.our_latency}; {line.peer_name}: {line.peer_latency}"
    return text


if __name__ == "__main__":
    main()
