"""The former name of ``queue_doctor --sweep``."""

from fdbqueue.management.deprecated import former_name

Command = former_name("queue_sweep", "queue_doctor --sweep")
