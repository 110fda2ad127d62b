"""Types beyond JSON: the option ``rich_types``, and the errors that name an argument."""

from __future__ import annotations

import datetime
import decimal
import enum
import json
import uuid
import zoneinfo

import pytest
from django.core import checks
from django.db import transaction

from fdbqueue.exceptions import InvalidValue
from fdbqueue.tasks import call, chain, group
from fdbqueue.tasks.encoders import Rich, all_rich, decode, encode, with_given
from fdbqueue.tasks.exceptions import TypeUnknown
from tests.called import called
from tests.tasks import jobs, rich_jobs
from tests.tasks.outboxes import database_at
from tests.tasks.stored import stored

UTC = datetime.timezone.utc
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
VALUES = [
    datetime.datetime(2026, 11, 26, 16, 30, 0, 5, tzinfo=UTC),
    datetime.datetime(2026, 11, 26, 16, 30),  # noqa: DTZ001  # on purpose
    datetime.datetime(2026, 7, 1, tzinfo=BERLIN),
    datetime.date(1, 1, 1),
    datetime.time(23, 59, 59, 999_999),
    datetime.time(1, tzinfo=datetime.timezone(datetime.timedelta(hours=-3))),
    datetime.timedelta(days=-3, microseconds=7),
    datetime.timedelta.max,
    datetime.timedelta.min,
    decimal.Decimal("-1.10"),
    decimal.Decimal("1E+999999"),
    decimal.Decimal("9" * 1_000),
    uuid.UUID(int=7),
]
#: Dictionaries of a project's own that look like what is stored.
ALIKE = [
    {"$uuid": str(uuid.UUID(int=7))},
    {"$dict": {"$dict": {"a": 1}}},
    {"$date": datetime.date(2026, 1, 1)},
    {"$": 1},
    {"$no": {"$dict": []}},
    {"$a": 1, "$b": 2},
    {},
]


@pytest.fixture
def backend(configure):
    return configure(rich_types=True)


@pytest.mark.parametrize(
    "value", [*VALUES, *ALIKE, [[], {"a": VALUES}]], ids=lambda v: repr(v)[:40]
)
def test_each_value_comes_back_as_it_was(value):
    """Of the same type, through JSON, inside of others, and for whatever looks like it."""
    for given in (value, [value, 1], {"a": {"$b": value}}, {"$date": value}):
        found = decode(json.loads(json.dumps(encode(given))))
        assert (found, repr(type(found))) == (given, repr(type(given)))
    assert type(decode(encode(value))) is type(value)


class Sort(str, enum.Enum):
    """Texts that are shown otherwise."""

    UUID = "$uuid"


def test_a_name_that_is_shown_as_another_text(backend, work):
    """What it is as JSON counts: the dictionary is a project's own."""
    given = {Sort.UUID: str(uuid.UUID(int=7))}
    assert decode(json.loads(json.dumps(encode(given)))) == given
    rich_jobs.take.enqueue(given)
    work()
    assert jobs.done == [(given,)]


def test_plain_values_are_stored_as_they_are():
    """Tuples are lists, as ever."""
    plain = {"a": [1, 2.5, None, True, "x", {"b": (1, 2)}], "c": {}}
    assert encode(plain) == {**plain, "a": [*plain["a"][:5], {"b": [1, 2]}]}


@pytest.mark.parametrize(
    "wrong",
    [
        {"$nope": "x"},
        {"$uuid": 7},
        {"$uuid": "x"},
        {"$date": "2026"},
        {"$decimal": "1,5"},
        {"$datetime": ["2026-01-01"]},
        {"$dict": []},
        {"$timedelta": "9" * 99 + " us"},
        {"$timedelta": "1" * 200},
        {"$": None},
    ],
    ids=repr,
)
def test_what_is_stored_wrongly_is_refused(configure, work, wrong):
    """Nothing else is made of it; its attempt fails, and its result can be read."""
    backend = configure(rich_types=True, backoff=jobs.never)
    with pytest.raises(TypeUnknown):
        decode([wrong])
    result = jobs.note.enqueue(1)
    queue = backend.queue("default")
    value = queue.pop().value
    queue.push({**value, "args": [wrong], "rich": True})
    work()
    assert jobs.done == []
    (dead,) = queue.page(state="dead").items
    assert dead.reason.startswith("fdbqueue.tasks.exceptions.TypeUnknown")
    assert backend.found(result.id) is None or stored(result).args == [wrong]


