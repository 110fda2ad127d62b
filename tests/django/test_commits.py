"""Pushes that wait for the commit of the ORM's transaction."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import subprocess
import sys
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.transaction import TransactionManagementError
from django.test import TestCase

import fdbqueue
from fdbqueue import testing
from fdbqueue.exceptions import (
    BatchTooLarge,
    EngineUnavailable,
    IdempotencyKeyReused,
    InvalidInput,
    InvalidPriority,
    InvalidValue,
    OutcomeUnknown,
    QueueNotFound,
    ValueTooLarge,
)
from fdbqueue.service import IdempotencyKey, Push
from tests import injection

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("empty_queues")]


def sign_up(name):
    """Make a user, and ask for a mail to be sent."""
    user = User.objects.create_user(name)
    fdbqueue.push_on_commit("mail", {"to": name})
    return user


@contextlib.contextmanager
def rolled_back():
    """Be in a transaction, or a savepoint, that is rolled back."""
    with contextlib.suppress(ZeroDivisionError), transaction.atomic():
        yield
        raise ZeroDivisionError


def test_it_is_pushed_when_the_transaction_commits():
    """Not before, and once."""
    with transaction.atomic():
        sign_up("a")
        assert testing.values("mail") == []
    assert testing.values("mail") == [{"to": "a"}]
    with transaction.atomic():
        pass
    assert testing.values("mail") == [{"to": "a"}]


def test_outside_a_transaction_it_is_pushed_at_once():
    """There is nothing to wait for."""
    fdbqueue.push_on_commit("mail", "x")
    assert testing.values("mail") == ["x"]


def test_a_rollback_pushes_nothing():
    """Neither then nor with the next commit."""
    with rolled_back():
        sign_up("a")
    with transaction.atomic():
        pass
    assert testing.values("mail") == []
    assert not User.objects.exists()


@pytest.mark.django_db(transaction=True, databases=["default"])
def test_it_waits_for_the_database_it_is_told():
    """``using`` names the database whose commit it is."""
    with transaction.atomic(using="default"):
        fdbqueue.push_on_commit("mail", "x", using="default")
        assert testing.values("mail") == []
    assert testing.values("mail") == ["x"]
    with pytest.raises(Exception, match="nope"):
        fdbqueue.push_on_commit("mail", "x", using="nope")


def test_it_is_encoded_at_the_call():
    """What becomes of the object afterwards changes nothing."""
    with transaction.atomic():
        value, pushes = {"to": ["a"]}, [Push(["b"])]
        fdbqueue.push_on_commit("mail", value)
        fdbqueue.push_batch_on_commit("mail", pushes)
        value["to"].append("c")
        pushes[0].value.append("c")
        pushes.append(Push("d"))
    assert testing.values("mail") == [{"to": ["a"]}, ["b"]]


@pytest.mark.parametrize(
    ("queue", "value", "options", "error"),
    [
        ("nope", "x", {}, QueueNotFound),
        ("mail", {1}, {}, InvalidValue),
        ("mail", "x" * 100_001, {}, ValueTooLarge),
        ("mail", "x", {"priority": 1}, InvalidPriority),
        ("quakes", "x", {"priority": float("nan")}, InvalidPriority),
        ("mail", "x", {"delay": -1}, InvalidInput),
        ("mail", "x", {"delay": 1, "not_before": 1}, InvalidInput),
        ("mail", "x", {"once": ""}, InvalidInput),
    ],
)
def test_what_is_wrong_is_raised_at_the_call(queue, value, options, error):
    """Where the mistake is, and nothing is pushed."""
    with transaction.atomic():
        with pytest.raises(error):
            fdbqueue.push_on_commit(queue, value, **options)
        assert connection.run_on_commit == []


def test_a_batch_that_is_wrong_is_refused_at_the_call():
    """The error says which of them it is; nothing is pushed."""
    with transaction.atomic():
        with pytest.raises(InvalidValue) as caught:
            fdbqueue.push_batch_on_commit("mail", [Push("x"), Push({1})])
        assert caught.value.context["index"] == 1
        with pytest.raises(BatchTooLarge):
            fdbqueue.push_batch_on_commit("mail", [Push("x" * 99_000)] * 60)
        assert connection.run_on_commit == []


def test_priorities_delays_and_queue_objects():
    """All that a push takes, and the queue itself in place of its name."""
    quakes = fdbqueue.queue("quakes")
    with transaction.atomic():
        fdbqueue.push_on_commit(quakes, "none")
        fdbqueue.push_on_commit("quakes", "high", 6.4)
        fdbqueue.push_on_commit("quakes", "low", priority=-1)
        fdbqueue.push_on_commit("quakes", "later", 2, delay=60)
    assert [(item.value, item.priority) for item in quakes] == [
        ("low", -1.0),
        ("none", 0.0),
        ("high", 6.4),
    ]
    assert testing.values(quakes, state="delayed") == ["later"]


def test_a_batch_is_one_transaction():
    """All of its items, or none of them."""
    with (
        pytest.raises(OutcomeUnknown),
        injection.unknown_outcome(took_effect=False, stays_unknown=True),
        transaction.atomic(),
    ):
        fdbqueue.push_batch_on_commit("mail", [Push("a"), Push("b")])
    assert testing.values("mail") == []
    with transaction.atomic():
        fdbqueue.push_batch_on_commit("mail", [Push("a"), Push("b")])
        fdbqueue.push_batch_on_commit("mail", [])
    assert testing.values("mail") == ["a", "b"]


def test_a_key_pushes_once():
    """However many transactions say so; another value under it is refused at the push."""
    once = IdempotencyKey("order-17")
    for _ in range(3):
        with transaction.atomic():
            fdbqueue.push_on_commit("mail", "x", once=once)
    assert once.replayed
    with pytest.raises(IdempotencyKeyReused), transaction.atomic():
        fdbqueue.push_on_commit("mail", "y", once="order-17")
    assert testing.values("mail") == ["x"]


@pytest.mark.parametrize("took_effect", [False, True])
def test_an_outcome_that_can_be_found_out_is(took_effect):
    """A commit that does not say whether it took effect neither doubles nor drops it."""
    with injection.unknown_outcome(took_effect=took_effect) as database, transaction.atomic():
        sign_up("a")
    assert database.happened == 1
    assert testing.values("mail") == [{"to": "a"}]


def test_an_engine_that_is_down_raises_out_of_the_block():
    """The rows are committed, what comes after it does not run, and it is not pushed later."""
    ran = []

    def work():
        with transaction.atomic():
            sign_up("a")
            transaction.on_commit(lambda: ran.append("after"))

    with injection.engine_unavailable(), pytest.raises(EngineUnavailable):
        work()
    assert User.objects.filter(username="a").exists()
    with transaction.atomic():
        pass
    assert (testing.values("mail"), ran) == ([], [])


def test_a_robust_push_is_logged_when_it_fails(caplog):
    """The block goes on, and so does what was registered after it."""
    ran = []
    with injection.engine_unavailable(), caplog.at_level(logging.ERROR, "django.db.backends"):
        with transaction.atomic():
            fdbqueue.push_on_commit("mail", "x", robust=True)
            transaction.on_commit(lambda: ran.append("after"))
        fdbqueue.push_on_commit("mail", "x", robust=True)
    assert ran == ["after"]
    assert len(caplog.records) == 2
    assert all("push" in record.getMessage() for record in caplog.records)
    assert testing.values("mail") == []


def test_without_autocommit_there_must_be_a_transaction():
    """Django would not know when to push."""
    transaction.set_autocommit(False)
    try:
        with pytest.raises(TransactionManagementError):
            fdbqueue.push_on_commit("mail", "x")
    finally:
        transaction.set_autocommit(True)
    assert testing.values("mail") == []


def test_it_works_in_code_that_an_async_view_awaits():
    """The ORM's transaction is a function's that runs in a thread."""

    @sync_to_async
    def work():
        with transaction.atomic():
            sign_up("a")
        connection.close()

    asyncio.run(work())
    assert testing.values("mail") == [{"to": "a"}]


def test_the_package_loads_it_only_when_it_is_asked_for():
    """``import fdbqueue`` needs no Django; the names are there all the same."""
    code = (
        "import sys, fdbqueue; assert 'push_on_commit' in fdbqueue.__all__; "
        "print('django' in sys.modules); fdbqueue.push_on_commit; print('django' in sys.modules)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert answer.stdout.split() == ["False", "True"]


class InTestCase(testing.EmptyQueuesMixin, TestCase):
    """In Django's TestCase, which never commits."""

    def test_it_is_pushed_where_callbacks_are_executed(self):
        """``captureOnCommitCallbacks(execute=True)`` stands for the commit."""
        with self.captureOnCommitCallbacks(execute=True) as callbacks:
            sign_up("a")
            assert testing.values("mail") == []
        assert len(callbacks) == 1
        assert testing.values("mail") == [{"to": "a"}]

    def test_nothing_is_pushed_without(self):
        """The transaction of the test is rolled back."""
        sign_up("a")
        assert testing.values("mail") == []
