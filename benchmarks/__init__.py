"""Measurements: ours beside a peer or a limit, in one run. See docs/benchmarks.md."""
