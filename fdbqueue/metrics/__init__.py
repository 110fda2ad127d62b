"""Metrics for Prometheus; they need ``prometheus-client``, the extra ``metrics``.

How a scrape goes
    With ``"fdbqueue.metrics"`` in ``INSTALLED_APPS``, ``apps.py`` calls ``exposition.install()``
    when a process starts. From then on the service reports every operation, and every error of a
    transaction, to ``operations.OperationMetrics``, which counts and times them in this process.

    A request to ``urls.py`` reaches ``views.MetricsView``. ``fdbqueue.access`` checks its token
    or its user. ``exposition.registry()`` collects the metrics of this process, or of all processes
    that share ``PROMETHEUS_MULTIPROC_DIR``. ``gauges.SizeCollector`` reads the sizes of the queues
    from the engine, within a deadline. A queue of a pattern is counted under the pattern
    (``operations.label_of``), so the number of labels is bounded.

Where to add something
    A counter of operations
        One metric in ``operations.OperationMetrics``: made in ``__init__``, counted in
        ``operation`` or ``engine_error``.
    A size
        Read it in ``fdbqueue/columns/queue_rows.py``, if that does not do so yet, and name the read
        in ``_Sizes.read``; add it up in ``_Sizes._add``, and yield its family in
        ``_Sizes.metrics``.

    Then name it in docs/monitoring.md; a test compares.
"""
