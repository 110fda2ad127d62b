"""The charts: what they draw is what was counted, and they say it in words and tables too."""

from __future__ import annotations

import datetime
import itertools
import re
import xml.etree.ElementTree as ET

import fdb.tuple
import pytest
from django.utils import timezone

from fdbqueue.pages.charts import (
    BARS,
    MAX_PRIORITIES,
    bar_chart,
    bucketed,
    depth_chart,
    nice_step,
    priorities_of,
    rate_chart,
    sparkline,
)
from fdbqueue.service.browse import Depth
from fdbqueue.service.storage.counts import Minute
from fdbqueue.service.storage.tables import TableKeys
from fdbqueue.service.transactions import run
from tests.cases import cases
from tests.pages.addresses import LIST, items, of, text

NOW = datetime.datetime(2026, 1, 31, 12, 0, tzinfo=datetime.timezone.utc)


def minutes(count, pushes=lambda n: n, pops=lambda n: 0):
    """Return a history that ends now."""
    begins = [NOW - datetime.timedelta(minutes=count - 1 - n) for n in range(count)]
    return [Minute(at, pushes(n), pops(n)) for n, at in enumerate(begins)]


def drawings(response):
    """Return the drawings of a page that are images, parsed."""
    found = re.findall(
        r'<svg[^>]*role="img"[^>]*>\n.*?</svg>(?=\n</figure>)', text(response), re.DOTALL
    )
    return [ET.fromstring(markup) for markup in found]


def test_a_queues_page_has_three_charts(viewer, queue):
    """Each an image with a title and a description, axes, a unit and tooltips."""
    queue("quakes").push_many((n, n % 7) for n in range(30))
    charts = drawings(viewer.get(of("quakes")))
    assert [chart.find("title").text for chart in charts] == [
        "Depth, last hour",
        "Pushes and pops, last hour",
        "Ready items by priority",
    ]
    for chart in charts:
        labelled = chart.attrib["aria-labelledby"].split()
        assert [chart.find("title").attrib["id"], chart.find("desc").attrib["id"]] == labelled
        assert chart.find("desc").text
        texts = [element.text for element in chart.iter("text")]
        assert "0" in texts
        assert {"items", "per minute"} & set(texts)
        assert all(rect.find("title").text for rect in chart.iter("rect") if len(rect))
    assert "0 at the start, 30 at the end; lowest 0, highest 30." in charts[0].find("desc").text
    assert "30 items pushed and 0 popped" in charts[1].find("desc").text
    assert "30 ready items in 7 priorities, from 0.0 to 6.0." in charts[2].find("desc").text


def test_a_queue_without_priorities_has_two_charts(viewer, queue):
    """A FIFO queue has no bars, and neither has one that is empty."""
    queue("mail").push(1)
    assert len(drawings(viewer.get(of("mail")))) == 2


def test_an_empty_queue_has_no_charts(viewer, queue):
    """Empty axes show nothing; words say so."""
    markup = text(viewer.get(of("quakes")))
    assert drawings(viewer.get(of("quakes"))) == []
    assert 'class="fdbqueue-small"' not in markup
    assert "The queue was empty in this period, and nothing was pushed or popped." in markup


def test_a_queue_at_rest_has_no_chart_of_rates(viewer, queue):
    """Its depth is drawn, which is not nothing."""
    mail = queue("mail")
    mail.push_many(range(3))
    minute = TableKeys(mail.subspace.key()).minute
    run(mail.database, lambda tr: tr.clear_range(minute(0), minute(2**31)))
    (chart,) = drawings(viewer.get(of("mail")))
    assert chart.find("title").text == "Depth, last hour"


def test_a_single_priority_is_said_in_words(viewer, queue):
    """A bar as wide as its chart would show nothing."""
    queue("tickets").push_many((n, 7) for n in range(1_200))
    response = viewer.get(of("tickets"))
    assert "1,200 ready items, all of the priority 7." in text(response)
    assert len(drawings(response)) == 2
    queue("tickets").push("x", 8)
    assert len(drawings(viewer.get(of("tickets")))) == 3


