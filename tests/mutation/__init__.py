"""How much the simulator and the tests see: ``make mutate``.

A *mutant* is the package with one place of one file changed. ``operators`` lists all of a module;
``draw`` takes as many as are asked for, at random by a seed, from all modules of ``service/`` and
``tasks/`` that the simulator imports: what it never loads (the outbox, commands, pages) is not its
to find. A module of them counts by how many mutants it has. ``runs`` has a copy of the repository,
writes one mutant after the other into it, and runs the commands there, each as a process group with
limits of time: the simulator first, and if it finds nothing the usual tests of contract, service
and tasks. ``__main__`` prints what each found, and each mutant that nobody finds, as a diff.

What counts: a mutant with which the package cannot be imported is drawn again, because it says
nothing; one that fails, hangs or takes too long is found. The simulator's seeds are drawn from the
same seed. A line that a seed does not reach in the sound package it does not reach in a mutant of
it, either, because a seed is one history: a mutant is run with the seeds that reach it, and counts
as not found if there are none.

What nobody finds is judged by hand. Of the mutants of past draws these were equivalent:

- *a boundary that only a key of just the longest length, or a moment at a microsecond, meets*
  (``tables.death``): both ways are right there, and no other place agrees with one of them;
- *an estimate that is exact in each case* (``head``: the size of a value is looked up, which is
  known if it has one chunk): it costs a read;
- *how many are leased, read or combined at once* (``task_worker``: the prefetch of threads), where
  nothing but the speed depends on it; the tests see some;
- *what only another library needs* (``line``: a base class of gevent's);
- *a guard before what would do nothing* (``groups``: an abort of what has succeeded looks at its
  parts, which have all ended).

Why it is our own: ``cosmic-ray`` (8.7) changes the files of the working tree in place, has one
command for all and no draw by a seed, and of the eight operators three (comparison, numbers,
booleans); ``mutmut`` (3.8) writes all mutants of a file into it behind a dispatcher, which the
simulator's copies of modules would have to know, runs pytest alone, and lacks as many. What is left
of either is a parser, which Python has.
"""
