"""Take items from a queue: how a pop goes, from start to end.

1. ``Queue.pop`` has :mod:`consumer` make a *take request* (:class:`round.TakeRequest`): how many
   items, from which end, and its *effect*, a function that pops or leases them.
2. ``Consumer.take`` submits it to the *combiner* of that end (:mod:`fdbqueue.service.combiner`),
   which all threads of the process share (:class:`poppers.ProcessGroup`). If no other thread pops,
   the calling thread does the rest itself; else the process's helper thread does it for all that
   wait, in one transaction. If there are no items, and it may wait, it waits and submits again.
3. That transaction is a *round* (:mod:`round`). It reads the queue's state (:mod:`state`) and its
   head (:mod:`head`), requeues what has expired (:mod:`expiry`), and takes items for each request
   in order, as far as limits allow (:mod:`allowance`), then for the *help requests* of other
   processes (:mod:`help`). It decodes the rows and applies each effect (``Taker.deliver``). A row
   that cannot be decoded stays, with all rows of its request and of those after it.
4. The commit verifies what was read. :mod:`contention` decides what follows a conflict: another
   round, after a pause; help from other processes; a round ``AS_SEEN`` (:class:`head.Order`); a
   reservation of the engine's file; or, in a queue with shards, other rows.
5. If there is nothing to take, the process's waiters sleep at one watch (:mod:`waiting`). Whether
   there is something now, from a moment on, or once a key has changed, says :mod:`prospect`.

A take from several queues (:mod:`several`) serves rounds (:mod:`visits`) in the queues on a walk
(:mod:`ring`): over a list, or over the index of a family (:mod:`families`).

:mod:`acks` ends and extends leases, in transactions that pushes share
(:mod:`fdbqueue.service.writes`); :mod:`leases` has the steps within one; :mod:`dead_letters` buries
and redrives.

What is guaranteed, whatever ends a thread or a process:

- Before a transaction takes up a request, nothing is taken for it. A thread that leaves then is
  told so.
- From then until the result is known, the outcome is unknown to a thread that leaves. The helper
  thread requeues the items that were taken for it. A process that dies right after a commit has
  popped its items, or holds its leases until they expire.
- Only threads of one process share transactions, and no signal interrupts the helper. A commit with
  an unknown outcome is resolved by its receipt before anything else is done; if it cannot be, every
  request in it ends with ``OutcomeUnknown``.
- Items that are handed over are in one handoff until a transaction collects them, or requeues them
  when it has expired. Both depend on it, so only one takes effect.
- Items that another process leases for this one are leased from that commit on, and the leases that
  were to end have ended in it.
"""
