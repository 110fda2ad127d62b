"""Tools over a queue: what workers, commands and pages do with its verbs.

- :mod:`worker`: calls a function for each item.
- :mod:`streams`: takes one batch after the other off a queue, or moves them to another.
- :mod:`pace`: how many items the next transaction should take.
- :mod:`load`: pushes from a source that may be interrupted, and goes on where it was.
- :mod:`scan`: searches the items of a queue, within a time limit.
- :mod:`sweep`: removes the receipts of clients that have ended.
- :mod:`census`: counts a queue item by item, finds what has expired, and requeues it.
"""
