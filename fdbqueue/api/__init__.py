"""The REST API: queues over HTTP, on Django REST framework.

How a request goes
    ``urls.py`` maps ``queues/NAME/VERB/`` to an action of ``viewsets.QueueViewSet``, and
    ``pop-from/`` and ``lease-from/``, whose bodies name several queues. ``roots.py`` lists these
    addresses, and ``unknown.py`` answers all others. ``answers.py`` is the base of these views: it
    says in which order a request is served, and gives each response its headers
    (``request_ids.py``, ``throttling.py``, ``etags.py``) and its form: JSON, a page
    (``browsable.py``) or problem details (``problems.py``), as ``negotiation.py`` chooses.

    Before the action, ``requests.py`` checks the address, the length of the body and its media
    type, ``permissions.py`` asks :mod:`fdbqueue.access`, and ``throttling.py`` applies the rates.

    The action reads its query or its body. ``media.py`` parses JSON strictly, within the memory
    that ``body_memory.py`` allows to all bodies of the process; a serializer of ``inputs.py``
    checks the fields, and ``values.py`` lets the queue's codec convert the values. Then the
    deadline starts, and the action calls one method of the queue with the fields as its arguments.

    ``outputs.py`` and ``results.py`` turn the result into JSON. An exception becomes a response in
    ``errors.py``, the only place that knows which error has which status. At the end ``cycles.py``
    frees the body at once.

Where to add something
    A field of an item's or a queue's JSON
        One field of ``ItemOutput``, ``QueueOutput`` or ``QueueDetailOutput`` in ``outputs.py``:
        ``source`` names the attribute if it has another name, ``help_text`` documents it, and the
        class says how it is shown. It follows from the item alone, never from the present time:
        a repeated call with an idempotency key gets the same bytes. ``examples.py`` has the items
        of the schema's examples. An option of queues is there by itself. Then the examples in
        ``docs/rest-api.md``, and the tests that list all fields: ``test_pushing.KEYS`` and
        ``test_listing`` in ``tests/api``.
    A field of a body or a query
        One field of its serializer in ``inputs.py``, named like the argument of the method, and its
        row in ``docs/rest-api.md``.
    An action
        A method of the viewset, its permission in ``required_permissions``, its body or query in
        ``browsable.py``, its description in ``schema.py``, its summary in ``schema_answers.py``,
        and its example.
    An error
        Its class in :mod:`fdbqueue.exceptions`, its status in ``errors.py``, and its row in
        ``docs/rest-api.md``.

    Then write ``docs/openapi.yaml`` anew: ``make schema``.

``pagination.py`` makes cursors, and ``sealing.py`` encrypts those that must not be read.
"""
