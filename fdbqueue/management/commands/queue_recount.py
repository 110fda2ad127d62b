"""The former name of ``queue_doctor --recount``."""

from fdbqueue.management.former import former_name

Command = former_name("queue_recount", "queue_doctor --recount")
