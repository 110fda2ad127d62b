"""Describe the API to drf-spectacular once both are in use, and not before.

Importing drf-spectacular takes a sixth of the start of every command, and only what imports the
views can make a schema. So the views load the descriptions, at the end of their own module.
"""

from __future__ import annotations

import importlib

from django.apps import apps


def load() -> None:
    """Import the descriptions, where the project has installed drf-spectacular.

    While models are still being imported this does nothing: it is done when the app is ready.
    """
    if apps.models_ready and apps.is_installed("drf_spectacular"):
        importlib.import_module("fdbqueue.api.schema")
