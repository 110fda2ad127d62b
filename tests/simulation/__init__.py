"""A deterministic simulator: the real service, in one process, under one seed.

A *seed* is a history. It decides what clients do (the *plan*), which thread goes on at each turn,
how long each message to the engine takes, what fails, and what is drawn at random. The same seed
gives the same history to the letter, whatever ran before it in the process.

How a run goes, and which module has it:

1. ``workload`` draws a plan from the seed: queues, families and their options, one to three
   processes, one to six clients, and for each client its operations, some of which are struck by
   an interrupt, a pause or the end of their process. Each plan leaves out most verbs and faults.
2. ``programs`` gives each simulated process a copy of the package. The seam is the import
   statement: the service waits, looks at the clock and draws at random by modules of the standard
   library that it imports as modules, and a copy is the package's own code with simulated ones
   (``locks``). Nothing of the package knows, and production pays nothing. What a process has in its
   global variables is its own, and a fork runs the functions that the package registers for one.
   In some seeds the code of a copy has a turn before each statement of its functions, and in some
   its sizes are small, so that three items are more than a page, and five more than a round.
3. ``schedule`` runs the threads one at a time. Each is a greenlet: it has a stack of its own, and
   to go on with another takes less than a microsecond, however busy the machine is. At a *turn* (a
   lock, a look at the clock, a call of the engine; a tenth of the seeds: any line of the package)
   the dice decide who goes on. The clock is
   virtual: when all threads wait, it jumps to the next moment at which something is due. So a lease
   of an hour expires in no time.
4. ``cluster`` is the engine: the embedded engine's transactions, which answer as a real cluster
   does, over versions in memory. A commit is an event that takes effect at its own moment, whatever
   becomes of its thread, so the cluster knows the order of all commits. Its faults are conflicts,
   1007, 1009, 1037, and 1021, 1031 and 1039 with or without effect, or with one that comes later.
5. ``clients`` call the verbs, and keep an account of each value from outside.
6. ``promises`` checks each commit: what was taken was first (or last at the version that was read),
   no more is leased or taken than the limits say, also those in rows that change meanwhile, and a
   family's index has each member that has something. ``world`` checks the rest. When all
   wait: counts, levels, names and sizes equal a scan, and no client sleeps while something can be
   taken. While calls run: each ends in time with a documented error, waits make few transactions,
   nothing is taken before its time, who finds nothing can have found that, and what an error says
   of its outcome is true. At the end: no thread, watch or row is left, takes by the names and the
   pattern find all that is ready, and each value is once gone, dead, or there. A copy to another
   cluster, which is ended at times, has all there is.
   ``model`` has a plain queue beside each: an item moves for a reason alone, has its unique key as
   long as it needs it, and looks, searches, pauses, limits, holders and the history show what
   follows from it. If it may be more than a hundred things, the run ends as *unclear*, which is
   counted, and is no success. A client who is *alone* (one client,
   no fault: a quarter of the plans) finds just what there is, in as many transactions and reads as
   a table says, without a conflict, and after its wait; what its own objects show is compared, too.
   Nobody waits past a moment at which something is due, also within a jump of the clock. ``wrong``
   makes calls that must be refused, and looks at values that another wrote. ``surface`` lists the
   verbs and options that clients use, and why not others.
7. ``tasks`` has clients enqueue tasks, groups and chains, abort them, and be workers: the package's
   own, with threads of their own. A task is enqueued once, runs as often as it must, and its end is
   noted once; each record agrees with what became of its item, and each result with the record;
   what follows others is enqueued once these have ended as they must, or were lost, and only then.
   It says what of tasks is left out, and why.
8. ``runner`` cuts what was found down to the few operations that it takes, and prints them, with
   the line that runs them again. ``histories.json`` has those that were found, by what holds since.

What is not simulated, and why:

- *Signals in the middle of C code, memory, sockets, files*: there are none here, and a strike comes
  at a turn. ``tests/concurrency`` and ``tests/faults`` have real processes, threads and signals.
- *Event loops that several clients share, ``aleased``, ``aiterate`` and ``apeek``*: each call has a
  loop of its own (``locks``). ``tests/contract/awaiting`` has the others.
- *Time limits, and aborts by force, of what is no coroutine*: they end the process, by its parent
  (``tests/tasks``).
- *The outbox and its mover*: the rows are in another database, which has locks of its own.
- *Several backends in one project, codecs of a project, reshaping*: commands and settings, in which
  few clients meet.
- *Free runs*, with real threads on a real engine: the model needs the order of commits, what each
  has changed, and the process of each. A cluster says only the version of a commit to its client,
  and of one whose outcome is unknown not even that; nobody but a reader of each version could say
  the rest, which the engine in memory gives for nothing. ``tests/concurrency``, ``tests/faults``
  and ``tests/soak`` run real threads and processes there, and count each item.
- *What a foreign program writes while clients take*: an observer alone meets corrupt items.
- *Values near the limits of bytes*: a seed would take seconds. Some items have three chunks.
- *What is written for people*: pages, metrics, logs, columns of lists.
- *Verbs and options that clients do not use yet*: ``LEFT_OUT`` of ``surface``, which a test
  compares with all that is public.

A fork is made between two calls of a client; its parent ends.
"""
