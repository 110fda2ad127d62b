"""An app that uses a queue while the project is loaded, as one should not."""

from __future__ import annotations

from django.apps import AppConfig

import fdbqueue


class OpeningConfig(AppConfig):
    """Reads a queue in the process that loads the project: under --preload, the master."""

    name = "tests.live.opening"

    def ready(self) -> None:
        fdbqueue.queue("mail").size()
