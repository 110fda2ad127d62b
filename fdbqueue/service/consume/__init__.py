"""Take items from a queue: how a pop goes, from start to end.

1. ``Queue.pop`` has :mod:`consumer` make a *take request* (:class:`round.TakeRequest`): how many
   items, from which end, and its *effect*, a function that pops or leases them.
2. ``Consumer.take`` submits it to the *combiner* of that end (:mod:`fdbqueue.service.combiner`),
   which all threads of the process share (:class:`poppers.ProcessGroup`). If no other thread pops,
   the calling thread does the rest itself; else the process's helper thread does it for all, in one
   transaction. If there are no items, and it may wait, it waits and submits again.
3. That transaction is a *round* (:mod:`round`). It reads the queue's state (:mod:`state`) and its
   head (:mod:`head`), requeues what has expired (:mod:`expiry`), and takes items for each request
   in order, as far as limits allow (:mod:`allowance`), then for the *help requests* of other
   processes (:mod:`help`). A row that cannot be decoded stays, with all rows of its request and of
   those after it.
4. The commit verifies what was read. :mod:`contention` decides what follows a conflict.
5. If there is nothing to take, the process's waiters sleep at one watch (:mod:`waiting`). Whether
   there is something now, from a moment on, or once a key has changed, says :mod:`prospect`.

A take from several queues (:mod:`several`) serves rounds (:mod:`visits`) on a walk (:mod:`ring`):
over a list, or over the index of a family (:mod:`families`).

:mod:`acks` ends and extends leases, in transactions that pushes share
(:mod:`fdbqueue.service.writes`); :mod:`leases` has the steps within one; :mod:`dead_letters` buries
and redrives.

What is guaranteed, whatever ends a thread or a process:

- Before a transaction takes up a request, nothing is taken for it. A thread that leaves is told so.
- From then until the result is known, the outcome is unknown to a thread that leaves. The helper
  thread requeues the items that were taken for it. A process that dies right after a commit has
  popped its items, or holds its leases until they expire.
- Only threads of one process share transactions, and no signal interrupts the helper. An unknown
  outcome of a commit is resolved by its receipt before anything else is done; if it cannot be,
  every request in it ends with ``OutcomeUnknown``.
- Items that are handed over return, or are popped by the process that asked: one of the two. Items
  that another process leases for this one are leased from that commit on.
"""
