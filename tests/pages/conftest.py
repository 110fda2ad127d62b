"""Queues for each test, and users who may and may not see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fdb.tuple
import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

import fdbqueue
from fdbqueue import conf
from fdbqueue.pages.framing import PageView
from tests.pages import watched_engine

QUEUES = {
    "quakes": {"kind": "priority", "priority_type": "float"},
    "tickets": {"kind": "priority"},
    "mail": {"kind": "fifo"},
    "raw": {"kind": "fifo", "codec": "bytes"},
    "pairs": {"kind": "fifo", "codec": "tuple"},
    "user-*": {"kind": "fifo"},
}

#: The pages in the admin, and without it.
SITES = {"admin": "/admin/fdbqueue/queuename/", "plain": "/queues/"}

Rows = list[tuple[bytes, bytes]]

PATIENT_SECONDS = 60


@pytest.fixture
def fdbqueue_queues() -> dict[str, Any]:
    """QUEUES, for ``empty_queues``."""
    return QUEUES


@pytest.fixture(autouse=True)
def patient_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a page as much time as a busy machine takes."""
    monkeypatch.setattr(PageView, "timeout_seconds", PATIENT_SECONDS)


@pytest.fixture(autouse=True)
def setting(empty_queues, settings, db) -> dict[str, Any]:
    """Queues on a file of the test's own, or on the cluster there is, emptied at the end.

    An action has as much time as a busy machine takes.
    """
    settings.FDBQUEUE = {**settings.FDBQUEUE, "API": {"TIMEOUT_SECONDS": PATIENT_SECONDS}}
    return settings.FDBQUEUE


@pytest.fixture
def watched(setting, settings, monkeypatch) -> Any:
    """The same queues on the same engine, with each read and write noted."""
    settings.FDBQUEUE = {**setting, "ENGINE": "tests.pages.watched_engine"}
    # a queue that nothing takes from costs some reads more, and the machine may be slow
    monkeypatch.setattr("fdbqueue.columns.attention_causes.WORKERLESS_SECONDS", 3_600)
    watched_engine.reads.clear()
    watched_engine.writes.clear()
    watched_engine.transactions.clear()
    return watched_engine


def everything(prefix: tuple[Any, ...]) -> tuple[bytes, bytes]:
    """Return the range of all keys under a prefix."""
    begin: bytes = fdb.tuple.pack(prefix)
    return begin, begin + b"\xff\xff"


@pytest.fixture
def queue() -> Callable[[str], Any]:
    """Open a queue by its name."""
    return fdbqueue.queue


@pytest.fixture
def stored(setting) -> Callable[[], Rows]:
    """Read all that is in the test's own file, or under its prefix on a cluster."""
    alone = "path" in setting["OPTIONS"]
    begin, end = (b"", b"\xff") if alone else everything(setting["PREFIX"])

    def read() -> Rows:
        rows = conf.database().create_transaction().get_range(begin, end)
        return [(bytes(row.key), bytes(row.value)) for row in rows]

    return read


def person(name: str, *permissions: str, staff: bool = True) -> Client:
    """Return the client of a new user with permissions of this app."""
    user = User.objects.create_user(name, is_staff=staff)
    found = Permission.objects.filter(content_type__app_label="fdbqueue", codename__in=permissions)
    assert len(found) == len(permissions)
    user.user_permissions.add(*found)
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def viewer() -> Client:
    """Somebody who may view queues."""
    return person("viewer", "view_queue")


@pytest.fixture
def pusher() -> Client:
    """Staff who may do everything with queues but view them."""
    return person("pusher", "push_queue", "pop_queue", "lease_queue", "manage_queue")


# Actions


@pytest.fixture(params=SITES)
def site(request) -> str:
    """Where the pages are."""
    return SITES[request.param]


@pytest.fixture
def on(setting, settings) -> None:
    """The actions are on."""
    settings.FDBQUEUE = {**setting, "PAGES": {"actions": True}}


@pytest.fixture
def manager() -> Client:
    """Somebody who may view and manage queues."""
    return person("manager", "view_queue", "manage_queue")


@pytest.fixture
def mail(queue) -> Any:
    """A queue with a ready item, and three dead letters of two reasons."""
    mail = queue("mail")
    ready, *dying = [mail.push(number) for number in range(4)]
    for item, reason in zip(dying, ["broken", "broken", "<b>gone</b>"], strict=True):
        mail.bury(item.id, reason=reason)
    mail.ready_id, mail.dead_ids = ready.id, [item.id for item in dying]
    return mail
