"""The operations for event loops: each as the one without the leading ``a``, to be awaited.

Transactions run in threads of a pool that all event loops of the process share; waiting for
items takes none. What holds when a task is cancelled is said in
:mod:`fdbqueue.service.threads`, and where items are taken in
:mod:`fdbqueue.service.awaiting.taking`.

No operation takes ``tr`` here. A transaction is read step by step, and its function runs
again after a conflict: write it without ``async``, and await it with :func:`arun`.
"""
