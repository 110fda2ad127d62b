"""Objects over a queue, for workers, commands and pages: what is no verb, but made of several.

They call a queue's public methods. What those do not have, they take from its parts
(``queue.parts``), as its methods do: a push with the mark of its source beside it, a search that
reads rows before it decodes them, an examination of the stored bytes.

- :mod:`worker`: call a function for each item, and acknowledge it; :mod:`line`: the items that a
  worker has leased, before they run and until they have ended.
- :mod:`streams`: lease one batch after the other, move them to another queue, or search for items.
- :mod:`alternating`: lease from families, by turns with other queues.
- :mod:`keyed_push`: push a source in portions, each under an idempotency key.
- :mod:`family`: a family as one object: its members, what they have, and the pause of all.
- :mod:`presence`: which workers there are.
- :mod:`engine_copy`: copy all that is stored to another engine.
- :mod:`examination`: count a queue item by item, requeue what has expired, and remove what clients
  that died have left, their receipts among it.

Several queues as one are :mod:`fdbqueue.service.several`; shards are an option of a queue.
"""
