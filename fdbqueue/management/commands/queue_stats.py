"""The former name of ``queue_list --rates``."""

from fdbqueue.management.deprecated import former_name

Command = former_name("queue_stats", "queue_list --rates", name_field="queue")
