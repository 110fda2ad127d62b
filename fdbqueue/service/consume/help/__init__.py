"""Help between processes: one whose takes conflict has others take items for it.

1. **Ask** (:mod:`asking`). After two conflicts in a row with poppers of other processes
   (:mod:`fdbqueue.service.consume.contention`), the helper thread writes a *help request* for its
   waiting threads, in one commit: which end, how many items, and how long it is valid. Threads that
   ask for leases of the same length, under the same worker's name and without idempotency keys,
   share a request that says so, and names the leases that are to end with it.
2. **Give** (:mod:`giving`). The process that takes items at that end next takes items for the
   oldest requests, too, in the same transaction: for the first of them, then for others up to 1,000
   items and old leases together, until a megabyte of values is taken. For a pop it moves them into
   a *handoff* under the request's name. For leases it ends those that are named, leases the items,
   and names these leases in the request's row: nothing remains to be collected.
3. **Collect**. The first process looks for its answer after the time that this usually takes, then
   again and again. It collects a handoff in a transaction of its own, which removes both rows. Of
   leases it reads the row and the items; it removes the row when it takes items or asks again.
4. **Take over**. When no process has taken anything for a while, the one whose request is the
   oldest takes items for all requests. So one process leads for as long as it takes items, and then
   the next in line leads.

The rows are those of :mod:`fdbqueue.service.storage.handoffs`: a request or a handoff expires by
the database's versions. Then the next popper requeues the items
(:mod:`fdbqueue.service.consume.expiry`), and the process writes a new request. What is left behind
by

- *a thread that leaves*: nothing, until a transaction collects a handoff: until then nothing has
  been taken for it, and its items are requeued by the transaction that collects the others. Items
  that were leased for it are requeued by the helper thread. While a request that ends leases is
  open, it is told that its outcome is unknown;
- *a process that dies*: a handoff, whose items are requeued when it expires; or leases, which stay
  until they expire, as all leases of a dead process do;
- *a row that is gone*: it was served if none of the leases is held that were to end; then their
  threads are told that the outcome is unknown. Otherwise they ask again;
- *an item that cannot be decoded*: it stays, and nothing behind it is given to any process.
"""
