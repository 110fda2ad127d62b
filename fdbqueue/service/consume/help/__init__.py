"""Help between processes: one whose takes conflict has others take items for it.

1. **Ask** (:mod:`asking`). The helper thread writes a *help request* for its waiting threads, by a
   commit that reads nothing. One for leases names the leases that end with it.
2. **Give** (:mod:`giving`). The next take at that end serves the oldest requests in the same
   transaction. For a pop it moves the items into a *handoff*. For leases it ends those that are
   named, leases the items, and names the new leases in the request's row.
3. **Collect**. The asker looks again and again. One transaction removes a handoff and its request,
   and pops the items. Leases are only read; their row goes with the next take or request.
4. **Take over**. If for a while no process takes anything, the one whose request is the oldest
   takes items for all; so does each that has waited for a second, and it tries until it has won or
   was served, as if there were no help.

Only the asker collects. Any process may serve an open request, and removes what has expired by its
clock. Each depends on the row, or on the handoff, so of two one takes effect. A request is

- *open*: the items are ready, and the leases that are to end are held;
- *served*: the items are in the handoff, or leased; the leases that were to end have ended;
- *refused*: nothing was done, because one of these leases was lost or an item cannot be decoded;
- *gone*, because it expired: the asker takes again. But if leases were to end and none of them is
  held, their threads are told that the outcome is unknown.

What is left behind by

- *a thread that leaves*: its items are requeued. If leases were to end, its outcome is unknown;
- *a process that dies or is stopped*: the request and its handoff, and the leases, until they
  expire;
- *a clock* that is ahead by more than the timeout: others' handoffs are requeued at once. Beside
  one that is behind, items return that much later;
- *an item that cannot be decoded*: it stays, and nothing after it is given to any process.
"""
