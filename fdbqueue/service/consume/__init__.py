"""Take items from a queue: how a pop goes, from start to end.

1. **Request** (:mod:`consumer`): how many items, from which end, and the *effect*, a function that
   pops or leases them.
2. **Combine** (:mod:`poppers`) the requests of all threads of the process at one end.
3. **Round** (:mod:`round`): one transaction reads the queue's state (:mod:`queue_state`) and its
   :mod:`head`, requeues what has expired (:mod:`expiry`), and takes items for each request in
   order, as far as limits allow (:mod:`allowance`), then for other processes (:mod:`help`). A row
   that cannot be decoded stays, with all rows of its request and of those after it.
4. **Commit**: it verifies what was read. :mod:`contention` decides what follows a conflict.
5. **Wait** (:mod:`waiting`), if there is nothing and the call may, as :mod:`prospect` says; then
   again.

A take from several queues (:mod:`any_queue`) serves rounds (:mod:`visits`) on a walk (:mod:`ring`):
over a list, or over the index of a family (:mod:`family_takes`). :mod:`acks` ends and extends
leases, in transactions that pushes share; :mod:`leases` has the steps within; :mod:`dead_letters`
buries and redrives.

What is guaranteed, whatever ends a thread or a process:

- Before a transaction takes up a request, nothing is taken for it, and a thread that leaves is told
  so. From then until the result is known, its outcome is unknown, and a helper thread requeues what
  was taken.
- A process that dies right after a commit has popped its items, or holds its leases until they
  expire.
- A commit's unknown outcome is resolved by its receipt before anything else is done; if it cannot
  be, every request in it ends with ``OutcomeUnknown``.
- Items that are handed over return, or are popped by the process that asked. Items that another
  process leases for this one are leased from that commit on.
"""
