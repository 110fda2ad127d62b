"""An app that opens the cluster while the project is loaded, which is a mistake."""

from __future__ import annotations

import os

import fdb
from django.apps import AppConfig
from django.conf import settings

import fdbqueue


class OpeningConfig(AppConfig):
    """Opens it in the process that loads the project: under --preload, the master.

    By reading a queue; or with the binding alone, where ``FDBQUEUE_TEST_OPENS`` says so.
    """

    name = "tests.live.opening"

    def ready(self) -> None:
        if os.environ.get("FDBQUEUE_TEST_OPENS") == "binding":
            if not fdb.is_api_version_selected():
                fdb.api_version(730)
            fdb.open(settings.FDBQUEUE["OPTIONS"]["cluster_file"])
        else:
            fdbqueue.queue("mail").size()
