"""The pages of dead letters: their reasons, their failures, and who held what."""

from __future__ import annotations

import html
import re
import shlex

import pytest
from django.core.management import call_command

from fdbqueue.pages import queue_page
from fdbqueue.service import run
from tests.pages.addresses import items, of, text


@pytest.fixture
def mail(queue):
    """A queue of ten items."""
    mail = queue("mail")
    mail.push_many(range(10))
    return mail


def kill(queue, *reasons):
    """Bury the first items, one for each reason."""
    for item, reason in zip(queue.peek_many(len(reasons)), reasons, strict=True):
        queue.bury(item.id, reason=reason)


def groups(shown):
    """Return the rows of the table of reasons: the reason, the number and the command."""
    table = shown.partition('class="fdbqueue-table fdbqueue-reasons"')[2].partition("</table>")[0]
    rows = [
        (re.sub(r"<[^>]+>", "", reason), re.sub(r"<[^>]+>", "", number), command)
        for reason, number, command in re.findall(
            r'<th scope="row" role="rowheader" class="fdbqueue-reason">'
            r'(?:<span class="fdbqueue-quiet">\d+</span> )?(.*?)</th>'
            r'<td role="cell" class="fdbqueue-number">(.*?)</td><td role="cell">(.*?)</td>',
            table,
            re.DOTALL,
        )
    ]
    commands = [re.search(r"<code[^>]*>(.*?)</code>", row[2], re.DOTALL) for row in rows]
    return [
        (html.unescape(row[0]), row[1], command and html.unescape(command[1]))
        for row, command in zip(rows, commands, strict=True)
    ]


def test_who_holds_a_lease(viewer, mail):
    """In the list, and on the item's page; escaped."""
    item = mail.lease(worker="<b>mail1</b>:4711")
    mail.lease()
    shown = text(viewer.get(of("mail") + "?state=leased"))
    assert '<th scope="col" role="columnheader">Worker</th>' in shown
    name = "&lt;b&gt;mail1&lt;/b&gt;:4711"
    assert re.search(f'data-label="Worker"><bdi[^<>]*>{name}</bdi></td>', shown)
    assert "&lt;b&gt;mail1&lt;/b&gt;:4711" in text(viewer.get(of("mail", item)))
    assert "Worker</th>" not in text(viewer.get(of("mail")))


def test_what_failed(viewer, mail):
    """The last three failures of a dead letter, the latest first, with worker and reason."""
    for number in range(1, 5):
        item = mail.lease(worker=f"w<{number}>")
        mail.nack(item, reason=f"no <i>{number}</i>\u202e\nsecond line")
    mail.bury(item.id, reason="why")
    for shown in (text(viewer.get(of("mail") + "?state=dead")), text(viewer.get(of("mail", item)))):
        entries = re.findall(r"<li>(.*?)</li>", shown.partition("fdbqueue-failures")[2], re.DOTALL)
        assert [entry[:9] for entry in entries] == [f"Attempt {n}" for n in (4, 3, 2)]
        assert "<bdi>w&lt;4&gt;</bdi>" in entries[0]
        assert "no &lt;i&gt;4&lt;/i&gt;\\u202e" in entries[0]
        assert "<i>" not in shown
        assert "Died</th>" in shown
    listed = text(viewer.get(of("mail") + "?state=dead"))
    assert f'<details id="failures-{item.id}"><summary>3 failures <span' in listed
    assert "last worker: <bdi>w&lt;4&gt;</bdi></span></summary>" in listed
    mail.redrive()
    assert "fdbqueue-failures" not in text(viewer.get(of("mail", item)))


