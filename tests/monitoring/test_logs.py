"""The log: constant texts with their facts beside them, and nothing that is nobody's business."""

from __future__ import annotations

import ast
import json
import logging
from pathlib import Path

import pytest

from fdbqueue import service
from fdbqueue.exceptions import OutcomeUnknown
from fdbqueue.service import FifoQueue, Worker, run, transactions
from project.logs import FactsFormatter
from tests.cases import cases
from tests.concurrency.requests import ask
from tests.contract.unsure import unsure_database

ROOT = Path(__file__).resolve().parents[2]
LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
#: The views are for the pages alone, and are called so.
NAMES = ("__name__", "'fdbqueue.pages'")
STANDARD = set(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
#: The modules that may log, parsed; the others name no logger.
SOURCES = {
    str(path.relative_to(ROOT)): ast.parse(text)
    for path in sorted((ROOT / "fdbqueue").rglob("*.py"))
    if "logg" in (text := path.read_text(encoding="utf-8"))
}


def calls(tree):
    """Yield the calls of loggers in a module."""
    for node in ast.walk(tree):
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if not is_call or node.func.attr not in LEVELS:
            continue
        if isinstance(node.func.value, ast.Name) and node.func.value.id in {"logger", "logging"}:
            yield node


LINES = [(path, call) for path, tree in SOURCES.items() for call in calls(tree)]


def name(line):
    """Return what pytest calls a line."""
    return f"{line[0]}:{line[1].lineno}"


def test_there_are_lines_to_look_at():
    """The tests below look at what is really there."""
    assert len(LINES) >= 15


@cases("line", LINES)
def test_a_line_is_a_constant_text(line):
    """Nothing is formatted into it, so that equal events have equal texts."""
    _, call = line
    assert call.func.value.id != "logging"
    (text,) = call.args
    assert isinstance(text, ast.Constant)
    assert isinstance(text.value, str)
    assert not set(text.value) & set("%{}\n")
    assert {keyword.arg for keyword in call.keywords} <= {"extra", "exc_info"}


@cases("path", sorted({path for path, _ in LINES}))
def test_a_logger_is_called_as_its_module(path):
    """All of them are under ``fdbqueue``, and have one name, by which these tests find them."""
    made = [
        ast.unparse(node)
        for node in ast.walk(SOURCES[path])
        if isinstance(node, ast.Assign) and "get_logger" in ast.unparse(node)
    ]
    assert made in ([f"logger = get_logger({name})"] for name in NAMES)


def facts(record):
    """Return what a record carries besides the standard attributes."""
    return {key: value for key, value in vars(record).items() if key not in STANDARD}


def said(caplog, logger):
    """Return the texts and the facts of what a logger was given."""
    return [(one.msg, facts(one)) for one in caplog.records if one.name == logger]


@pytest.fixture
def fifo(database, subspace, clock):
    """An empty FIFO queue, whose clock is the test's."""
    return FifoQueue(database, subspace, name="fifo", max_attempts=2, handoff_timeout_seconds=5)


def test_leases_that_run_out_are_told_when_they_come_back(fifo, clock, caplog):
    """How many, and how many of them are dead letters now."""
    fifo.push_many(["a", "b"])
    for _ in range(2):
        assert len(fifo.lease_many(2, seconds=1)) == 2
        clock.advance(2)
    fifo.pop()
    logged = said(caplog, "fdbqueue.service.consume.expiry")
    assert logged == [
        ("leases expired", {"queue": "fifo", "leases": 2, "dead": 0}),
        ("leases expired", {"queue": "fifo", "leases": 2, "dead": 2}),
    ]


def test_what_the_dead_took_is_told_when_it_goes_back(fifo, clock, caplog):
    """What was taken for a popper that never came back is such."""
    fifo.push_many(["a", "b", "c"])
    ask(fifo, "min", 2, seconds=1)
    assert fifo.pop().value == "a"
    clock.advance(2)
    assert fifo.pop().value == "b"
    text = "items that were taken and never collected were requeued"
    logged = said(caplog, "fdbqueue.service.consume.expiry")
    assert logged == [(text, {"queue": "fifo", "handoffs": 1})]


def test_an_outcome_that_stays_unknown_is_told(engine, subspace, caplog):
    """With the code of what kept it from being found out."""
    fifo = FifoQueue(unsure_database(engine.database, 1031), subspace)
    with pytest.raises(OutcomeUnknown):
        fifo.push("a")
    text = "the outcome of a commit stays unknown"
    assert said(caplog, "fdbqueue.service.transactions") == [(text, {"fdb_code": 1031})]


def test_retries_that_took_long_are_told(database, subspace, caplog, monkeypatch):
    """Not those that were quick."""
    key = subspace.pack(("k",))

    def conflict_once():
        runs = []

        def change(tr):
            runs.append(tr[key].present())
            if len(runs) == 1:
                run(database, lambda other: other.set(key, b"theirs"))
            tr[key] = b"mine"

        run(database, change)

    monkeypatch.setattr(transactions, "_LONG_SECONDS", 3_600.0)
    conflict_once()
    assert said(caplog, "fdbqueue.service.transactions") == []
    monkeypatch.setattr(transactions, "_LONG_SECONDS", 0.0)
    conflict_once()
    ((text, found),) = said(caplog, "fdbqueue.service.transactions")
    assert (text, found["retries"]) == ("a transaction was retried for long", 1)
    assert found["seconds"] >= 0


def test_a_worker_tells_of_what_went_wrong_and_of_no_secret(fifo, caplog):
    """A lost lease and a failure by the item's id, without its value, its lease or a message."""
    caplog.set_level(logging.DEBUG, "fdbqueue")
    fifo.push_many(["the secret of one", "the secret of two"])
    leases = []

    def handle(item):
        leases.append(item.lease)
        if item.value.endswith("one"):
            fifo.ack(item)
        else:
            raise RuntimeError(item.value)

    Worker(fifo, handle).run()
    logged = said(caplog, "fdbqueue.service.tools.worker")
    assert [text for text, _ in logged] == [
        "a lease was lost before its item was done",
        "an item was given up",
    ]
    assert logged[1][1]["error"] == "RuntimeError"
    assert logged[0][1].keys() == {"queue", "item", "attempts"}
    formatter = FactsFormatter()
    text = "\n".join(formatter.format(record) for record in caplog.records)
    assert "secret" not in text
    assert not [lease for lease in leases if lease in text]


def test_an_item_that_cannot_be_decoded_is_told(fifo, database, subspace, caplog):
    """By its id, and without its bytes."""
    run(database, lambda tr: tr.set(subspace.pack((0, b"r")), b"\xffsecret"))
    Worker(fifo, lambda _: None).run()
    ((text, found),) = said(caplog, "fdbqueue.service.consume.dead_letters")
    assert text == "an item that cannot be decoded was buried"
    assert found == {"queue": "fifo", "item": fifo.page(state="dead").items[0].id}


def test_the_demo_projects_log_shows_the_facts():
    """Each line is one JSON object, its trace included."""
    record = logging.makeLogRecord({"name": "fdbqueue.x", "msg": "a text", "queue": "mail"})
    try:
        raise ValueError("why")
    except ValueError as error:
        record.exc_info = (type(error), error, error.__traceback__)
    line = FactsFormatter().format(record)
    assert "\n" not in line
    found = json.loads(line)
    assert (found["logger"], found["text"], found["queue"]) == ("fdbqueue.x", "a text", "mail")
    assert "ValueError: why" in found["trace"]


def test_the_service_logs_nothing_when_all_is_well(fifo, caplog):
    """The usual operations cost no line, whatever the level."""
    caplog.set_level(logging.DEBUG, "fdbqueue.service")
    assert isinstance(fifo, service.Queue)
    fifo.push("a")
    fifo.ack(fifo.lease())
    assert fifo.pop() is None
    assert [record for record in caplog.records if record.name.startswith("fdbqueue.service")] == []
