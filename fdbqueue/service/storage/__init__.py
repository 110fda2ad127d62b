"""The stored bytes of queues: keys and tables, items in their states, counts, indexes.

- :mod:`item_keys`: the keys of the ready items, in the recipes' layouts, and how their rows are
  read, from one end; ids and places.
- :mod:`tables`: the keys of everything else that a queue stores, table by table: of leases,
  delays, dead letters, counts, history and saved responses.
- :mod:`hidden`: what is stored of an item that is leased, delayed or dead, of its failures, and of
  the groups of dead letters.
- :mod:`rows`: rows of items, and what they are decoded to.
- :mod:`store`: decodes rows into items, and moves items between ready, leased, delayed and dead, a
  few writes each. ``hide`` writes a lease, with the keys that :mod:`tables` defines.
- :mod:`format`: what decides how the bytes are read, and the row that all processes compare with.
- :mod:`counts`: the counts and the history that go with each move.
- :mod:`handoffs`: help requests of processes, and the items handed over to them.
- :mod:`families`: the index of a family: which members may have something to take, and when.
- :mod:`ranges`: finds what there is under a prefix, such as the names of queues, by few reads.

An item has a *place*: the bytes of its key after the queue's prefix. It keeps its place in every
state, so it returns to where it was. Every function here takes part in the transaction it is
given; none begins or commits one. What stands inside a value is the codec's
(:mod:`fdbqueue.service.codecs`).
"""
