"""A worker for django-tasks-db that takes back what killed workers have left RUNNING.

So the kit's tests of killed workers are seen to pass where the feature is there. One worker runs at
a time, and no task takes a second: what has been running for longer is a dead worker's.
"""

import logging
import time
from datetime import timedelta

import django
from django.utils import timezone

LEFT_AFTER = timedelta(seconds=1)
MAX_ATTEMPTS = 3


def reap() -> None:
    """Make dead workers' tasks ready, or FAILED after the last attempt."""
    from django_tasks_db.models import DBTaskResult

    left = DBTaskResult.objects.running().filter(started_at__lt=timezone.now() - LEFT_AFTER)
    for result in left:
        if len(result.worker_ids) < MAX_ATTEMPTS:
            result.status = "READY"
            result.save(update_fields=["status"])
        else:
            result.set_failed(RuntimeError(f"its worker died {MAX_ATTEMPTS} times"))


def main() -> None:
    """Work until the process is killed."""
    from django_tasks_db.management.commands.db_worker import Worker

    logging.disable()
    while True:
        reap()
        Worker(
            queue_names=["*"],
            excluded_queue_names=[],
            interval=0,
            batch=True,
            backend_name="default",
            startup_delay=False,
            max_tasks=None,
            worker_id="reaping",
        ).run()
        time.sleep(0.05)


if __name__ == "__main__":
    django.setup()
    main()
