"""How tasks read in the queues' pages: what :mod:`fdbqueue.pages.readings` is told of them.

    =================  ============================================================
    ``reading``        which queues hold tasks, and how these read
    ``forms``          the parameters of a queue's page
    ``rows``           what a list says of a task, and what is read for it
    ``done``           the list of tasks that have succeeded, from their index
    ``columns``        the columns of the lists, and the facts of an item
    ``attempts``       the attempts at a task, with their errors
    ``task_page``      the page of one task
    =================  ============================================================

The pages import no code of the tasks: what they show is stored, so a task whose code is gone reads
as any other. How many attempts a task may have is in its code; where this process has not imported
it, that is left out.
"""

from __future__ import annotations
