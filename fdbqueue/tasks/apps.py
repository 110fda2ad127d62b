"""The Django application."""

from __future__ import annotations

from django.apps import AppConfig, apps


class TasksConfig(AppConfig):
    """Django Tasks on fdbqueue's queues."""

    name = "fdbqueue.tasks"
    label = "fdbqueue_tasks"
    verbose_name = "Tasks"

    def ready(self) -> None:
        """Register the checks of Django's Tasks, the queues of tasks, and how these read."""
        from fdbqueue import conf
        from fdbqueue.pages import registry
        from fdbqueue.tasks import compat
        from fdbqueue.tasks.backend import specs

        if not compat.IN_DJANGO:  # the backport's own app does it, where it is installed
            import django_tasks.checks
            import django_tasks.signals  # noqa: F401
        conf.add_queues("TASKS", specs)
        if apps.is_installed("fdbqueue.metrics"):
            from fdbqueue.tasks.metrics import install

            install()
        registry.register("fdbqueue.tasks.pages.reading.reading_of_tasks")
