"""Settings of worker processes of django-tasks-db: those of the test, on its database file."""

import os

SECRET_KEY = "conformance"
USE_TZ = True
INSTALLED_APPS = ["django_tasks_db"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ["CONFORMANCE_DATABASE"],
        "OPTIONS": {"timeout": 20},
    }
}
TASKS = {
    "default": {
        "BACKEND": "django_tasks_db.DatabaseBackend",
        "QUEUES": ["default", "other"],
    }
}
