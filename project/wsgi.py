"""The demo project for a WSGI server: ``gunicorn project.wsgi``."""

import os

from django.conf import settings
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

application = get_wsgi_application()
if settings.DEBUG:  # otherwise WhiteNoise serves the static files
    application = StaticFilesHandler(application)
