"""Pages across queues: who leases what, why items died, and where an id is."""

from __future__ import annotations

import html
import re

import pytest

from fdbqueue import conf
from fdbqueue.columns import DASH
from fdbqueue.pages import workers_and_failures
from fdbqueue.service.tools import presence
from tests.cases import cases
from tests.pages.addresses import LIST, items, of, text
from tests.presences import write_rows

WORKERS, FAILURES, FIND = f"{LIST}-/workers/", f"{LIST}-/failures/", f"{LIST}-/find/"
PAGES = [WORKERS, FAILURES, FIND + "?id=x"]
EVIL = "<script>alert(1)</script>"


def leases(response):
    """Return the texts of the cells of each lease."""
    return rows_of(response, "rows-caption")


def rows_of(response, caption):
    """Return the texts of the cells of a table's rows."""
    table = re.search(rf'aria-labelledby="{caption}".*?</table>', text(response), re.DOTALL)
    if table is None:
        return []
    body = table[0].partition("<tbody")[2]
    rows = re.findall(r"<tr.*?</tr>", body, re.DOTALL)
    cells = [re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL) for row in rows]
    return [[html.unescape(re.sub(r"<[^>]*>", "", one)).strip() for one in row] for row in cells]


def bury(queue, reason, count=1):
    """Let items of a queue die of a reason."""
    for _ in range(count):
        queue.bury(queue.push("x").id, reason=reason)


# Workers


def test_the_leases_of_all_queues_are_listed(viewer, queue):
    """With their workers, since when and until when, linked to the item and its queue."""
    item = queue("mail").push(1)
    queue("mail").lease(seconds=60, worker="ada")
    queue("quakes").push(2, priority=1.0)
    queue("quakes").lease(seconds=30, worker="bob")
    response = viewer.get(WORKERS)
    assert [(row[3], row[0]) for row in leases(response)] == [("quakes", "bob"), ("mail", "ada")]
    since, until = leases(response)[1][4:]
    assert re.fullmatch(r"\d+ \w+ ago", since)
    assert "in " in until
    assert f'href="{of("mail", item)}"' in text(response)
    assert f'href="{of("mail")}?state=leased"' in text(response)
    assert "All 2 leases of" in text(response)


@pytest.mark.parametrize(
    ("query", "workers"),
    [
        ("", ["c", "ADA", DASH]),
        ("?sort=leased", [DASH, "ADA", "c"]),
        ("?sort=worker", ["ADA", "c", DASH]),
        ("?sort=queue", ["ADA", DASH, "c"]),
        ("?worker=ad", ["ADA"]),
        ("?worker=nobody", []),
    ],
)
def test_leases_are_ordered_and_filtered(viewer, queue, query, workers):
    """By when they end or began, by worker or queue; a filter ignores case."""
    for name, seconds, worker in (("tickets", 90, None), ("mail", 60, "ADA"), ("user-1", 30, "c")):
        queue(name).push(1)
        queue(name).lease(seconds=seconds, **({"worker": worker} if worker else {}))
    assert [row[0] for row in leases(viewer.get(WORKERS + query))] == workers


def test_a_workers_name_is_text(viewer, queue):
    """Markup is escaped; a long name fits."""
    for worker in (EVIL, "w" * 200, " ", None):
        queue("mail").push(1)
        queue("mail").lease(seconds=60, **({"worker": worker} if worker else {}))
    for query in ("", f"?worker={EVIL}", "?worker=" + "w" * 200):
        response = viewer.get(WORKERS + query)
        assert response.status_code == 200
        assert EVIL not in text(response)


def test_nothing_leased(viewer):
    """The page says so."""
    assert "No worker is there, and nothing is leased now." in text(viewer.get(WORKERS))
    assert "There are no dead letters." in text(viewer.get(FAILURES))