def test_arguments_and_values(backend, work):
    """In the function, in the result that was enqueued, and in that which is read."""
    given = {str(at): value for at, value in enumerate([*VALUES, *ALIKE])}
    result = rich_jobs.echo.enqueue(*VALUES, **given)
    assert (tuple(result.args), result.kwargs) == (tuple(VALUES), given)
    work()
    assert jobs.done == [(tuple(VALUES), given)]
    found = stored(result)
    assert (found.args, found.kwargs) == (VALUES, given)
    assert found.return_value == [VALUES, given]
    shown = json.loads(called("tasks_show", result.id, "--json"))
    assert shown["args"][-1] == {"$uuid": str(uuid.UUID(int=7))}


def test_keys_are_made_of_the_values(backend, work):
    """The functions of keys get what the task gets."""
    first = rich_jobs.of_year.enqueue(datetime.date(2026, 1, 1))
    again = rich_jobs.of_year.enqueue(datetime.date(2026, 2, 1))
    limited = rich_jobs.one_a_year.enqueue(datetime.date(2026, 2, 1))
    assert first.id == again.id
    assert "2026" in backend.found(limited.id).queue
    work()
    assert stored(limited).return_value == 2026


def test_in_groups_and_chains(backend, work):
    """Values are given on as they are, also where a key is made of them."""
    day = datetime.date(2026, 2, 1)
    result = chain(
        call(rich_jobs.half, decimal.Decimal(10)),
        rich_jobs.half,
        group([call(rich_jobs.half, more=day), rich_jobs.half]).then(rich_jobs.echo, values=True),
    ).enqueue()
    limited = chain(call(jobs.note, day), rich_jobs.one_a_year).enqueue()
    many = rich_jobs.half.enqueue_many([([decimal.Decimal(n)], {"more": day}) for n in range(3)])
    work()
    quarter = decimal.Decimal("1.25")
    assert result.results()[:2] == [5, decimal.Decimal("2.5")]
    assert result.results()[2] == [[[quarter, quarter]], {}]
    assert limited.results() == [day, 2026]
    assert [stored(one).return_value for one in many] == [n / decimal.Decimal(2) for n in range(3)]


def test_what_was_stored_before_the_option_is_as_it_was(configure, work):
    """And what was stored with it is read without it, also where both meet in a chain."""
    alike, one = {"$uuid": "no id"}, uuid.UUID(int=7)
    configure()
    before = rich_jobs.echo.enqueue(alike)
    mixed = chain(call(rich_jobs.uuid_of, 7), call(rich_jobs.take, alike)).enqueue()
    configure(rich_types=True)
    work()
    assert (stored(before).args, stored(before).return_value) == ([alike], [[alike], {}])
    assert mixed.results() == [one, None]
    assert jobs.done[-1] == (one, alike)
    after = rich_jobs.take.enqueue(alike, one)
    mixed = chain(call(rich_jobs.uuid_of, 7), call(rich_jobs.take, alike, one)).enqueue()
    work(limit=2)
    configure()
    work()
    assert stored(after).args == [alike, one]
    assert mixed.results() == [one, None]
    assert jobs.done[-2:] == [(alike, one), (one, alike, one)]


@pytest.mark.parametrize("given_rich", [True, False])
@pytest.mark.parametrize("call_rich", [True, False])
def test_a_call_and_what_it_is_given(given_rich, call_rich):
    """Each is as it was, whichever of them was stored with the option."""
    given, own = {"$uuid": "x"}, {"$date": "y"}
    value = Rich(encode(given)) if given_rich else given
    stored_call = {"args": [own], "kwargs": {"k": own}}
    if call_rich:
        stored_call = {"args": encode([own]), "kwargs": encode({"k": own}), "rich": True}
    found = with_given(stored_call, (value,))
    is_rich = found.get("rich", False)
    assert is_rich == (given_rich or call_rich)
    args, kwargs = (decode(one) if is_rich else one for one in (found["args"], found["kwargs"]))
    assert (args, kwargs) == ([given, own], {"k": own})
    assert all_rich([given, own]) == [given, own]
    assert decode(all_rich([given, Rich(encode(own))]).stored) == [given, own]


