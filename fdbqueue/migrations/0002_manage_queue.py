"""Add the permission ``manage_queue``."""

from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ("fdbqueue", "0001_queue_permissions"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="queuename",
            options={
                "base_manager_name": "objects",
                "default_permissions": (),
                "managed": False,
                "permissions": (
                    ("view_queue", "Can view queues"),
                    ("push_queue", "Can push to queues"),
                    ("pop_queue", "Can pop from queues"),
                    ("lease_queue", "Can lease from queues"),
                    ("manage_queue", "Can manage queues: bury, redrive, remove and purge items"),
                ),
                "verbose_name": "queue",
                "verbose_name_plural": "queues, workers and dead letters",
            },
        ),
    ]
