"""What the package is called by: its public names, and a queue's in the admin."""

from __future__ import annotations

import pytest

import fdbqueue
from fdbqueue.models import QueueName


def test_the_public_names_are_there():
    """Each name that the package lists can be had from it."""
    for name in fdbqueue.__all__:
        assert getattr(fdbqueue, name) is not None


def test_another_name_is_an_attribute_error():
    """What is no public name is told as any module tells it."""
    with pytest.raises(AttributeError, match="no attribute 'pop'"):
        _ = fdbqueue.pop


def test_a_queue_name_is_shown_as_it_is():
    """The model's text is the queue's name."""
    assert str(QueueName(name="mail")) == "mail"
