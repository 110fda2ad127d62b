"""Help between processes: one whose takes conflict has others take items for it.

1. **Ask** (:mod:`asking`). The helper thread writes a *help request* for its waiting threads, by a
   commit that does not depend on the head.
2. **Give** (:mod:`giving`). The next take at that end serves the oldest requests, too: it ends the
   leases that the row names, leases the items, and names the new ones there. For pops, and leases
   under a key or too many for a row, it moves the items into a *handoff*.
3. **Collect**. The asker removes handoff and request, and pops or leases the items. Leases it
   only reads.
4. **Take over**. If for a while no process takes anything, the one with the oldest request takes
   items for all; so does each that has waited for a second, until it has won or was served.

Only the asker collects. Any process may serve an open request, or remove an expired one. Each
depends on the row, or on the handoff, so of two one takes effect. A request is

- *open*: the items are ready, and the leases that are to end are held;
- *served*: the items are in the handoff, or leased; those leases have ended;
- *refused*: a lease was lost or an item cannot be decoded. Nothing was done; the asker takes by
  itself;
- *gone*: expired, or refused for pops. The asker takes again; but if leases were to end and none is
  held, that outcome is unknown.

A process that dies leaves all of it until it expires. A clock that is ahead by more than the
timeout requeues others' handoffs at once.
"""
