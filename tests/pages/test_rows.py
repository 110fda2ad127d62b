"""What the rows of a list say, and what is said above them once."""

from __future__ import annotations

import html
import re

from fdbqueue.pages.values import shared_members
from tests.cases import cases
from tests.pages.addresses import LIST, of, text


def previews(response):
    """Return the beginnings of values in the list."""
    rows = text(response).partition('id="items-caption"')[2]
    return [
        html.unescape(re.sub(r"<[^>]*>", "", one))
        for one in re.findall(r"<code>(.*?)</code>", rows)
    ]


def above(response):
    """Return what is said above the rows of a list, empty for nothing."""
    found = re.search(r'id="shared">(.*?)</p>', text(response))
    return "" if found is None else html.unescape(re.sub(r"<[^>]*>", "", found[1]))


def test_what_all_values_have_is_said_once(viewer, queue):
    """A row shows what is its own; what is left out is told by an ellipsis."""
    for name in ("ada", "grace", "<b>"):
        queue("mail").push({"kind": "letter", "to": name, "copies": 1})
    response = viewer.get(of("mail"))
    assert above(response) == 'In all rows: {"kind": "letter", "copies": 1}'
    assert previews(response) == ['{…, "to": "ada"}', '{…, "to": "grace"}', '{…, "to": "<b>"}']
    queue("mail").push({"kind": "letter", "copies": 1})
    assert previews(viewer.get(of("mail")))[-1] == "{…}"
    queue("mail").push("no object")
    response = viewer.get(of("mail"))
    assert above(response) == ""
    assert previews(response)[0] == '{"kind": "letter", "to": "ada", "copies": 1}'


@cases(
    ("values", "shared"),
    [
        ([], {}),
        ([{"a": 1}] * 2, {}),
        ([{"a": 1}] * 3, {}),
        ([{"a": 1, "b": n} for n in range(3)], {"a": 1}),
        ([{"a": a, "b": 1} for a in (1, True, 1.0)], {"b": 1}),
        ([{"a": None, "b": n} for n in range(3)], {"a": None}),
        ([{"a": [1], "b": n} for n in range(3)], {}),
        ([{"a": "x" * 1_000, "b": n} for n in range(3)], {}),
        ([{"a": 1}, {"a": 1}, {}], {}),
        ([{"a": 1}, {"a": 1}, [1]], {}),
        ([{"a": 1}, {"a": 1, "b": 2}, {"b": 2, "a": 1}], {"a": 1}),
    ],
)
def test_what_values_share(values, shared):
    """Members alike in type and value, short ones alone, and never all of every value."""
    assert shared_members(values) == shared


def test_dead_rows_do_not_repeat_the_reason_of_their_group(viewer, queue):
    """It is said above them; what follows its first line is left, if a row has any."""
    mail = queue("mail")
    mail.push_many(["a", "b", "c"])
    ids = [item.id for item in mail]
    mail.bury(ids[0], reason="timed <out>")
    mail.bury(ids[1], reason="timed <out>")
    response = viewer.get(of("mail") + "?state=dead")
    assert above(response) == "In all rows: timed <out>"
    assert "Reason</th>" not in text(response).partition('id="items-caption"')[2]
    mail.bury(ids[2], reason="timed <out>\nafter 3 s")
    shown = text(viewer.get(of("mail") + "?state=dead")).partition('id="items-caption"')[2]
    assert "Reason</th>" in shown
    assert "after 3 s" in shown
    assert "timed &lt;out&gt;" not in shown.partition("<tbody")[2].partition("</tbody>")[0].replace(
        "\n", ""
    )
    mail.push("d")
    mail.bury(mail.peek().id, reason="other")
    response = viewer.get(of("mail") + "?state=dead")
    assert above(response) == ""
    assert "timed &lt;out&gt;" in text(response).partition('id="items-caption"')[2]


def test_a_count_of_the_list_leads_to_what_it_counts(viewer, queue):
    """To the items of a queue in a state, and above the list to the queues that have most."""
    queue("mail").push_many(range(5))
    queue("mail").bury(queue("mail").peek().id)
    shown = text(viewer.get(LIST))
    assert f'<a href="{of("mail")}">4</a>' in shown
    assert f'<a href="{of("mail")}?state=dead">1</a>' in shown
    assert f'href="{of("mail")}?state=leased"' not in shown
    assert re.search(r'<a id="figure-dead" href="\?sort=-dead">1</a>', shown)
    assert viewer.get(LIST + "?sort=-dead").status_code == 200


def test_the_list_has_the_rates_of_all_queues(viewer, queue):
    """As a line of the last hour; there is none if nothing happened."""
    assert "fdbqueue-smalls" not in text(viewer.get(LIST))
    queue("mail").push_many(range(3))
    queue("quakes").push({}, 1)
    queue("mail").pop()
    assert "4 items pushed and 1 popped or acknowledged" in text(viewer.get(LIST))
