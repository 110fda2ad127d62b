"""The stored bytes of queues: keys and tables, items in their states, counts, indexes.

- :mod:`item_keys`: the keys of the ready items, in the recipes' layouts; ids and places.
- :mod:`tables`: the keys of everything else that a queue stores, table by table.
- :mod:`hidden`: what is stored of leased, delayed and dead items, of failures and of groups.
- :mod:`rows`: rows of items, and what they are decoded to.
- :mod:`store`: decodes rows into items, and moves items between their states, a few writes each.
- :mod:`format`: what decides how the bytes are read, and the row that all processes compare with.
- :mod:`counts`: the counts and the history that go with each move.
- :mod:`handoffs`: help requests of processes, the items handed over to them, and batches.
- :mod:`families`: the index of a family: which members may have something to take, and when.
- :mod:`ranges`: finds what there is under a prefix by few reads.

An item keeps its *place*, the bytes of its key after the queue's prefix, in every state, so it
returns to where it was. Every function here takes part in the transaction it is given; none begins
or commits one. What stands inside a value is the codec's (:mod:`fdbqueue.service.codecs`).
"""
