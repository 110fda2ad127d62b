"""Take items from a queue: how a pop or a lease goes, from start to end.

    request-->combiner-->poppers-->round------->commit-->items
                                   ^ head        |  |
                                   | expiry      |  +-->nothing-->wait-->request
                                   | allowance   |
                                   | help        v
                                   +---again----Race-->asks-->handoff-->items

1. **Request** (:mod:`consumer`): how many items, from which end, to pop or to lease.
2. **Combine** (:mod:`poppers`) the requests of all threads of the process at one end.
3. **Round** (:mod:`round`): one transaction reads state and rows (:mod:`head`), requeues what has
   expired (:mod:`expiry`), and takes items for each request in order, as far as limits allow
   (:mod:`allowance`), then for other processes (:mod:`help`). A row that cannot be decoded stays,
   with all rows of its request and of those after it.
4. **Commit**: it verifies what was read. After a conflict :mod:`contention` decides.
5. **Wait** (:mod:`waiting`) if there is nothing, until when :mod:`prospect` says.

What is left behind by

- *a thread that leaves*: its error says whether items may have been taken; a helper requeues them
  (:mod:`combiner`), but under an idempotency key the same call returns them;
- *a process that dies* right after a commit: its items are popped, or leased until that expires;
- *an unknown outcome* (:mod:`transactions`): ``OutcomeUnknown`` for each request in it.
"""
