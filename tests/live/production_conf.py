"""The demo project's gunicorn settings, for a server that ends with the tests."""

from project.gunicorn_conf import *
from tests.live.gunicorn_conf import on_starting

__all__ = ["on_starting"]
