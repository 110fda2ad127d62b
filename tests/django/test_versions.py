"""A Python or a Django that is too old is named in one sentence."""

from __future__ import annotations

import runpy
import sys

import django
import pytest
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured

import fdbqueue


def test_an_older_python_is_refused_at_the_import(monkeypatch):
    """So a checkout on the path says why, which pip never installed."""
    monkeypatch.setattr(sys, "version_info", (3, 9, 18))
    with pytest.raises(ImportError, match=r"^fdbqueue needs Python 3\.10 or newer; this is Python"):
        runpy.run_path(fdbqueue.__file__)


def test_an_older_django_is_refused_when_the_app_starts(monkeypatch):
    """The sentence names both versions."""
    monkeypatch.setattr(django, "VERSION", (5, 1, 15, "final", 0))
    with pytest.raises(ImproperlyConfigured, match=r"^fdbqueue needs Django 5\.2 or newer; this"):
        apps.get_app_config("fdbqueue").ready()
