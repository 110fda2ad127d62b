"""What Django's Tasks API promises of any backend, tested of this one.

- ``case``: the backend, its worker, and what the tests use;
- ``enqueueing``, ``validation``, ``outcomes``, ``results``, ``contexts``, ``order``, ``signals``:
  the tests, in a mix-in for each concern; ``tests/tasks/test_rules.py`` has them over a backend
  with an outbox and without;
- ``tasks``: the tasks that they enqueue, made of ``functions`` when a worker imports them;
- ``journal``: what functions and signals have done.
"""
