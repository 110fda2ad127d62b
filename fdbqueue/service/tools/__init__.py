"""Tools for workers, commands and pages, built from the public methods of a queue.

Objects over several queues belong here, too, such as a sharded queue.

- :mod:`worker`: call a function for each item, and acknowledge it.
- :mod:`streams`: lease one batch after the other, or move them to another queue.
- :mod:`pace`: choose how many items the next transaction takes.
- :mod:`load`: push from a source, and resume after an interruption.
- :mod:`scan`: search the items of a queue, up to a number of items and bytes.
- :mod:`sweep`: remove the receipts of clients that no longer write.
- :mod:`census`: count a queue item by item, find what has expired, and requeue it.
"""
