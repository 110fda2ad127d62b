"""The ``manage.py`` commands: how a command goes, and how to add one.

How a command goes
    Each command is a class ``Command`` in ``commands/queue_NAME.py``: it parses its arguments,
    makes one call of ``fdbqueue.service``, and prints the result. What only one command does is in
    its file, if there is room. Its base is :class:`base.QueueCommand`, the
    only class between it and Django's ``BaseCommand``:

    1. Django calls ``add_arguments`` of the base, which adds what the command ``takes``, and
       parses. Arguments of several commands are in ``arguments``. ``--engine-timeout`` and the
       examples of ``--help`` are added by the base, too.
    2. Django calls ``handle`` with the options. ``self.queue(name)`` and ``self.queues(names)``
       return queues; if there is no such queue, the command ends with exit code 3.
    3. ``self.console`` talks to the user; it knows ``--json``, ``--no-input`` and the rest of how
       that is asked for. Results go to standard output: ``report`` prints the one result, for
       people or as JSON, and ``print_lines`` many. ``note``, ``note_pauses``, ``progress`` and
       ``confirm``, the question before something that cannot be undone, use standard error.
    4. An error of the service ends the command with its exit code (``exit_codes``); the command
       does nothing for that. What is wrong with the arguments is a ``usage_error``.

    A command of many transactions must stop only between two of them, and say how many items are
    done. ``console.steps`` does both; ``queue_redrive`` shows how, and ``change_items`` of the base
    does it for named items. The parts it is made of are ``signals.defer_interrupts``, which defers
    Ctrl-C, and ``exit_codes.explain_errors``, which adds the message. ``queue_pop``,
    ``queue_push``, ``queue_drain``, ``queue_move`` and ``queue_work`` use these parts directly.

How to add a command
    Three files, and a line in the changelog:

    - ``commands/queue_NAME.py``. Copy ``queue_redrive.py``, and set ``help``, ``examples`` and
      ``takes``; ``allows_closed_output = True`` if the command only shows something, so that
      ``| head`` is not an error.
    - ``tests/commands/test_NAME.py``. The tests of exit codes, unknown queues and ``--help`` find
      the command by themselves.
    - ``docs/commands.md``: a section with ``<!-- help: queue_NAME -->`` and ``<!-- end -->``, which
      ``make options`` fills. A test asks for it.

Modules
    base: the class of all commands. arguments: the arguments that several of them have.
    console: what a command prints and asks, and its progress. signals: Ctrl-C, deferred.
    exit_codes: how errors end a command.
    formats: lines of JSON, tables, and facts as lines. What is said of a queue, an item or a
    task, and how its texts are made safe for a terminal, is in :mod:`fdbqueue.columns`.
    item_lines: items as lines of JSON, of a table, and of the file that ``queue_drain`` writes.
    ndjson: the input of ``queue_push``.
    emptying: what ``queue_drain``, ``queue_move`` and ``queue_work`` share.
    findings: what ``queue_doctor`` looks for, of no single queue and of each.
"""
