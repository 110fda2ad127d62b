"""The Django application."""

from __future__ import annotations

from django.apps import AppConfig, apps


class TasksConfig(AppConfig):
    """Django Tasks on fdbqueue's queues."""

    name = "fdbqueue.tasks"
    label = "fdbqueue_tasks"
    verbose_name = "Tasks"
    #: Tells the queues' pages how tasks read: see :mod:`fdbqueue.pages.readings`.
    fdbqueue_reading = "fdbqueue.tasks.pages.reading_of_tasks"
    fdbqueue_pages = "fdbqueue.tasks.pages.functions_and_schedules.more_pages"
    fdbqueue_find_task = "fdbqueue.tasks.pages.find_task"
    fdbqueue_actions = "fdbqueue.tasks.pages.schedule_actions.ACTIONS"

    def ready(self) -> None:
        """Register the checks of Django's Tasks, and the queues of tasks."""
        from fdbqueue import conf
        from fdbqueue.tasks import compat
        from fdbqueue.tasks.backend import specs
        from fdbqueue.tasks.running import follow_immediate

        if not compat.IN_DJANGO:  # the backport's own app does it, if it is installed
            import django_tasks.checks
            import django_tasks.signals  # noqa: F401  # for its receivers
        conf.add_queues("TASKS", specs)
        follow_immediate()
        if apps.is_installed("fdbqueue.metrics"):
            from fdbqueue.tasks.metrics import install

            install()
