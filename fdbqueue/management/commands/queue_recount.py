"""The former name of ``queue_doctor --recount``."""

from fdbqueue.management.deprecated import former_name

Command = former_name("queue_recount", "queue_doctor --recount")
