"""The benchmarks run, and their results are what the documentation shows."""
