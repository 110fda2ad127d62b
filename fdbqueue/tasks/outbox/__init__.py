"""Enqueue tasks in the transaction of the ORM: rows of a table, which workers move to the queues.

    INSTALLED_APPS = [..., "fdbqueue", "fdbqueue.tasks", "fdbqueue.tasks.outbox"]
    TASKS = {"default": {"BACKEND": ..., "OPTIONS": {"outbox": True}}}

``outbox_rows`` writes and reads the table, ``mover`` moves its rows, ``wake`` tells the mover that
there are some. Who may do what:

- *Whoever enqueues* inserts a row, in the transaction of the ORM that is open on that database, or
  in one of its own. The id of the result is in the row. Once that transaction has committed, a
  thread changes the key on which the mover waits.
- *A mover*, which each worker process has, moves rows while it has the *claim*, a key in
  FoundationDB for each backend and table:

      {"mover": ..., "version": ..., "moved": [...], "unknown": [...]}

  ``mover`` is a name that no other has, ``version`` says when the claim was last renewed: by the
  database's versions, or by the machine's clock for a file, whose version is that of its last
  commit. ``moved`` are the ids of the rows that were moved last, and ``unknown`` names queues whose
  rows were left, because the mover does not know them. Any mover may take the claim; one that was
  renewed in the last ten seconds is left to its mover, unless a command asks, or the mover that
  looks at it knows a queue in ``unknown``.

A mover does this, again and again; each step begins when the one before is known to have ended:

1. *Claim*: it takes or renews the claim, and learns ``moved``.
2. *Clear*: it deletes the rows in ``moved`` from the table, and commits that.
3. *Read*: it reads the first rows by their numbers, some hundred, and passes over those of queues
   that it does not know, however many these are. There must be no transaction of the ORM around 2
   and 3: they see what is committed, and are committed.
4. *Move*, one transaction of FoundationDB: it checks that the claim is still its own, pushes the
   tasks with their records, and writes their ids into ``moved``, in place of those of 2, and the
   queues it has passed over into ``unknown``. What is too much for one transaction, by ``many.py``,
   is moved in several, each with 2 after it.
5. It goes on with 2, until there is nothing to read; it writes ``unknown`` if that has changed, and
   waits until it is woken, or for two seconds.

What is true: a row that was moved is in ``moved`` until its deletion is committed, because only
who has deleted the rows in ``moved`` replaces these. And who moves has read the table behind that,
and has had the claim ever since. So no row is moved twice, however late a step is repeated, and
whatever became of its task meanwhile. What is left behind by

- *a rollback*: nothing; no row was ever seen by others;
- *a crash, a kill or a pause of whoever enqueues*, behind its commit: a row, which is found two
  seconds later at most;
- *a crash or a kill of the mover* before the commit of 4: rows that were not moved; behind it: rows
  that were, which the next mover deletes, whatever it finds in them. It takes the claim ten seconds
  later, or at once if the mover has ended by itself;
- *an unknown outcome* of 4 (1021): its receipt tells (``service/transactions.py``). If it cannot,
  the mover begins with 1, and ``moved`` tells. One of 2: it is done again;
- *a pause of the mover* for longer: another one takes the claim. What the paused one reads may be
  old, but its 4 finds that the claim is another's, and does nothing; its 2 deletes what was moved;
- *several movers*: one has the claim; locks of rows are not needed, and no database has to have
  ``SKIP LOCKED``. Several that are asked by commands take the claim from each other: one waits
  for the other then;
- *several versions of a project*, as while it is deployed: the rows that the mover of one leaves
  are moved by one of another that knows their queues: it looks at the claim every few seconds, and
  takes it. If each knows a queue that the other does not, they take turns. If none knows a queue,
  its rows wait, and no mover takes the claim for them;
- *an engine that is away*: rows, which wait. Enqueueing does not need the engine;
- *a database that is away*, for one mover: it gives up the claim, and tries again later;
- *a row that cannot be moved*, since it is no task, is too large, or its queue refuses it: it is
  *set aside* with the reason, and the others are moved. It waits for ``tasks_outbox --retry``, or
  ``--remove``. A task whose code is gone is moved, and fails as any such task;
- *an abort of a row* (``aborts.py``): a final record, written if there was none; a move that
  meets it conflicts, and then takes the row for one that was moved;
- *a copy of the table*, restored from a backup: rows that were moved before. They are not moved
  again as long as there is a record of their task.

The tables of several projects may use one FoundationDB: each table has a name of its own, made when
the first row is moved, which is in the key of its claim.

Rows are read in the order of their numbers, which databases give when a row is inserted, not when
it is committed. So tasks that were enqueued in one transaction, or one transaction after the other,
keep their order; those of transactions at the same time have none.
"""
