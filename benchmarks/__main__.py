"""Measure: ours, the peer or limit, and the ratio, in one run. See docs/benchmarks.md."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from benchmarks import (
    calls,
    contention,
    costs,
    distant,
    families,
    libraries,
    push_contention,
    task_features,
    task_workers,
    web,
)
from benchmarks.measure import Line
from benchmarks.plan import ENGINES, SCALES, Benchmark, Plan, described

BENCHMARKS: dict[str, Benchmark] = {
    benchmark.name: benchmark
    for module in (
        costs,
        libraries,
        push_contention,
        contention,
        families,
        calls,
        web,
        task_workers,
        task_features,
        distant,
    )
    for benchmark in module.BENCHMARKS
}


#: The status to end with, once there was a signal to end.
_asked_to_end: list[int] = []


def main() -> None:
    """Run those that were named, or all that are not long, and print their lines."""
    signal.signal(signal.SIGTERM, _end)
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.list:
        for benchmark in BENCHMARKS.values():
            print(benchmark)
        return
    unknown = set(arguments.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    # What is started must not find a cluster that was not asked for.
    cluster_file = os.environ.get("FDB_CLUSTER_FILE") or None
    if arguments.engine == "embedded":
        os.environ.pop("FDB_CLUSTER_FILE", None)
        cluster_file = None
    elif cluster_file is None:
        parser.error("--engine cluster: FDB_CLUSTER_FILE must name the cluster's file")
    with contextlib.closing(_records(arguments, cluster_file)) as records:
        for record, text in records:
            line = json.dumps(record)
            print(line if arguments.json else text, flush=True)
            if arguments.save:
                with arguments.save.open("a", encoding="utf-8") as stream:
                    stream.write(line + "\n")
            if _asked_to_end:  # in a finalizer, which passes no exception on
                sys.exit(_asked_to_end[0])


def _end(number: int, _: object) -> None:
    """End by way of all ``with`` blocks, which end processes and remove files and keys."""
    signal.signal(number, signal.SIG_IGN)  # a second one would break off the first's clearing
    _asked_to_end.append(128 + number)
    sys.exit(128 + number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="those of --list")
    parser.add_argument("--list", action="store_true", help="say which there are")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--save", type=Path, metavar="FILE", help="add the JSON to a file, too")
    parser.add_argument(
        "--engine", choices=ENGINES, default="embedded", help="cluster: that of FDB_CLUSTER_FILE"
    )
    parser.add_argument(
        "--folder", type=Path, help="where the files are made; its disk is what is measured"
    )
    scale = parser.add_mutually_exclusive_group()
    quick = scale.add_argument
    quick("--quick", action="store_const", const="quick", dest="scale", help="shorter, says less")
    quick("--scale", choices=SCALES, help=argparse.SUPPRESS)
    parser.set_defaults(scale="full")
    return parser


def _records(
    arguments: argparse.Namespace, cluster_file: str | None
) -> Generator[tuple[dict[str, Any], str]]:
    """Yield what is printed: the machine, then each line, as a record and as a text."""
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        plan = Plan(Path(folder), cluster_file, arguments.scale)
        machine = described(plan)
    yield {"machine": machine}, ", ".join(f"{key} {value}" for key, value in machine.items())
    for benchmark in BENCHMARKS.values():
        is_named = benchmark.name in arguments.names
        if not is_named and (arguments.names or benchmark.is_long):
            continue
        if plan.engine not in benchmark.engines:
            if is_named:
                sys.exit(f"{benchmark.name}: there is nothing to measure on a {plan.engine}.")
            continue
        for line in _lines(benchmark, arguments.folder, plan):
            tags = {"benchmark": benchmark.name, "engine": plan.engine, "scale": plan.scale}
            yield {**tags, **line.as_dict()}, str(line)


def _lines(benchmark: Benchmark, where: Path | None, plan: Plan) -> Iterator[Line]:
    with tempfile.TemporaryDirectory(dir=where) as folder:
        yield from benchmark.run(Plan(Path(folder), plan.cluster_file, plan.scale))


if __name__ == "__main__":
    main()
