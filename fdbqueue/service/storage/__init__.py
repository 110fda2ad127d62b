"""The stored bytes of queues: keys and tables, items in their states, counts, indexes.

- :mod:`item_keys`: the keys of ready items; :mod:`tables`: all others.
- :mod:`store`: moves items between their states, and decodes their :mod:`rows`.
- :mod:`hidden`: leased, delayed and dead items, and their failures.
- :mod:`format`: what decides how the bytes are read. :mod:`counts`: sizes and history.
- :mod:`handoffs`: help requests, items handed over, and batches.
- :mod:`family_index`: which members may have something to take.

An item keeps its *place*, the bytes of its key after the queue's prefix, in every state, so it
returns to where it was. Every function here takes part in the transaction it is given; none begins
or commits one.
"""
