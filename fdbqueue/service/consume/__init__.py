"""Take items from a queue: how a pop goes, from start to end.

1. **Request** (:mod:`consumer`): how many items, from which end, and the *effect*, a function that
   pops or leases them.
2. **Combine** (:mod:`poppers`) the requests of all threads of the process at one end.
3. **Round** (:mod:`round`): one transaction reads the queue's state and the rows at its end
   (:mod:`head`), requeues what has expired (:mod:`expiry`), and takes items for each request in
   order, as far as limits allow (:mod:`allowance`), then for other processes (:mod:`help`). A row
   that cannot be decoded stays, with all rows of its request and of those after it.
4. **Commit**: it verifies what was read. :mod:`contention` decides what follows a conflict.
5. **Wait** (:mod:`waiting`), if there is nothing and the call may, as :mod:`prospect` says; then
   again.

A take from several queues (:mod:`several_take`) serves rounds (:mod:`visits`) on a walk
(:mod:`ring`): over a list, or over a family's index (:mod:`several_poppers`). :mod:`acks` ends and
extends :mod:`leases`; :mod:`pauses` pauses and resumes; :mod:`dead_letters` buries and redrives.

What is guaranteed, whatever ends a thread or a process:

- A thread that leaves is told that nothing was taken for it, or that this is unknown; then a helper
  thread requeues what was taken (:mod:`fdbqueue.service.combiner`).
- A process that dies right after a commit has popped its items, or holds its leases until they
  expire.
- A commit's outcome is found out before anything else is done; if it cannot be, every request in it
  ends with ``OutcomeUnknown`` (:mod:`fdbqueue.service.transactions`).
- Items that are handed over return, or are popped by the process that asked. Items leased for
  another process are leased from that commit on.
"""
