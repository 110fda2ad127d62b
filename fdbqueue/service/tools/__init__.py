"""Tools for workers, commands and pages, built from the public methods of a queue.

Objects over several queues belong here, too, such as a sharded queue.

- :mod:`worker`: call a function for each item, and acknowledge it.
- :mod:`streams`: lease one batch after the other, or move them to another queue.
- :mod:`load`: push from a source, and resume after an interruption.
- :mod:`scan`: search the items of a queue, up to a number of items and bytes.
- :mod:`upkeep`: count a queue item by item, requeue what has expired, and remove what clients that
  died have left, their receipts among it.
"""
