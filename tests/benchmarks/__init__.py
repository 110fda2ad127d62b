"""The benchmarks are run, and the documentation's tables compared with their results."""