def test_the_workers_there_are(viewer, queue):
    """One table: who is alive or lost, in which process, what it holds, since when; and the idle.

    The tiles count what is in it, and an item is named by its value.
    """
    ada = {"name": "ada", "host": "mail1", "process": 4711, "queues": "mail", "serves": "mail"}
    write_rows(conf.catalog().presences, ada, {"name": "bob", "queues": "mail, user-*"})
    write_rows(conf.catalog().presences, {**ada, "name": "Abe"}, silent_seconds=60)
    for value, worker in ((1, "ada"), (2, "ada"), ({"to": "Nuku"}, "Abe"), (3, "stranger")):
        queue("mail").push(value)
        queue("mail").lease(seconds=60, worker=worker)
    response = viewer.get(WORKERS)
    assert sorted(row[:4] for row in leases(response)) == [
        ["Abe mail1:4711", "Lost\xa01\xa0min", '{"to": "Nuku"}', "mail"],
        ["ada mail1:4711", "Alive", "1", "mail"],
        ["ada mail1:4711", "Alive", "2", "mail"],
        ["bob", "Alive", DASH, "mail, user-*"],
        ["stranger", DASH, "3", "mail"],
    ]
    tiles = re.findall(r'id="figure-(\w+)"[^>]*>(\d+)<', text(response))
    assert dict(tiles) == {"alive": "2", "lost": "1", "leases": "4", "busy": "1"}
    assert "Workers and leases 1 to 5 of 5" in text(response)


def test_the_leased_items_of_a_queue_say_whether_their_workers_are_alive(viewer, queue):
    """If these have rows."""
    write_rows(conf.catalog().presences, {"name": "ada"})
    write_rows(conf.catalog().presences, {"name": "Abe"}, silent_seconds=60)
    for worker in ("ada", "Abe", "stranger"):
        queue("mail").push(1)
        queue("mail").lease(seconds=60, worker=worker)
    shown = rows_of(viewer.get(of("mail") + "?state=leased"), "items-caption")
    assert [cell for row in shown for cell in row if cell[:3] in {"ada", "Abe", "str"}] == [
        "ada Alive",
        "Abe Lost\xa01\xa0min",
        "stranger",
    ]


@pytest.mark.parametrize(
    ("query", "names"),
    [("?worker=AD", ["ada", "Ada-2"]), ("?after=a", [])],
)
def test_workers_are_filtered_as_leases_are(viewer, queue, query, names):
    """Where other queues follow they are not said again."""
    write_rows(conf.catalog().presences, {"name": "ada"}, {"name": "Ada-2"}, {"name": "bob"})
    assert sorted(row[0] for row in leases(viewer.get(WORKERS + query))) == sorted(names)


def test_what_a_worker_says_is_text(viewer):
    """Markup is escaped, and numbers and moments of any size are shown."""
    texts = dict.fromkeys(("name", "kind", "host", "version", "queues"), EVIL + "\ud800\x00")
    numbers = dict.fromkeys(("process", "threads", "running", "done", "failed"), 10**40)
    odd = [{**texts, **numbers, "since_us": since} for since in (1, 2**57 - 1, 2**63)]
    write_rows(conf.catalog().presences, {}, *odd)
    response = viewer.get(WORKERS)
    assert len(leases(response)) == 4
    assert EVIL not in text(response)


def test_more_workers_than_are_read(viewer, monkeypatch):
    """As many as are read are shown, and that there are more is said."""
    assert "more-present" not in text(viewer.get(WORKERS))
    monkeypatch.setattr(presence, "MAX_ROWS", 3)
    write_rows(conf.catalog().presences, *({"name": str(number)} for number in range(3)))
    assert "more-present" not in text(viewer.get(WORKERS))
    write_rows(conf.catalog().presences, *({"name": str(number)} for number in range(4)))
    response = viewer.get(WORKERS)
    assert len(leases(response)) == 3
    assert 'id="more-present"' in text(response)


# Failures


def test_dead_letters_of_all_queues_are_grouped_by_reason(viewer, queue):
    """The most frequent first, with links to the dead letters of it in each queue."""
    bury(queue("mail"), "no such host\nmore")
    bury(queue("tickets"), "no such host", 2)
    bury(queue("mail"), EVIL)
    response = viewer.get(FAILURES)
    assert [row[:3] for row in rows_of(response, "rows-caption")] == [
        ["no such host", "3", "tickets (2), mail (1)"],
        [EVIL, "1", "mail (1)"],
    ]
    assert EVIL not in text(response)
    assert f'href="{of("tickets")}?state=dead&amp;group=no+such+host"' in text(response)
    assert viewer.get(of("tickets") + "?state=dead&group=no+such+host").status_code == 200
    first = rows_of(viewer.get(FAILURES + "?sort=reason"), "rows-caption")[0]
    assert first[0] == EVIL
    chosen = rows_of(viewer.get(FAILURES + "?reason=SUCH"), "rows-caption")
    assert [row[0] for row in chosen] == ["no such host"]


