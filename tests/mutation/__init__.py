"""How much the simulator and the tests see: ``make mutate``.

A *mutant* is the package with one place of one file changed. ``operators`` lists all of a module;
``draw`` takes as many as are asked for, at random by a seed, from all modules of ``service/`` and
``tasks/`` that the simulator imports: what it never loads (the outbox, commands, pages) is not its
to find. A module of them counts by how many mutants it has. ``runs`` has a copy of the repository,
writes one mutant after the other into it, and runs the commands there, each as a process group with
limits of time: the simulator first, and if it finds nothing the usual tests of contract and tasks.
Of these the files run first that say most of the names of the module, and all for five minutes at
most: a mutant that is not found by then counts as found by nobody. ``__main__`` prints what each
found, and each mutant that nobody finds, as a diff.

What counts: a mutant with which the package cannot be imported is drawn again, because it says
nothing; one that fails, hangs or takes too long is found, unless the test fails on the sound
package, too. The simulator's seeds are drawn from the
same seed. A line that a seed does not reach in the sound package it does not reach in a mutant of
it, either, because a seed is one history: a mutant is run with the seeds that reach it, and counts
as not found if there are none.

What nobody finds is judged by hand. Of past draws these were equivalent, or as good as that:

- *a boundary that one key of exactly the longest length meets* (``tables.death``);
- *a guard before what would do nothing* (``groups.abort_some``: an abort of a group that has
  succeeded looks at its parts, which have all ended; ``head``: the size of a value in one chunk is
  looked up, which is known);
- *what only another library needs* (``line``: a base class of gevent's).

Why it is our own: ``cosmic-ray`` (8.7) changes the files of the working tree in place, has one
command for all and no draw by a seed, and of the eight operators three (comparison, numbers,
booleans); ``mutmut`` (3.8) writes all mutants of a file into it behind a dispatcher, which the
simulator's copies of modules would have to know, runs pytest alone, and lacks as many. What is left
of either is a parser, which Python has.
"""
