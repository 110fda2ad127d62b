"""A paused queue: its mark in the list, and the banner of its page."""

from __future__ import annotations

import re

import pytest

from tests.pages.addresses import LIST, of, text

PART = {"HX-Request": "true"}
#: Markup, a direction mark and a control character.
HOSTILE = "</bdi><script>alert(1)</script>\u202e\x1b\"' {{ live }}"


def banner(markup):
    """Return the banner of a queue's page, None where there is none."""
    found = re.search(r'<div class="fdbqueue-paused">.*?</div>', markup, re.DOTALL)
    return found and found[0]


def mark(markup, name):
    """Return the mark of a queue in the list, None where there is none."""
    pattern = rf'>{name}</a> (<span class="fdbqueue-mark"[^>]*>[^<]*</span>)'
    found = re.search(pattern, markup)
    return found and found[1]


def test_the_list_marks_paused_queues(viewer, queue):
    """With the word, for how long and why; the others have none."""
    queue("mail").pause(reason="deploying")
    queue("raw").pause()
    markup = text(viewer.get(LIST))
    assert mark(markup, "mail") == (
        '<span class="fdbqueue-mark" title="less than a minute ago: deploying">Paused</span>'
    )
    assert 'title="less than a minute ago"' in mark(markup, "raw")
    assert mark(markup, "quakes") is None
    queue("mail").resume()
    assert mark(text(viewer.get(LIST)), "mail") is None


def test_the_page_says_since_when_and_why(viewer, queue):
    """And the command that resumes the queue."""
    assert banner(text(viewer.get(of("mail")))) is None
    pause = queue("mail").pause(reason="deploying 2.4")
    found = banner(text(viewer.get(of("mail"))))
    assert re.search(r"<strong>Paused since <time [^>]*>[^<]+</time></strong>", found)
    assert f'datetime="{pause.since.isoformat(timespec="seconds")[:10]}' in found
    assert ": <bdi>deploying 2.4</bdi>" in found
    assert '<code id="fdbqueue-resume">python manage.py queue_resume mail</code>' in found
    queue("mail").pause(reason="")
    assert "</strong></p>" in banner(text(viewer.get(of("mail"))))


def test_a_refresh_brings_the_banner_and_takes_it(viewer, queue):
    """It is a part that htmx puts in place, empty once the queue is resumed."""
    place = '<div id="fdbqueue-pause" hx-swap-oob="innerHTML">'
    assert f"{place}</div>" in text(viewer.get(of("mail"), headers=PART))
    queue("mail").pause(reason="deploying")
    part = text(viewer.get(of("mail"), headers=PART))
    assert place in part
    assert "deploying" in banner(part)
    queue("mail").resume()
    assert banner(text(viewer.get(of("mail"), headers=PART))) is None


def test_a_reason_is_not_markup(viewer, queue):
    """It is escaped, with direction marks and control characters as escapes."""
    queue("mail").pause(reason=HOSTILE)
    for address in (LIST, of("mail")):
        markup = text(viewer.get(address))
        assert "<script>alert" not in markup
        assert (
            "&lt;script&gt;alert(1)&lt;/script&gt;\\u202e\\u001b&quot;&#x27; {{ live }}" in markup
        )
        assert "\u202e" not in markup


def test_a_long_reason(viewer, queue):
    """The list shows its beginning, the page all that is kept."""
    queue("mail").pause(reason="é" * 2_000)
    listed = mark(text(viewer.get(LIST)), "mail")
    assert "é" * 100 + "…" in listed
    assert "é" * 101 not in listed
    found = banner(text(viewer.get(of("mail"))))
    assert "é" * 1_000 in found
    assert "é" * 1_001 not in found


def test_bad_parameters(viewer, queue):
    """A page that reads nothing says nothing of a pause."""
    queue("mail").pause()
    response = viewer.get(of("mail") + "?limit=1")
    assert response.status_code == 400
    assert banner(text(response)) is None


@pytest.mark.parametrize(("rule", "can"), [("may_families", True), ("may_members", False)])
def test_an_authorizer_lets_a_user_pause_a_family(on, settings, viewer, queue, rule, can):
    """It is asked about all queues, for the button as for the form."""
    rules = {"AUTHORIZER": f"tests.pages.rules.{rule}"}
    settings.FDBQUEUE = {**settings.FDBQUEUE, "API": rules}
    member = queue("user-7")
    member.push(1)
    address = f"{LIST}user-*/do/pause/"
    assert (f'href="{address}"' in text(viewer.get(f"{LIST}?name=user-*"))) is can
    asked = viewer.get(address)
    assert (asked.status_code == 200) is can
    form = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', text(asked)))
    viewer.post(address, form)
    assert bool(member.paused()) is can
