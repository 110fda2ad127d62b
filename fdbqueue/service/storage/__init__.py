"""The stored bytes of queues: keys and tables, items in their states, counts, indexes.

- :mod:`item_keys`: ready items; :mod:`tables`: all other keys, and leased, delayed and dead items.
- :mod:`store`: moves items between their states, and decodes them. :mod:`failures`: of attempts.
- :mod:`format`: what decides how the bytes are read. :mod:`counts`: sizes and history.
- :mod:`handoffs`: help requests, and items handed over.
- :mod:`whereabouts`: the five places of an item, and how to find it in any.
- :mod:`family_index`: which members may have something to take.

No function here begins or commits a transaction.
"""
