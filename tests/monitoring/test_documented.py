"""What the pages on monitoring, on deployment and on the demo project list is what there is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from fdbqueue.conf import ApiOptions
from fdbqueue.tasks.metrics import install
from project import gunicorn_conf
from tests.monitoring.test_logs import LINES, SOURCES

ROOT = Path(__file__).resolve().parents[2]
MONITORING, DEPLOYMENT, DEMO = (
    (ROOT / name).read_text(encoding="utf-8")
    for name in ("docs/monitoring.md", "docs/deployment.md", "project/README.md")
)


def rows(page, *head):
    """Return the rows of the table with these first columns."""
    start = page.index(f"\n| {' | '.join(head)} |") + 1
    lines = page[start:].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("| \n").split(" | ")] for line in lines]


def logger_of(path):
    """Return what the logger of a module is called."""
    for node in ast.walk(SOURCES[path]):
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if is_call and node.func.id == "get_logger":
            given = node.args[0]
            own = path.removesuffix(".py").replace("/", ".")
            return own if isinstance(given, ast.Name) else given.value
    raise AssertionError(path)


def test_every_line_of_the_log_is_listed():
    """With its logger and its level, and no other."""
    levels = {"exception": "error"}
    written = {
        (logger_of(path), levels.get(call.func.attr, call.func.attr), call.args[0].value)
        for path, call in LINES
    }
    listed = {
        (logger.strip("`"), level, text)
        for logger, level, texts in rows(MONITORING, "logger", "level", "texts")
        for text in texts.split("<br>")
    }
    assert listed == written


def test_every_metric_is_listed(queues, settings):
    """With its labels, and no other."""
    settings.FDBQUEUE_METRICS_TOKEN = "a-token-of-some-length"
    install()  # as the app of tasks does
    mail = queues.queue("mail")
    mail.push("x")
    answer = Client(headers={"Authorization": f"Bearer {settings.FDBQUEUE_METRICS_TOKEN}"}).get(
        "/metrics/"
    )
    served = {
        family.name + ("_total" if family.type == "counter" else ""): family.type
        for family in text_string_to_metric_families(answer.content.decode())
        if family.name.startswith("fdbqueue_")
    }
    served = {name: kind for name, kind in served.items() if not name.endswith("_created")}
    listed = {
        name.strip("`"): kind for name, kind, *_ in rows(MONITORING, "metric", "type", "labels")
    }
    assert listed == served


def test_every_operation_is_listed():
    """The verbs that the service tells of."""
    service = "".join(
        path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "fdbqueue/service").rglob("*.py"))
    )
    told = set(re.findall(r'(?:_transact|observed)\(\s*"(\w+)"', service))
    told |= {"pop", "lease"}  # one of the two, as the want says
    text = re.search(r"`operation` is (.+?)\n-", MONITORING, re.DOTALL)
    assert set(re.findall(r"`(\w+)`", text[1])) >= told


@pytest.mark.parametrize("module", ["project/settings.py", "project/gunicorn_conf.py"])
def test_every_variable_of_the_demo_is_listed(module):
    """What the environment may set is in the table."""
    text = (ROOT / module).read_text(encoding="utf-8")
    read = set(re.findall(r'(?:environ(?:\.get\(|\[)|_listed\()"(\w+)"', text))
    assert read
    listed = {name.strip("`") for name, *_ in rows(DEMO, "variable", "what", "default")}
    assert read <= listed


def test_the_liveness_probe_outlasts_a_long_poll():
    """A server whose threads all wait is not restarted."""
    (probes,) = [block for block in MONITORING.split("```") if block.startswith("yaml\nliveness")]
    probe = yaml.safe_load(probes.removeprefix("yaml\n"))["livenessProbe"]
    longest = 2 * ApiOptions.timeout_seconds + ApiOptions.max_wait_seconds
    assert probe["timeoutSeconds"] * probe["failureThreshold"] > longest


def test_the_threads_of_the_demo_are_told():
    """In the table of services, and in the command to start with."""
    assert f"two workers of {gunicorn_conf.threads} threads" in DEMO
    assert f"--threads {gunicorn_conf.threads} " in DEPLOYMENT


def test_the_services_are_listed():
    """Those of docker-compose.yml, in its order."""
    from tests.repository.compose import services

    listed = [name.strip("`") for name, *_ in rows(DEMO, "service", "what")]
    assert listed == list(services())
