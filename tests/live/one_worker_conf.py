"""Gunicorn's settings for a server of one worker, whose memory tests measure."""

from tests.live.gunicorn_conf import *

workers = 1
