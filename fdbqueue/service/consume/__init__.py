"""Take items from a queue: how a pop goes, start to end.

1. ``Queue.pop_many`` makes a *take request* (:mod:`requests`): how many items from which end,
   and what becomes of them: popped, leased, or held as a batch.
2. The *popper group* of the queue in this process (:mod:`poppers`) hands it to the *combiner*
   of that end (:mod:`combiner`). Alone, the calling thread does the rest itself. Beside other
   threads it waits, and the process's helper thread does it for all who wait, in one
   transaction.
3. That transaction is a *round* (:mod:`round`): it reads the head of the queue (:mod:`head`)
   and the queue's state at once, puts back what has expired (:mod:`expiry`), takes items for
   each request in order, and then for the *help requests* of other processes
   (:mod:`handoffs`). The *taker* (:mod:`taker`) decodes what was taken before anything is
   removed: an item that cannot be decoded stays, and no request gets past it.
4. The commit proves what was read. After two conflicts in a row with poppers of other
   processes, the helper asks them for help (:mod:`staging`): one of them takes for this
   process, too, and hands the items over. After two conflicts with pushes, at the max end, a
   round takes what was last at its read version and depends on the items it takes alone.
5. An empty queue is waited at by one watch a process (:mod:`wakeups`).

What is true at each step, whatever ends a thread or a process:

- Before a transaction has taken a request up, nothing is taken for it. A thread that leaves
  then, because its time is over or a signal handler has raised, is told so, and it is true.
- From then until its result is known, the outcome is unknown to who leaves. What was taken
  all the same is put back (:mod:`requeue`) by the helper. A process that dies right after a
  commit has popped its items, or holds its leases until they expire.
- Only a process's own threads share its transactions, and no signal can end the helper's. One
  whose commit has an unknown outcome is settled by its receipt before anything else is done;
  where that cannot be, every request that it had taken up ends in ``OutcomeUnknown``.
- Items handed over are in one handoff, under one name, until the transaction that collects
  them, or the one that puts them back when the handoff has expired: both depend on it, so only
  one of them happens.
"""
