"""Take items from a queue: how a pop goes, from start to end.

1. **Request** (:mod:`consumer`): how many items, from which end, and the *effect*, a function that
   pops or leases them.
2. **Combine** (:mod:`poppers`) the requests of all threads of the process at one end.
3. **Round** (:mod:`round`): one transaction reads the queue's state and the rows at its end
   (:mod:`head`), requeues what has expired (:mod:`expiry`), and takes items for each request in
   order, as far as limits allow (:mod:`allowance`), then for other processes (:mod:`help`). A row
   that cannot be decoded stays, with all rows of its request and of those after it.
4. **Commit**: it verifies what was read. :mod:`contention` decides what follows a conflict.
5. **Wait** (:mod:`waiting`), if there is nothing and the call may, as :mod:`prospect` says.

A take from several queues (:mod:`several_take`) finds one of a list (:mod:`finding`), and takes
from it; of families (:mod:`several_poppers`) it serves rounds (:mod:`visits`) on a walk
(:mod:`ring`). :mod:`acks` ends and extends :mod:`leases`. What is left behind by

- *a thread that leaves*: it is told that nothing was taken for it, or that this is unknown; then a
  helper thread requeues what was (:mod:`fdbqueue.service.combiner`);
- *a process that dies* right after a commit: its items are popped, or its leases held until they
  expire;
- *a commit whose outcome cannot be found out*: each request in it ends with ``OutcomeUnknown``
  (:mod:`fdbqueue.service.transactions`).
"""
