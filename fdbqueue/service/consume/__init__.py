"""Take items from a queue: how a pop goes, from start to end.

1. ``Queue.pop`` has ``Consumer.pop_request`` (:mod:`consumer`) make a *take request*
   (:class:`round.TakeRequest`): how many items, from which end, and its *effect*, a function that
   pops or leases them. ``Consumer.lease_request`` makes that of a lease, and ``Batches.lease``
   (:mod:`fdbqueue.service.bulk.batches`) that of a batch.
2. ``Consumer.take`` looks for items by ``take_now``. When there are none, and it may wait, it waits
   and looks again. Each look submits the request to the *combiner* of that end
   (:mod:`fdbqueue.service.combiner`), which all threads of the process share
   (:class:`poppers.ProcessGroup`). The combiner calls the *poppers* (:mod:`poppers`). When no other
   thread pops, the calling thread does the rest itself. Otherwise it waits, and the process's
   helper thread does the rest for all waiting threads, in one transaction.
3. That transaction is a *round* (:mod:`round`). It reads the queue's state (:mod:`state`) and the
   head of the queue (:mod:`head`), requeues what has expired (:mod:`expiry`), and takes items for
   each request in order, then for the *help requests* of other processes (:mod:`help`), if there
   are any. It decodes the rows that were taken, and pops or leases the items (``Taker.deliver``).
   If a row cannot be decoded, the same transaction writes all rows of its request and of those
   behind it again: it stays, and no request passes it.
4. The commit verifies what was read. :mod:`contention` decides what follows a conflict: another
   round, after a pause from the third on; one of the other processes takes items for this one, too
   (:mod:`help`); a round takes items ``AS_SEEN`` (:class:`head.Order`): at the max end it takes the
   items that were last at its read version, and depends on nothing but these items; it reserves the
   engine's file; or, in a queue with shards, which has many heads, it takes other rows.
5. When the queue is empty, or a limit keeps its items back (:mod:`allowance`, which a round asks
   before it takes), the process's poppers wait at one watch (:mod:`waiting`).

When a queue has something to take is what a *look* at it says (:mod:`prospect`): now, from a moment
on, or once a key has changed.

A take from several queues (:mod:`several`) has a combiner of its own, and its transaction serves
rounds (:mod:`visits`) in the queues on a walk (:mod:`ring`): over a list, in order or in turn; or,
from a pattern in turn, over an index of the members that have something (:mod:`families`).

Leased items are acknowledged, given up and extended by :mod:`acks`; :mod:`leases` has the steps
within a transaction, :mod:`dead_letters` buries and redrives. Acks, nacks and extends of several
threads share transactions with their pushes (:mod:`fdbqueue.service.writes`); a lease may end
others in its own round, by the same :class:`leases.Ack`.

What is guaranteed at each step, whatever ends a thread or a process:

- Before a transaction takes up a request, nothing is taken for it. A thread that leaves then,
  because of its time limit or a signal handler's exception, gets an error that says so.
- From then until the result is known, the outcome is unknown to a thread that leaves. Items
  that were taken for it are requeued (``Consumer.requeue_popped``) by the helper thread. A process
  that dies right after a commit has popped its items, or holds its leases until they expire.
- Only the threads of one process share its transactions, and no signal can interrupt the helper
  thread. A commit with an unknown outcome is resolved by its receipt before anything else is
  done; when that is impossible, every request in it ends with ``OutcomeUnknown``.
- Items that are handed over are in one handoff until a transaction collects them, or requeues
  them when the handoff has expired. Both transactions depend on it, so only one takes effect.
- Items that another process leases for this one are leased from that commit on, and the leases that
  were to end have ended in it. ``docs/decisions/0015-leases-written-for-others.md`` says what each
  crash, error and pause leaves behind.
"""