def test_with_the_outbox(configure, work, tmp_path, django_db_blocker):
    """The row has them as JSON."""
    with django_db_blocker.unblock(), database_at(str(tmp_path / "orm.sqlite3")):
        configure(outbox=True, rich_types=True)
        with transaction.atomic():
            result = rich_jobs.echo.enqueue(*VALUES)
        assert stored(result).args == VALUES
        work()
        assert stored(result).return_value == [VALUES, {}]


@pytest.mark.parametrize(
    ("args", "kwargs", "path"),
    [
        ([1, {"when": datetime.date.max}], {}, "args[1]['when'] is date"),
        ([], {"rows": [[], [uuid.UUID(int=1)]]}, "kwargs['rows'][1][0] is UUID"),
        ([object()], {}, "args[0] is object"),
        ([{"a": {1, 2}}], {}, "args[0]['a'] is set"),
        ([{"x" * 200: object()}], {}, "args[0]['xxx"),
    ],
)
def test_the_error_names_the_argument(configure, args, kwargs, path):
    """Its path, and its type; and the option, if that allows it."""
    configure()
    with pytest.raises(TypeError) as caught:
        rich_jobs.echo.enqueue(*args, **kwargs)
    assert str(caught.value).startswith(path)
    assert len(str(caught.value)) < 500
    assert ("rich_types" in str(caught.value)) == ("date" in path or "UUID" in path)


@pytest.mark.parametrize("rich_types", [True, False])
@pytest.mark.parametrize(
    ("given", "argument", "name"),
    [
        ([1, {"a": float("nan")}], "args[0][1]['a']", "float"),
        ({"a": [{1: 2}]}, "args[0]['a'][0]", "dict"),
        (["\ud800"], "args[0][0]", "str"),
    ],
    ids=repr,
)
def test_the_queues_own_error_names_the_argument(configure, given, argument, name, rich_types):
    """What Python writes as JSON, and JSON does not have; one call, or one of many."""
    configure(rich_types=rich_types)
    with pytest.raises(InvalidValue) as caught:
        jobs.note.enqueue(given)
    assert (caught.value.context["argument"], caught.value.context["type"]) == (argument, name)
    with pytest.raises(InvalidValue) as caught:
        jobs.note.enqueue_many([([1], {}), ([given], {})])
    context = caught.value.context
    assert (context["index"], context["argument"], context["type"]) == (1, argument, name)


def test_the_error_names_what_the_option_does_not_allow(backend):
    """Other types, subclasses, keys that are no texts, bytes that are no UTF-8."""

    class Day(datetime.date):
        pass

    for wrong, path in [
        ([object()], "args[0] is object"),
        ([{"d": Day(2026, 1, 1)}], "args[0]['d'] is "),
        ([{datetime.date.max: 1}], "args[0] is dict"),
    ]:
        with pytest.raises(TypeError) as caught:
            rich_jobs.echo.enqueue(*wrong)
        assert str(caught.value).startswith(path)
        assert "rich_types" not in str(caught.value)
    for value in (b"\xff", datetime.time(1, tzinfo=BERLIN)):
        with pytest.raises(ValueError, match=r"args\[0\]\[0\] is (bytes|time): "):
            rich_jobs.echo.enqueue([value])


@pytest.mark.parametrize("rich_types", [True, False])
def test_the_error_names_the_part_of_a_return_value(configure, work, rich_types):
    """The attempt fails with it."""
    configure(rich_types=rich_types)
    result = rich_jobs.no_value.enqueue()
    work()
    (error,) = stored(result).errors
    assert "TypeError: return value['a'][1]['b'] is object, which is no JSON" in error.traceback


def test_a_value_that_contains_itself(configure):
    """It is refused as ever, and the search for it ends."""
    configure()
    endless = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        jobs.note.enqueue(endless)


@pytest.mark.parametrize("wrong", ["yes", 1, None, "fdbqueue.tasks.encoders"])
def test_a_wrong_option_is_found_by_a_check(configure, wrong):
    """It is True or False."""
    configure(rich_types=wrong)
    assert "fdbqueue.tasks.E002" in [found.id for found in checks.run_checks()]