def test_counts_lead_to_what_they_count(viewer, queue):
    """Dead letters of one queue to its list; and the tiles."""
    for name in ("mail", "tickets"):
        queue(name).push(1)
        queue(name).lease(seconds=60, worker="ada")
    bury(queue("mail"), "no such host", 2)
    for name in ("mail", "tickets"):
        bury(queue(name), "full", 2)
    shown = text(viewer.get(WORKERS))
    failed = text(viewer.get(FAILURES))
    address = html.unescape(re.search(r'id="letters-2" href="([^"]*)">2<', failed)[1])
    assert len(items(viewer.get(address))) == 2
    assert 'id="letters-1"' not in failed  # of two queues; these are links, with their numbers
    for page, markup, count in ((WORKERS, shown, 4), (FAILURES, failed, 3)):
        tiles = re.findall(r'id="figure-\w+" href="([^"]*)"', markup)
        assert len(tiles) == count
        for tile in tiles:
            target = html.unescape(tile) if tile.startswith("/") else page + html.unescape(tile)
            assert viewer.get(target).status_code == 200


def test_a_letter_without_a_reason(viewer, queue):
    """It is in a group that says so, and leads to all dead letters."""
    bury(queue("mail"), "")
    response = viewer.get(FAILURES)
    assert rows_of(response, "rows-caption")[0][:2] == ["no reason given", "1"]
    assert f'href="{of("mail")}?state=dead"' in text(response)


# Finding an id


@pytest.mark.parametrize("name", ["mail", "tickets", "user-7"])
def test_an_id_leads_to_its_item_in_whatever_queue(viewer, queue, name):
    """By a redirect."""
    queue("quakes").push(1, priority=1.0)
    item = queue(name).push(1)
    response = viewer.get(FIND, {"id": f" {item.id} "})
    assert (response.status_code, response.url) == (302, of(name, item))


@cases("sought", ["x", "AAAA", "a/b", "<b>", "\u202e", "\ud800", "A" * 9_000])
def test_what_no_queue_has_is_said_so(viewer, queue, sought):
    """404, with how many queues were looked at, and the field to try again."""
    queue("mail").push(1)
    response = viewer.get(FIND, {"id": sought.encode("utf-8", "surrogatepass")})
    assert response.status_code == 404
    assert "None of the 5 queues has" in text(response)
    assert 'id="find-id"' in text(response)
    assert "<b>" not in text(response)


def test_the_list_asks_for_an_id(viewer):
    """The field leads to the address that looks in all queues."""
    for page in (LIST, WORKERS, FAILURES):
        assert f'action="{FIND}"' in text(viewer.get(page))
        assert f'href="{WORKERS}"' in text(viewer.get(page))


# Bad input and bounds


@cases(
    "query",
    [
        "sort=nothing",
        "sort=until&sort=leased",
        "page=0",
        "page=x",
        "page=1001",
        "start=1",
        "after=" + "x" * 101,
        "worker=" + "x" * 201,
        "worker=%00",
        "refresh=1",
    ],
)
def test_parameters_that_do_not_fit(viewer, queue, query):
    """400 in the frame, with what is wrong, and nothing is read of items."""
    response = viewer.get(f"{WORKERS}?{query}")
    assert response.status_code == 400
    assert 'role="alert"' in text(response)
    assert viewer.get(f"{FAILURES}?{query.replace('worker', 'reason')}").status_code == 400
    assert leases(response) == []


@pytest.mark.parametrize("query", ["page=9", "after=zzz"])
def test_behind_the_last(viewer, queue, query):
    """There is nothing, and a way back."""
    queue("mail").push(1)
    queue("mail").lease(seconds=60)
    response = viewer.get(f"{WORKERS}?{query}")
    assert response.status_code == 200
    assert leases(response) == []
    assert 'id="page-' in text(response)


