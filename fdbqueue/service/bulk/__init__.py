"""Many items at a time: batches, moves to another queue, removals, pushes from a long source.

Each transaction takes about a megabyte (:mod:`pace`).

- :mod:`batches`: many items leased under one token, for a drain.
- :mod:`streams`: one batch after the other off a queue; one move after the other.
- :mod:`move`: what an item becomes in another queue.
- :mod:`remove`: items removed by their ids, or by their state.
- :mod:`load`: a push from a source that may be interrupted and go on where it was.
"""