def test_a_few_bars_are_no_slabs():
    """However few there are, each has the width of a bar."""
    few = bar_chart("", "", [("1", "1"), ("2", "2")], [3, 4])
    assert [float(one.bar_width) for one in few.tooltips] == [90, 90]
    many = bar_chart("", "", [(str(n), str(n)) for n in range(20)], [1] * 20)
    assert {float(one.bar_width) for one in many.tooltips} == {42.5}


def test_the_charts_are_tables_too(viewer, queue):
    """Each minute is a row, each bar too, with the address of its items."""
    tickets = queue("tickets")
    tickets.push_many((n, n % 3) for n in range(9))
    response = viewer.get(of("tickets"))
    assert text(response).count('<th scope="row">') >= 120
    (address,) = re.findall(r'id="bucket-2" href="([^"]+)"', text(response))
    found = viewer.get(of("tickets") + address.replace("&amp;", "&"))
    assert items(found) == [item.id for item in tickets if item.priority == 1]


def test_the_charts_show_a_day(viewer, queue):
    """In quarters of an hour."""
    queue("mail").push(1)
    charts = drawings(viewer.get(of("mail") + "?span=day"))
    assert charts[0].find("title").text == "Depth, last day"
    assert len([rect for rect in charts[0].iter("rect") if len(rect)]) == 96


def test_the_line_goes_through_the_values():
    """The highest at the top of the scale's values, nothing at the base."""
    chart = depth_chart([Depth(m.at, n) for n, m in enumerate(minutes(60))], "hour")
    points = [tuple(map(float, p.split(","))) for p in chart.lines[0].points.split()]
    assert len(points) == len(chart.tooltips) == 60
    assert points[0][1] == chart.plot_height
    assert points == sorted(points, key=lambda point: (point[0], -point[1]))
    assert [tick.label for tick in chart.y_ticks] == ["0", "20", "40", "60"]


def test_the_depth_of_a_day_is_that_of_each_quarters_end():
    """So the last point is the present."""
    chart = depth_chart([Depth(m.at, n) for n, m in enumerate(minutes(1_440))], "day")
    assert "14 at the start, 1,439 at the end" in chart.description
    assert (len(chart.tooltips), chart.tooltips[-1].values) == (96, ("1,439",))


def test_the_rates_of_a_day_are_means():
    """A quarter of an hour's pushes are divided by its minutes."""
    chart = rate_chart(minutes(1_440, pushes=lambda n: 3, pops=lambda n: n % 15 == 0), "day")
    assert chart.tooltips[0].values == ("3", "0.1")
    assert chart.tooltips[0].tooltip == "3 pushes per minute, 0.1 pops per minute"
    assert chart.tooltips[0].when == "12:01"
    assert "4,320 items pushed and 96 popped" in chart.description


def test_times_are_those_of_the_time_zone():
    """The axis has the round times of the clock on the wall."""
    with timezone.override("Asia/Kolkata"):
        chart = rate_chart(minutes(60), "hour")
    assert [tick.label for tick in chart.x_ticks] == ["16:45", "17:00", "17:15", "17:30"]


def test_the_ticks_of_a_day_are_full_hours():
    """At their places, wherever the quarters of an hour begin that the line is drawn of."""
    chart = rate_chart(minutes(1_440), "day")
    assert [(tick.label, tick.at) for tick in chart.x_ticks] == [
        ("18:00", "24.93%"),
        ("00:00", "49.93%"),
        ("06:00", "74.93%"),
        ("12:00", "99.93%"),
    ]


def test_a_small_line_says_what_it_shows():
    """An image of sixty points has words."""
    line = sparkline([Depth(m.at, n * 100) for n, m in enumerate(minutes(60))])
    assert line.text == "Depth: 0 at the start, 5,900 now, 5,900 at the highest"
    assert line.peak == "5,900"
    assert len(line.lines[0].points.split()) == 60


def test_nothing_is_a_flat_line():
    """No division by nothing."""
    line = sparkline([Depth(m.at, 0) for m in minutes(60)])
    assert {point.split(",")[1] for point in line.lines[0].points.split()} == {"22"}
    assert [t.label for t in depth_chart([Depth(NOW, 0)] * 60, "hour").y_ticks] == ["0", "1"]