def test_the_reasons_of_dead_letters(viewer, mail, capsys):
    """The most frequent first, each with a command that redrives just these."""
    reasons = ["KeyError: 'a'\nmore", "$(rm) `x` <b>", "KeyError: 'a'", "-x", "", "bad\x1b"]
    kill(mail, *reasons)
    shown = text(viewer.get(of("mail") + "?state=dead"))
    found = {reason: (number, command) for reason, number, command in groups(shown)}
    assert [number for _, number, _ in groups(shown)] == ["2", "1", "1", "1", "1"]
    assert found["bad\\u001b"] == ("1", None)
    assert "<b>" not in shown
    assert "Not shown here" not in shown
    no_reason = "no reason given"
    for reason, number in (("KeyError: 'a'", 2), ("$(rm) `x` <b>", 1), ("-x", 1), (no_reason, 1)):
        command = shlex.split(found[reason][1])
        assert command[:2] == ["python", "manage.py"]
        call_command(*command[2:], "--no-input")
        assert capsys.readouterr().out == (
            f"Redrove {number} dead item{'s' if number > 1 else ''} in 'mail'.\n"
        )
    assert mail.counts().dead == 1


def test_the_command_that_removes_those_of_a_reason(viewer, mail, capsys):
    """Just these, whatever characters the reason has."""
    kill(mail, "$(rm) `x` <b>", "a", "$(rm) `x` <b>")
    shown = text(viewer.get(of("mail") + "?state=dead"))
    command = html.unescape(re.search(r'<code id="purge-1">(.*?)</code>', shown)[1])
    call_command(*shlex.split(command)[2:], "--no-input")
    assert capsys.readouterr().out == "Removed 2 dead items from 'mail'.\n"
    assert [one.reason for one in mail.dead_by_reason()] == ["a"]


def test_more_than_are_shown(viewer, mail, monkeypatch):
    """How many more there are is said, with what counts those of an earlier version."""
    monkeypatch.setattr("fdbqueue.pages.queue_page.MAX_REASONS", 2)
    kill(mail, "a", "a", "b", "b", "c", "d")
    shown = text(viewer.get(of("mail") + "?state=dead"))
    assert [reason for reason, _, _ in groups(shown)] == ["a", "b"]
    assert "Not shown here: 2 dead letters" in shown
    assert ">python manage.py queue_doctor mail --repair</code>" in shown
    bounds = mail.parts.store.tables.reasons
    run(mail.database, lambda tr: tr.clear_range(*bounds))
    shown = text(viewer.get(of("mail") + "?state=dead"))
    assert groups(shown) == []
    assert "Not shown here: 6 dead letters" in shown


def test_only_the_tab_of_the_dead_has_them(viewer, mail):
    """And only where something is dead."""
    assert "fdbqueue-reasons" not in text(viewer.get(of("mail") + "?state=dead"))
    kill(mail, "a")
    for state in ("ready", "leased", "delayed"):
        assert "fdbqueue-reasons" not in text(viewer.get(of("mail") + f"?state={state}"))
    response = viewer.get(of("mail") + "?state=dead")
    assert "fdbqueue-reasons" in text(response)
    assert len(items(response)) == 1
    live = viewer.get(of("mail") + "?state=dead", headers={"HX-Request": "true"})
    assert "fdbqueue-reasons" in text(live)


def listed(viewer, **wanted):
    """Return the values of the dead letters that the page lists."""
    response = viewer.get(of("mail"), {"state": "dead", **wanted})
    assert response.status_code == 200
    return re.findall(r'<td class="fdbqueue-value".*?<code>(\d)', text(response))


def test_a_text_is_looked_for_in_the_reasons(viewer, mail):
    """In capitals or not, with a text of the value too; the tab alone has the field."""
    kill(mail, "KeyError: 'Ada'", "no answer\nkey lost", "timed out", "", "\u202ekey")
    assert listed(viewer, reason="KEY") == ["4", "1", "0"]
    assert listed(viewer, reason="KEY", end="min") == ["0", "1", "4"]
    assert listed(viewer, reason="key", q="1") == ["1"]
    assert listed(viewer, reason="\\u202E") == ["4"]
    assert listed(viewer, reason="nothing") == []
    assert 'name="reason"' in text(viewer.get(of("mail") + "?state=dead"))
    assert 'name="reason"' not in text(viewer.get(of("mail")))
    refused = viewer.get(of("mail") + "?reason=key")
    assert refused.status_code == 400
    assert "Only dead letters have a reason." in text(refused)


