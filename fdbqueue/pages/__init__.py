"""The pages: the list of queues, those across them, a queue, an item, a task; actions.

All but the pages of actions (``action_page.py``) only read; these are off by default.

How a request goes
    ``admin.py`` (in an admin site) and ``urls.py`` (as plain views) give the views their
    addresses. The base of all views (``framing.py``) asks the site (``sites.py``) whether the user
    may view the queue; the view checks the query parameters with a form (``forms.py``). Then the
    module of the page reads all it needs in one transaction, and its ``context()`` returns what the
    template shows:

    ============== ======================== ================================ ====================
    page           module                   what it says is in               template
    ============== ======================== ================================ ====================
    list of queues ``queues_page``          ``columns.queues``               ``queues.html``
    all queues     ``workers_and_failures`` ``columns.workers_and_reasons``  ``workers.html`` ...
    a queue        ``queue_page``           ``columns.queues``               ``queue.html``
    its items      ``item_list``            ``columns.items``                ``items.html``
    an item        ``item_page``            ``columns.items``                ``item.html``
    ============== ======================== ================================ ====================

    The first two, and those of an app, are pages of rows (``listing.py``): a ``ListForm``
    has the filters, the orders and the page, and ``listing.html`` shows the tiles, the table and
    the ways to other pages. Who may view one page may view all: ``framing.py`` asks.

    What the items of a queue are to readers says its reading (``readings.py``), which an app may
    have for some queues: other columns, tabs and filters, and a page for each task. That of tasks
    is in ``fdbqueue.tasks.pages``.

    Errors become pages in the frame of the site, with their HTTP status (``problems.py``): 400 for
    bad parameters, 403, 404, 405, and 503 if the database does not respond. htmx asks for the live
    part of a page every few seconds (``forms.Refresh``).

What values look like
    ``fdbqueue.columns.text`` writes texts, numbers, sizes, times, durations and keys so that they
    are safe to show, and ``fdbqueue.columns.markup`` writes them as markup, for columns and for
    templates; ``values.py`` shows the value of an item, and says how much of it: its
    beginning, or the value as indented JSON, text or a dump. ``search.py`` tells which items a
    search finds. ``charts.py`` computes the coordinates of the charts.

Where to add something
    A column of queues or items, a figure, a fact, a reason why a queue needs attention
        One entry in ``fdbqueue.columns``, whose page says where; the commands show it, too. A
        column of the list needs the ``reads`` of what it shows, into a field of ``QueueRow``. The
        templates stay as they are; the tuple ``COLUMNS`` of ``tests/pages/test_queues.py`` gets
        the column, too. What only a page can show, as a link or a chart, is in ``queues_page.py``
        and ``item_columns.py``. Columns of lists of tasks are in ``fdbqueue/tasks/pages/``.
    An action
        An entry of ``ACTIONS`` in ``actions.py``; what REST does, too, is in ``fdbqueue.verbs``.
    How much of a value, or how, a page shows
        ``values.py``, which has the limits at its top.
    A setting of a queue
        Options are there by themselves; anything else is one entry in ``queue_page.settings``.
    A parameter
        One field of a form, in ``shown`` or in ``hidden``.
    A page of rows
        A ``ListForm``, a subclass of ``ListView`` with its ``rows()``, and a template that extends
        ``listing.html``. ``WorkersView`` shows how.
    A chart
        One function of ``charts.py``, and its place in ``queue_page._charts``.
"""