@pytest.mark.parametrize(
    ("counts", "most", "found"),
    [
        ([], 10, []),
        ([3, 4], 10, [3, 4]),
        ([100, 2, 100], 10, [4, 2, 4]),
        ([1, 1, 1], 2, [1, 1, 1]),
        ([100_000] * 200, 1_000, [5] * 200),
    ],
)
def test_each_queue_has_its_share(counts, most, found):
    """Small ones are read whole; what they leave, the others get."""
    assert workers_and_failures.shares(counts, most) == found


def test_reads_are_bounded_and_what_is_left_out_is_said(viewer, queue, watched, monkeypatch):
    """Ten times the leases and dead letters cost no read more, and no page writes."""
    monkeypatch.setattr(workers_and_failures, "MAX_ITEMS", 10)
    monkeypatch.setattr(workers_and_failures, "MAX_REASONS", 1)
    taken = []
    for count in (30, 270):
        for name in ("mail", "user-1"):
            queue(name).push_many(range(count * 2))
            queue(name).lease_many(count, seconds=60, worker="w")
            for item in queue(name).page(limit=20).items:
                queue(name).bury(item.id, reason="why")
            bury(queue(name), "rare")
        for page in (WORKERS, FAILURES):
            watched.reads.clear()
            watched.writes.clear()
            response = viewer.get(page)
            assert watched.writes == []
            taken.append(len(watched.reads))
    assert taken[:2] == taken[2:]
    assert "80 of 84 dead letters" in text(response)
    assert "10 of 600 leases" in text(viewer.get(WORKERS))


def test_queues_that_were_not_looked_at_are_said(viewer, queue, monkeypatch):
    """A link leads to those after these; together all are shown."""
    monkeypatch.setattr("fdbqueue.pages.workers_and_failures.MAX_QUEUES_READ", 2)
    for name in ("mail", "tickets", "user-1"):
        item = queue(name).push(1)
        queue(name).lease(seconds=60)
    seen, address = [], ""
    while address is not None:
        response = viewer.get(WORKERS + address)
        seen += [row[3] for row in leases(response)]
        link = re.search(r'id="further" href="([^"]*)"', text(response))
        address = html.unescape(link[1]) if link else None
    assert seen == ["mail", "tickets", "user-1"]
    found, address = "", f"?id={item.id}"
    for _ in range(4):
        response = viewer.get(FIND + address)
        found += text(response)
        link = re.search(r'id="further" href="([^"]*)"', text(response))
        if link is None:
            break
        address = html.unescape(link[1])
    assert of("user-1", item) in found


def test_a_queue_of_other_settings_does_not_stop_the_page(viewer, queue, settings):
    """Its items are left out; those of others are there."""
    for name in ("mail", "tickets"):
        queue(name).push(1)
        queue(name).lease(seconds=60)
    queues = {**settings.FDBQUEUE["QUEUES"], "tickets": {"kind": "fifo"}}
    settings.FDBQUEUE = {**settings.FDBQUEUE, "QUEUES": queues}
    response = viewer.get(WORKERS)
    assert [row[3] for row in leases(response)] == ["mail"]
    assert "1 of 2 leases" in text(response)
    assert viewer.get(FIND, {"id": "x"}).status_code == 404


def test_the_leased_items_of_a_queue_are_chosen_by_their_worker(viewer, queue):
    """By a part of the name, ignoring case; only leased items have one, so other tabs drop it."""
    for worker in ("ada-1", "Ada-2", "bob"):
        queue("mail").push(1)
        queue("mail").lease(seconds=60, worker=worker)
    response = viewer.get(of("mail") + "?state=leased&worker=ADA")
    assert len(items(response)) == 2
    assert 'name="worker"' in text(response)
    assert "worker=" not in re.search(r'id="tab-ready" href="([^"]*)"', text(response))[1]
    refused = viewer.get(of("mail") + "?worker=ada")
    assert refused.status_code == 400
    assert "Only leased items have a worker." in text(refused)
    assert 'name="worker"' not in text(viewer.get(of("mail")))
