"""Metrics for Prometheus; needs ``prometheus-client``, the extra ``metrics``.

With ``"fdbqueue.metrics"`` in ``INSTALLED_APPS`` each process measures what its queues do;
see docs/monitoring.md for the names.
"""
