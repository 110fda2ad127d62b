"""The bytes of a queue: its keys and tables, its items in their states, its counts.

- :mod:`keys`: the keys of the ready items, in the recipes' layouts; ids and places.
- :mod:`tables`: the keys of everything else that a queue stores, table by table.
- :mod:`reader`: reads rows and decodes them into items.
- :mod:`store`: moves items between ready, leased, delayed and dead, a few writes each.
- :mod:`counts`: the counts and the history that go with each move.
- :mod:`handoffs`: help requests of processes, and the items handed over to them.
- :mod:`groups`: finds the names of queues among the keys.

An item has a *place*: the bytes of its key behind the queue's prefix. It keeps its place in
whatever state it is, so that it returns to where it was. Every function here takes part in the
transaction it is given; nothing here begins or commits one.
"""
