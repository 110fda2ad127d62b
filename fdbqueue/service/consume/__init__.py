"""Take items from a queue: how a pop or a lease goes, from start to end.

    request--->combiner--->poppers--->round------>commit--->items
       ^                    ^  ^      head         |  |
       |                    |  |      expiry       |  +-->nothing
       |                    |  |      allowance    |         |
       |                    |  |      help      conflict     |
       |                    |  |                   |         |
       |                    |  +-----again--------Race       |
       |                    +-handoff--help<--asks-+         |
       +--------------------------wait-----------------------+

1. **Request** (:mod:`consumer`): how many items, from which end, to pop or to lease.
2. **Combine** (:mod:`poppers`) the requests of all threads of the process at one end.
3. **Round** (:mod:`round`): one transaction reads state and rows (:mod:`head`), requeues what has
   expired (:mod:`expiry`), and takes items for each request in order, as far as limits allow
   (:mod:`allowance`), then for other processes (:mod:`help`). A row that cannot be decoded stays,
   with all rows of its request and of those after it.
4. **Commit**: it verifies what was read. After a conflict :mod:`contention` decides.
5. **Wait** (:mod:`waiting`) if there is nothing, until when :mod:`prospect` says.

What is left behind by

- *a thread that leaves*: a helper requeues what was taken for it
  (:mod:`fdbqueue.service.combiner`);
- *a process that dies* right after a commit: its items are popped, or leased until that expires;
- *a commit whose outcome cannot be found out*: ``OutcomeUnknown`` for each request in it
  (:mod:`fdbqueue.service.transactions`).
"""
