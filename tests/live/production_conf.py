"""The demo project's own settings of gunicorn, for a server that ends with the tests."""

from project.gunicorn_conf import *  # noqa: F403
from tests.live.gunicorn_conf import on_starting

__all__ = ["on_starting"]
