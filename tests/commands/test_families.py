"""Families in ``queue_list`` and ``queue_doctor``."""

from __future__ import annotations

import json

import pytest
from django.core.management import CommandError

import fdbqueue
from fdbqueue.columns import families
from fdbqueue.service import run


def fill():
    """Let three members of a family have items, of four there are."""
    for name, count in (("user-1", 3), ("user-2", 2), ("user-3", 1), ("user-4", 1)):
        fdbqueue.queue(name).push_many(range(count))
    fdbqueue.queue("user-2").lease()
    fdbqueue.queue("user-3").lease()
    assert fdbqueue.queue("user-4").pop() is not None
    while fdbqueue.pop_from(["user-4*"]):  # which looks at the empty one, and finds nothing
        pass


def test_more_members_than_are_counted(call, monkeypatch):
    """A plus sign says so, and JSON that the count is not complete."""
    for number in range(4):
        fdbqueue.queue(f"user-{number}").push("x")
    monkeypatch.setattr(families, "MAX_MEMBERS", 3)
    monkeypatch.setattr("fdbqueue.management.commands.queue_list.MAX_MEMBERS", 3)
    assert "3+" in call("queue_list", "user-*").out.split()
    record = json.loads(call("queue_list", "user-*", "--json").out)
    assert (record["members"], record["complete"], record["ready"]) == (3, False, 3)


def test_stats_of_a_pattern_are_the_sums_of_its_members(call):
    """Of those that have items, leased ones too; beside queues they are a table of their own."""
    fill()
    fdbqueue.queue("user-1").pause()
    heading, row = call("queue_list", "user-*").out.splitlines()
    assert heading.split()[:6] == ["NAME", "MEMBERS", "READY", "LEASED", "DELAYED", "DEAD"]
    assert row.split()[:6] == ["user-*", "3", "4", "2", "0", "0"]
    assert row.endswith("1 paused")
    lines = call("queue_list", "mail", "user-*").out.splitlines()
    assert [line.split()[:1] for line in lines] == [["NAME"], ["mail"], [], ["NAME"], ["user-*"]]
    record = json.loads(call("queue_list", "user-*", "--json").out)
    assert record["name"] == "user-*"
    assert (record["ready"], record["leased"], record["paused"], record["blocked"]) == (4, 2, 1, 0)
    assert record["age_seconds"] >= 0
    assert record["pushes_a_minute"] > 0


def test_an_empty_family_has_zeros(call):
    """And no age."""
    row = call("queue_list", "user-*").out.splitlines()[1]
    assert row.split()[:7] == ["user-*", "0", "0", "0", "0", "0", "-"]


@pytest.mark.parametrize("command", ["queue_list", "queue_doctor"])
def test_a_pattern_that_the_setting_does_not_have(call, command):
    """The message names those it has, and the exit code is that of a queue that is not there."""
    with pytest.raises(CommandError, match=r"no pattern 'none-\*'. It has user-\*\.") as caught:
        call(command, "none-*")
    assert caught.value.returncode == 3


def test_the_doctor_examines_the_members_of_a_pattern(manage):
    """Each of them, also one whose row in the index is missing."""
    fdbqueue.queue("mail").push("x")
    for name in ("user-1", "user-2"):
        fdbqueue.queue(name).push("x")
    lost = fdbqueue.conf.catalog().families()[0].keys.bounds
    run(fdbqueue.conf.database(), lambda tr: tr.clear_range(*lost))
    lines = manage("queue_doctor", "user-*", "--json").stdout.splitlines()
    found = [json.loads(line) for line in lines]
    assert {one["queue"] for one in found} == {None, "user-1", "user-2"}
    wrong = [one["queue"] for one in found if one["check"] == "family" and one["status"] == "error"]
    assert wrong == ["user-1", "user-2"]
