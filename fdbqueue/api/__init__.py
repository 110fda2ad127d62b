"""The REST API: queues over HTTP, on Django REST framework.

How a request goes
    ``urls.py`` maps ``queues/NAME/VERB/`` to an action of ``viewsets.QueueViewSet``, and
    ``pop-from/`` and ``lease-from/``, whose bodies name several queues; its root lists these
    addresses, and ``unknown.py`` answers all others. ``base_view.py`` has the base of these
    views: it says in which order a request is served, and gives each response its headers, with
    that of ``request_ids.py``. Renderers and negotiation are the project's.

    Before the action, ``requests.py`` checks the address, the length of the body and its media
    type, ``actions.py`` asks :mod:`fdbqueue.access` for the permission that the action declares,
    and ``throttling.py`` applies the rates.

    Then ``actions.py`` reads the query or the body that the action declares: the project's parser
    of JSON parses it, and a serializer of ``inputs.py``, made of ``fields.py``, checks it. The
    action gets the checked fields. It starts the deadline, lets the queue's codec convert values,
    and calls one method of the queue, or a verb of :mod:`fdbqueue.verbs`, with the fields as its
    arguments. A take that is to wait for items needs a place of ``waiting.py``.

    ``outputs.py`` turns the result into JSON. An exception becomes a response in ``errors.py``, the
    only place that knows which error has which status. Once that is rendered, ``base_view.py``
    frees the body at once.

Where to add something
    An action
        A method of ``QueueViewSet`` under ``@Action(...)``, which declares its summary, permission,
        body or query, answer, and examples; and its test. That is all, if its body and answer have
        shapes that are there: the address, the permission, the rate, the checks and the schema
        follow. A new shape is a serializer in ``inputs.py`` or ``outputs.py``.
    A field of an item's or a queue's JSON
        One field of ``ItemOutput``, ``QueueOutput`` or ``QueueDetailOutput`` in ``outputs.py``:
        ``source`` names the attribute if it has another name, ``help_text`` documents it, and the
        class says how it is shown. It follows from the item alone, never from the present time:
        a repeated call with an idempotency key gets the same bytes. The class has an ``example``,
        too. An option of queues is there by itself. Then the examples in ``docs/rest-api.md``, and
        the tests that list all fields: ``test_pushing.KEYS`` and ``test_listing`` in ``tests/api``.
    A field of a body or a query
        One field of its serializer in ``inputs.py``, named like the argument of the method, and its
        row in ``docs/rest-api.md``.
    An error
        Its class in :mod:`fdbqueue.exceptions`, its status in ``errors.py``, and its row in
        ``docs/rest-api.md``.

    Then write ``docs/openapi.yaml`` again: ``make schema``.

``pagination.py`` makes cursors, and signs them. ``schema.py`` is loaded
only if the project has drf-spectacular, and ``request_ids.py`` imports nothing that needs Django,
because the setting ``LOGGING`` names its filter.
"""
