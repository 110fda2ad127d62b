"""What the package is called by: its public names, and a queue's in the admin."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import fdbqueue
from fdbqueue.models import Queue


def test_the_public_names_are_there():
    """Each name that the package lists can be had from it."""
    for name in fdbqueue.__all__:
        assert getattr(fdbqueue, name) is not None


def test_another_name_is_an_attribute_error():
    """What is no public name is told as any module tells it."""
    with pytest.raises(AttributeError, match="no attribute 'pop'"):
        _ = fdbqueue.pop


def test_a_queue_of_the_admin_goes_by_its_name():
    """The model's text is the queue's name."""
    assert str(Queue(name="mail")) == "mail"


def test_the_model_is_called_by_its_module():
    """In the app's code ``Queue`` alone is the service's class; the model is ``models.Queue``."""
    for path in Path(fdbqueue.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            assert not (isinstance(node, ast.ImportFrom) and node.module == "fdbqueue.models"), path