@cases("rough", [5e-324, 1e-323, 3e-316, 2.2e-308, 9.99999999e-5, 1.7e308 / 20, 5e-324 / 20])
def test_every_number_has_a_step(rough):
    """Below the normal numbers a power of ten is 0, and no multiple of it is enough."""
    assert 0 < nice_step(rough) < float("inf")
    assert nice_step(rough) >= rough * (1 - 1e-9)


@cases(("rough", "nice"), [(0, 1), (0.03, 0.05), (1, 1), (1.1, 2), (2.1, 5), (51, 100), (1e9, 1e9)])
def test_steps_are_round(rough, nice):
    """1, 2 or 5 times a power of ten."""
    assert nice_step(rough) == pytest.approx(nice)


def test_few_priorities_have_a_bar_each():
    """With the priority as it is."""
    found = bucketed([(0.31, 2), (6.4, 1)])
    assert [(bucket.label, bucket.items) for bucket in found] == [("0.31", 2), ("6.4", 1)]


@pytest.mark.parametrize(
    "priorities",
    [
        [n / 100 for n in range(-80, 640)],
        list(range(300)),
        [n * 1_000 - 7 for n in range(100)],
        [-(2**63), *range(30), 2**63 - 1],
        [1e-300 * n for n in range(40)],
        [5e-324 * n for n in range(40)],
        [-1e308, *(float(n) for n in range(30)), 1e308],
        [1.0 + n * 2**-52 for n in range(30)],
    ],
    ids=["magnitudes", "small", "thousands", "extremes", "tiny", "tiniest", "huge", "dense"],
)
def test_many_priorities_are_put_into_round_ranges(priorities):
    """No item is left out, no range overlaps another, and there are at most twenty."""
    levels = [(priority, n % 5 + 1) for n, priority in enumerate(priorities)]
    found = bucketed(levels)
    assert 1 <= len(found) <= BARS
    assert sum(bucket.items for bucket in found) == sum(count for _, count in levels)
    filled = [bucket for bucket in found if bucket.items]
    assert all(one.high < other.low for one, other in itertools.pairwise(filled))
    assert filled[0].low == priorities[0]
    assert filled[-1].high == priorities[-1]


@cases(
    "priorities",
    [
        list(range(2**63 - 31, 2**63 - 1)),
        list(range(-(2**63), -(2**63) + 30)),
        [10**12 + n * 7 for n in range(30)],
        [n * 1e-310 for n in range(-15, 15)],
        [1.0 + n * 2**-52 for n in range(30)],
        [1e6 + n / 10 for n in range(40)],
        [n * 1e307 for n in range(-17, 18)],
    ],
)
def test_ranges_are_told_apart(priorities):
    """By bounds of as many digits as that takes, and of no more than a number of ours has."""
    labels = [bucket.label for bucket in bucketed([(priority, 1) for priority in priorities])]
    assert len(set(labels)) == len(labels)
    for label in labels:
        low, high = label.split(" to below ")
        assert low != high
        assert len(label) < 60


def test_a_range_that_begins_at_nothing_begins_at_0():
    """Whatever its width."""
    assert bucketed([(n * 1e-310, 1) for n in range(30)])[0].tick == "0"
    assert bucketed([(n / 10, 1) for n in range(30)])[0].tick == "0"


def test_the_ranges_are_named_by_their_bounds():
    """The lower one included, the upper one not."""
    found = bucketed([(n / 10, 1) for n in range(-8, 64)])
    assert found[0].label == "-1.0 to below -0.5"
    assert found[0].tick == "-1.0"
    assert [bucket.items for bucket in found[:3]] == [3, 5, 5]


def test_more_priorities_than_are_read_are_said_to_be():
    """Those above the highest that was read are counted together."""
    levels = [(n, 1) for n in range(MAX_PRIORITIES)]
    found = priorities_of(levels, 5_000, "int", is_cut=True)
    assert found.above == 4_000
    assert "4,000 more items have higher priorities and are not shown." in found.description


def test_a_priority_that_is_no_number_does_no_harm():
    """A foreign writer's NaN and infinities have no bar."""
    levels = [(float("-inf"), 1), (1.0, 2), (float("inf"), 1), (float("nan"), 1)]
    found = priorities_of(levels, 5, "float", is_cut=False)
    assert [bucket.items for bucket in found.buckets] == [2]
    assert found.left_out == 3
    alone = priorities_of([(float("nan"), 1)], 1, "float", is_cut=False)
    assert (alone.buckets, alone.left_out) == ([], 1)
    assert priorities_of([(1.0, 0)], 0, "float", is_cut=False) is None


