"""Gunicorn's settings for a server of one worker, whose memory tests look at."""

from tests.live.gunicorn_conf import *  # noqa: F403

workers = 1
