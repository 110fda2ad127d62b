"""Operations on many items at a time, in as many transactions as that takes.

- :mod:`move`: move items to another queue.
- :mod:`remove`: remove items by their ids, or by their state.
- :mod:`recount`: correct the counts of a queue that other programs write to.
- :mod:`reshape`: move the ready items to the keys that another number of shards gives them.

Elsewhere: one batch after the other in :mod:`fdbqueue.service.tools.streams`; many acks, nacks
and extensions of one caller in :mod:`fdbqueue.service.consume.acks`; operations of several
threads that share a transaction in :mod:`fdbqueue.service.combiner`.
"""
