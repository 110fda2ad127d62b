"""Help between processes: one whose takes conflict has others take items for it.

1. **Ask** (:mod:`asking`). If :mod:`fdbqueue.service.consume.contention` says so, the helper thread
   writes a *help request* for its waiting threads, by one commit that reads nothing: which end, how
   many items, when it expires. Threads that lease for the same time, under the same worker's name
   and without idempotency keys, share a request for leases. It names the leases that end with it.
2. **Give** (:mod:`giving`). Who takes at that end next serves the oldest requests in the same
   transaction: the first, then others up to 1,000 items and old leases, until a megabyte of values
   is taken. For a pop it moves the items into a *handoff*. For leases it ends those that are named,
   leases the items, and names the new leases in the request's row.
3. **Collect**. The first process looks after the time that help usually takes, then again and
   again. One transaction removes a handoff and its request, and pops the items. Leases are only
   read; their row goes when the process takes or asks again.
4. **Take over**. If no process takes anything for some commits' time, the one whose request is the
   oldest takes items for all; so does each that has waited for a second.

Only who asked collects. Any process may serve an open request, and removes what has expired by its
own clock, requeueing the items (:mod:`fdbqueue.service.consume.expiry`). Each of these depends on
the row, or on the pieces of the handoff, so of two only one takes effect. A request is

- *open*: the items are ready, and the leases that are to end are held;
- *served*: the items are in the handoff, or leased; the leases that were to end have ended;
- *refused*: nothing was done, because one of these leases was lost or an item cannot be decoded.
  The process finds out which by itself;
- *gone*, because it expired: the process takes again. But if leases were to end and none of them is
  held, their threads are told that the outcome is unknown.

What is left behind by

- *a thread that leaves*: nothing. Its items are requeued by who collects, or by the helper thread
  if they were leased. If leases were to end, its outcome is unknown;
- *a process that dies or is stopped*: the request, until it expires. Then what was handed over is
  requeued. Leases stay until they expire;
- *a clock*: one that is ahead by more than the timeout requeues at once what was handed to others,
  who then take by themselves. Beside one that is behind, items return that much later;
- *an item that cannot be decoded*: it stays, and nothing after it is given to any process.

A helped pop is two commits of its own, and no fewer will do:

- Takes are *strictly serialisable*: the item was the first at a moment of the call. So who gives it
  must have seen a commit made after the call began. Who asks for its next pop while it collects
  would be given an item before it pops; what others push or pop until then would pass that item.
- An item that its popper has not seen must return if it dies, and one that it has seen must not. So
  it commits that it has seen it.
"""