def test_the_dead_letters_of_one_reason_are_listed(viewer, mail):
    """The number of a group leads to these alone; other tabs do not keep that."""
    kill(mail, "timed out", "it timed out", "timed out\nagain")
    shown = text(viewer.get(of("mail") + "?state=dead"))
    address = html.unescape(re.search(r'id="reason-1" href="([^"]+)"', shown)[1])
    alone = text(viewer.get(of("mail") + address))
    assert len(re.findall(r'id="item-', alone)) == 2
    assert re.search(r'id="reason-1" [^>]*aria-current="true"', alone)
    assert "Only dead letters with this reason are listed: <bdi>timed out</bdi>" in alone
    back = re.search(r'id="chosen-reason".*?href="([^"]+)"', alone)[1]
    assert len(items(viewer.get(of("mail") + html.unescape(back)))) == 3
    tabs = dict(re.findall(r'id="tab-(\w+)" href="([^"]+)"', alone))
    assert "group" in tabs["dead"]
    assert "group" not in tabs["ready"]


def test_a_long_reason_is_folded(viewer, mail):
    """Its beginning stands above the list, and its row names the number and folds the rest."""
    kill(mail, "x" * 180 + "\nthe <b>second</b> line" + "y" * 100, "short")
    shown = text(viewer.get(of("mail") + "?state=dead"))
    (item, _short) = mail.page(state="dead").items
    above, _begin, rows = shown.partition('id="scroll-items"')
    assert above.count('<details id="group-') == 1
    assert f"<summary><bdi>{'x' * 100}…</bdi></summary>" in above
    assert "<bdi>short</bdi>" in above
    unfolds = re.search(rf'<details id="reason-{item.id}".*?</details>', rows, re.DOTALL)[0]
    assert "the &lt;b&gt;second&lt;/b&gt; line" in unfolds
    assert "xxx" not in unfolds
    named = re.findall(r'<a href="([^"]*)" title="(x+|short)" aria-label="(\d): ', rows)
    assert {title for _address, title, _number in named} == {"x" * 180, "short"}
    for address, title, number in named:
        assert f'<span class="fdbqueue-quiet">{number}</span>' in above
        alone = text(viewer.get(of("mail") + html.unescape(address)))
        assert f"Only dead letters with this reason are listed: <bdi>{title[:100]}" in alone


def test_a_reason_that_does_not_stand_above_is_in_its_row(viewer, mail, monkeypatch):
    """As those that are less frequent than the most that are shown."""
    monkeypatch.setattr(queue_page, "MAX_REASONS", 1)
    kill(mail, "often", "often", "<b>rare</b>")
    rows = text(viewer.get(of("mail") + "?state=dead")).partition('id="scroll-items"')[2]
    assert "<bdi>&lt;b&gt;rare&lt;/b&gt;</bdi>" in rows
    assert len(re.findall('(?<=fdbqueue-of-card">: )<bdi>often</bdi>', rows)) == 2  # on cards
    assert rows.count("<bdi>often") == 2


def test_the_command_is_quoted_for_a_shell(viewer, queue, setting, settings):
    """The name of the queue and the reason are each one argument, whatever is in them."""
    settings.FDBQUEUE = {**setting, "QUEUES": {"a-*": {"kind": "fifo"}}}
    dead = queue("a-b.c_d")
    dead.push(1)
    dead.bury(dead.peek().id, reason='it\'s $HOME; "rm" -rf * ~ && !x \\ é')
    command = groups(text(viewer.get(of("a-b.c_d") + "?state=dead")))[0][2]
    assert shlex.split(command)[3:] == ["a-b.c_d", '--reason=it\'s $HOME; "rm" -rf * ~ && !x \\ é']


def test_the_page_of_a_dead_letter_has_the_command_that_redrives_it(viewer, mail, capsys):
    """It redrives this one alone; an item that is not dead has none."""
    kill(mail, "a", "b")
    dead, other = mail.page(state="dead").items
    page = text(viewer.get(of("mail", dead)))
    command = html.unescape(re.search(r'<code id="fdbqueue-remedy">(.*?)</code>', page)[1])
    call_command(*shlex.split(command)[2:], "--no-input")
    assert [item.id for item in mail.page(state="dead").items] == [other.id]
    assert "queue_redrive" not in text(viewer.get(of("mail", dead)))