def put(queue, priority):
    """Store an item of any priority, as a foreign writer may."""
    key = queue.subspace.pack((priority, 0, b"random"))
    run(queue.database, lambda tr: tr.set(key, fdb.tuple.pack(("1",))))


@pytest.mark.parametrize(
    ("name", "foreign"),
    [
        ("tickets", [10**400]),
        ("tickets", [-(10**400), 2**63]),
        ("tickets", [0.5]),
        ("tickets", [float("nan"), float("-inf"), -1e308]),
        ("quakes", [10**400, 3, float("nan")]),
        ("quakes", [float("inf")]),
    ],
)
@pytest.mark.parametrize("count", [0, 3, 40])
def test_a_foreign_priority_is_left_out(viewer, queue, name, foreign, count):
    """Those that the queue takes have their bars, and the page says how many it leaves out."""
    for n in range(count):
        queue(name).push(n, n)
    for priority in foreign:
        put(queue(name), priority)
    queue(name).recount()
    response = viewer.get(of(name))
    assert response.status_code == 200
    words = f"{len(foreign)} more items have priorities that this queue does not accept."
    assert text(response).count(words) == (2 if count else 1)  # beside a chart, and in it
    if count:
        assert f"{count} ready items in {count} priorities" in text(response)


def test_the_smallest_priorities_do_no_harm(viewer, queue):
    """Each is a number that a queue takes."""
    queue("quakes").push_many((n, n * 5e-324) for n in range(40))
    response = viewer.get(of("quakes"))
    assert "40 ready items in 40 priorities" in text(response)


def test_a_priority_without_items_hides_none_above(viewer, queue):
    """Its count is read with the others, and is one of the thousand."""
    tickets = queue("tickets")
    tickets.push_many((n, n) for n in range(MAX_PRIORITIES + 5))
    level = TableKeys(tickets.subspace.key()).level(3)
    run(tickets.database, lambda tr: tr.set(level, bytes(8)))
    assert "more items have higher priorities and are not shown." in text(viewer.get(of("tickets")))


def test_all_times_of_a_page_are_of_one_time_zone(viewer, queue, settings):
    """That of the project, where Django leaves times as they are, too."""
    settings.USE_TZ, settings.TIME_ZONE = False, "Asia/Kolkata"
    item = queue("mail").push(1)
    leased = queue("quakes").push(1, 1)
    queue("quakes").lease(seconds=60)
    for address in (LIST, of("mail"), of("mail", item), of("quakes", leased)):
        markup = text(viewer.get(address)).partition("<main")[2]
        assert "UTC" not in markup
        assert not re.search(r'datetime="[^"]*(?<!\+05:30)"', markup)
        assert " IST" in markup


@pytest.mark.parametrize("delay", [None, 600])
def test_what_is_cleared_was_never_popped(queue, delay):
    """So the depth of the past is too low, and flat where all of the queue was cleared."""
    mail = queue("mail")
    mail.push_many(range(5), delay=delay)
    mail.clear_state("delayed" if delay else "ready")
    found = mail.history(5)
    assert (sum(m.pushes for m in found), sum(m.pops for m in found)) == (5, 0)
    mail.clear()
    assert {(m.pushes, m.pops) for m in mail.history(5)} == {(0, 0)}


def test_the_unfinished_minute_of_the_rates_is_drawn_apart(viewer, queue):
    """In the chart and in the small one; the depth of now is no part of a minute."""
    queue("mail").push("news")
    markup = text(viewer.get(of("mail")))
    lines = re.findall(r'<polyline class="([^"]*)" points="([^"]*)"', markup)
    apart = [points.split() for css, points in lines if "fdbqueue-unfinished" in css]
    assert [len(points) for points in apart] == [2] * 4
    solid = [points.split() for css, points in lines if "fdbqueue-unfinished" not in css]
    assert sorted(len(points) for points in solid) == [59] * 4 + [60] * 2
    for points in apart:
        assert any(other[-1] == points[0] for other in solid)
