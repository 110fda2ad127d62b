"""The stored bytes of queues: keys and tables, items in their states, counts, indexes.

- :mod:`item_keys`: ready items; :mod:`tables`: all other keys; :mod:`format` says how to read them.
- :mod:`store` moves items between their states, and decodes them; :mod:`whereabouts` finds them.
- :mod:`counts`: sizes and history. :mod:`failures`: of attempts. :mod:`handoffs`: help.
  :mod:`family_index`: which members may have something to take.

No function here begins or commits a transaction.
"""
