"""Many items at a time, in as many transactions as that takes.

- :mod:`batches`: many items leased under one token, for a drain.
- :mod:`move`: items taken from one queue and written to another, in one transaction.
- :mod:`remove`: items removed by their ids, or by their state.
- :mod:`recount`: the counts of a queue corrected, which other programs write to.

What takes one batch after the other is built over queues: :mod:`fdbqueue.service.tools.streams`.
"""
