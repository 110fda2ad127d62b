"""What can be said of the Dockerfile and docker-compose.yml where there is no Docker."""

from __future__ import annotations

import fnmatch
import ipaddress
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import tomllib
from gunicorn.config import GracefulTimeout
from packaging.requirements import Requirement

from fdbqueue.conf import ApiOptions
from project import gunicorn_conf
from tests.repository.compose import (
    COMPOSE,
    ROOT,
    composition,
    instructions,
    seconds,
    services,
    stages,
    text,
)

IGNORED = [line for line in text(".dockerignore").splitlines() if line]
#: Services that run the project, and not FoundationDB.
OURS = ["migrate", "web", "worker", "tasks", "tests"]


def test_the_composition_is_valid():
    """It fits the schema of the Compose specification."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "check_jsonschema"),
            *("--builtin-schema", "vendor.compose-spec", str(COMPOSE)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def _run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_one_version_of_foundationdb():
    """The server, its tools, and the client library of the image are of one release."""
    pattern = r"foundationdb/foundationdb:(\S+)"
    found = {
        name: set(re.findall(pattern, text(name))) for name in ["Dockerfile", "docker-compose.yml"]
    }
    (version,) = found["Dockerfile"]
    assert found["docker-compose.yml"] == {version}
    assert version in text("project/README.md")


def test_the_binding_is_of_the_same_series():
    """A binding refuses an older client library: 7.3 is 7.3."""
    (version,) = re.findall(r"foundationdb/foundationdb:(\d+\.\d+)\.", text("Dockerfile"))
    lines = text("requirements.txt").splitlines()
    assert any(line.startswith(f"foundationdb=={version}.") for line in lines)
    (requirement,) = [one for one in _project()["dependencies"] if one.startswith("foundationdb")]
    assert f"{version}.77" in Requirement(requirement).specifier


def _project():
    return tomllib.loads(text("pyproject.toml"))["project"]


def test_one_version_of_python():
    """The image's Python is one that the package is for."""
    (version,) = re.findall(r"^FROM python:(\d\.\d+)-", text("Dockerfile"), re.MULTILINE)
    assert f"Programming Language :: Python :: {version}" in _project()["classifiers"]


@pytest.mark.parametrize(
    ("stage", "file"), [("web", "requirements.txt"), ("tests", "requirements-dev.txt")]
)
def test_what_an_image_installs_is_pinned(stage, file):
    """The one that serves has no test tools."""
    (install,) = [rest for name, rest in stages()[stage] if name == "RUN" and "pip install" in rest]
    words = shlex.split(install)
    start = words.index("pip")
    command = words[start : words.index("&&", start) if "&&" in words[start:] else None]
    assert command == ["pip", "install", "--no-cache-dir", "--requirement", file]


def test_every_file_that_is_copied_exists_and_is_not_ignored():
    """Each source of each COPY, other than another image's."""
    sources = []
    for name, rest in instructions():
        words = [word for word in rest.split() if not word.startswith("--")]
        if name == "COPY" and "--from=" not in rest:
            sources += words[:-1]
    assert {"requirements.txt", "requirements-dev.txt", "manage.py"} <= set(sources)
    assert {"fdbqueue", "project"} <= set(sources)
    for source in sources:
        assert (ROOT / source).exists()
        assert not [pattern for pattern in IGNORED if fnmatch.fnmatch(source, pattern)]


@pytest.mark.parametrize("name", [".git", ".venv", "var", ".env", ".pytest_cache", ".mypy_cache"])
def test_what_is_nobodys_business_stays_outside(name):
    """Neither the history, nor what was installed, nor secrets and data get into an image."""
    assert [pattern for pattern in IGNORED if fnmatch.fnmatch(name, pattern)]


@pytest.mark.parametrize("stage", ["web", "tests"])
def test_nobody_is_root(stage):
    """The last user of each image is another one, by its number."""
    users = [rest for name, rest in stages()[stage] if name == "USER"]
    assert users[-1] == "10001"
    assert "--uid 10001" in next(rest for name, rest in stages()[stage] if name == "RUN")


def test_no_secret_is_in_the_files():
    """The key is made in a volume, and the token comes from the environment."""
    web = services()["web"]["environment"]
    assert web["DJANGO_SECRET_KEY_FILE"].startswith("/app/var/")
    assert web["FDBQUEUE_METRICS_TOKEN"] is None or web["FDBQUEUE_METRICS_TOKEN"] == ""
    assert not [key for key in web if key in {"DJANGO_SECRET_KEY", "DJANGO_DEBUG"}]
    assert ("ENV", "DJANGO_DEBUG=0 DJANGO_STATIC_ROOT=/app/static") in stages()["web"]
    assert "SECRET_KEY=" not in text("Dockerfile") + text("docker-compose.yml")


def test_every_service_has_the_servers_cluster_file_and_may_write_its_own():
    """The server writes it into a volume; ours copy it from there to where they look for it."""
    found = services()
    path = found["foundationdb"]["environment"]["FDB_CLUSTER_FILE"]
    folder = str(Path(path).parent)
    for name in ["foundationdb", "configure"]:
        assert found[name]["environment"]["FDB_CLUSTER_FILE"] == path
        assert f"cluster:{folder}" in found[name]["volumes"]
    for name in OURS:
        own = found[name]["environment"]["FDB_CLUSTER_FILE"]
        assert f"cluster:{folder}:ro" in found[name]["volumes"]
        assert found[name].get("tmpfs", ["/tmp"]) == [str(Path(own).parent)]


def test_a_container_copies_the_cluster_file_and_runs_its_command(tmp_path):
    """The entrypoint replaces itself by the command, with its arguments as they are."""
    for name in OURS:
        there, own = tmp_path / f"{name}.cluster", tmp_path / name
        there.write_text("fdbqueue:fdbqueue@10.79.0.2:4500")
        own.mkdir()
        script = " ".join(services()[name]["entrypoint"][2:3]).replace("$$", "$")
        script = script.replace("/etc/foundationdb/fdb.cluster", str(there))
        script = script.replace("/tmp &&", f"{own}/fdb.cluster &&")
        done = subprocess.run(
            ["sh", "-c", script, "sh", "printf", "%s|", "a b", "$c"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == "a b|$c|"
        assert (own / "fdb.cluster").read_text() == there.read_text()


def test_the_servers_address_is_the_one_in_the_cluster_file():
    """It is fixed, in the network, and not among those that others are given."""
    server = services()["foundationdb"]
    address = server["networks"]["queues"]["ipv4_address"]
    contents = server["environment"]["FDB_CLUSTER_FILE_CONTENTS"]
    assert re.fullmatch(r"\w+:\w+@(.+):4500", contents)[1] == address
    (given,) = composition()["networks"]["queues"]["ipam"]["config"]
    subnet, others = (ipaddress.ip_network(given[name]) for name in ("subnet", "ip_range"))
    assert others.subnet_of(subnet)
    assert ipaddress.ip_address(address) in set(subnet.hosts()) - set(others)


def test_an_image_is_built_by_one_service():
    """Two that build the same tag at once fail; the others wait for the one, and pull nothing."""
    found = services()
    built = {name: one["image"] for name, one in found.items() if "build" in one}
    assert built == {"migrate": "fdbqueue-web", "tests": "fdbqueue-tests"}
    for name in ["web", "worker", "tasks"]:
        assert (found[name]["image"], found[name]["pull_policy"]) == ("fdbqueue-web", "never")
        assert "migrate" in found[name]["depends_on"]


def test_only_gunicorn_shares_its_metrics():
    """The folder is in its own environment, and in no other process's of the container."""
    web = services()["web"]
    command = json.loads(next(rest for name, rest in stages()["web"] if name == "CMD"))
    own = ["env", "PROMETHEUS_MULTIPROC_DIR=/tmp/metrics", "DJANGO_LOG_LEVEL=INFO"]
    assert web["command"] == [*own, *command]
    assert web["tmpfs"] == ["/tmp"]
    for service in services().values():
        assert "PROMETHEUS_MULTIPROC_DIR" not in service.get("environment", {})
    assert "PROMETHEUS" not in text("Dockerfile")


def test_what_serves_writes_only_where_it_may():
    """Its file system is read-only but for volumes and /tmp, and its log has an end."""
    for name in ["migrate", "web", "worker", "tasks", "proxy"]:
        service = services()[name]
        assert service["read_only"] is True
        assert service["tmpfs"] == ["/tmp"]
    for name in ["foundationdb", "migrate", "web", "worker", "tasks", "proxy"]:
        assert set(services()[name]["logging"]["options"]) == {"max-size", "max-file"}


def test_the_tests_are_of_today():
    """Each run builds the image; after an edit an old one would pass."""
    assert services()["tests"]["pull_policy"] == "build"


def test_requests_may_end_before_the_server_is_killed():
    """Docker waits longer than gunicorn does."""
    own = getattr(gunicorn_conf, "graceful_timeout", GracefulTimeout.default)
    assert seconds(services()["web"]["stop_grace_period"]) > own


def test_a_server_whose_threads_all_wait_is_alive():
    """All tries of the health check together outlast a request that waits for items."""
    check = services()["web"]["healthcheck"]
    (patience,) = re.findall(r"timeout=(\d+)", check["test"][-1])
    assert int(patience) < seconds(check["timeout"])
    assert int(patience) * check["retries"] > ApiOptions.max_wait_seconds + (
        ApiOptions.timeout_seconds
    )


def test_only_this_machine_reaches_the_ports():
    """Nothing is published to others, and FoundationDB to nobody."""
    ports = {name: one["ports"] for name, one in services().items() if "ports" in one}
    assert ports == {"proxy": ["127.0.0.1:8000:8000"]}


def test_the_proxy_is_the_documented_one():
    """What protects the threads is the same there, in front of gunicorn's port."""
    documented = re.search(r"```nginx\n(.*?)```", text("docs/deployment.md"), re.DOTALL)[1]
    own = (ROOT / "project" / "nginx.conf").read_text()
    protecting = r"^ *((?:client|send|proxy)_\w+ .*;)$"
    found = re.findall(protecting, documented, re.MULTILINE)
    assert {"proxy_request_buffering on;", "proxy_buffering on;"} <= set(found)
    from_outside = r"proxy_(pass|set_header (Host|X-)).*"  # the names and the headers of a place
    needed = {one for one in found if not re.match(from_outside, one)}
    assert needed <= set(re.findall(protecting, own, re.MULTILINE))
    service = services()["proxy"]
    assert service["volumes"] == ["./project/nginx.conf:/etc/nginx/nginx.conf:ro"]
    assert "set $gunicorn web:8000;" in own
    assert gunicorn_conf.bind == "0.0.0.0:8000"


def test_the_tests_run_only_when_asked_for():
    """They are in a profile, and insist on the cluster."""
    found = services()
    assert {name for name, one in found.items() if "profiles" in one} == {"tests"}
    assert found["tests"]["environment"]["FDBQUEUE_REQUIRE_FDB"] == "1"


def test_who_waits_for_whom():
    """The database is configured, then migrated; then the server and the workers start."""
    found = services()
    assert set(found["configure"]["depends_on"]) == {"foundationdb"}
    assert set(found["migrate"]["depends_on"]) == {"configure"}
    for name in ["web", "worker", "tasks"]:
        conditions = {key: one["condition"] for key, one in found[name]["depends_on"].items()}
        assert conditions == {
            "foundationdb": "service_healthy",
            "migrate": "service_completed_successfully",
        }


def test_the_commands_are_those_of_the_project():
    """What the services run is there: commands and their options, the handler, gunicorn's file."""
    from django.core.management import load_command_class
    from django.utils.module_loading import import_string

    from tests.docs.options import commands

    manage = [sys.executable, str(ROOT / "manage.py"), "help", "--settings=project.settings"]
    there = _run(*manage, "--commands").stdout.split()
    for name in ["migrate", "worker", "tasks"]:
        command = services()[name]["command"]
        if command[0] == "env":
            command = command[2:]
        assert command[:2] == ["python", "manage.py"]
        assert command[2] in there
        app = commands().get(command[2], "django.core")
        parser = load_command_class(app, command[2]).create_parser("manage.py", command[2])
        parser.parse_args(command[3:])  # an option that is not there is an error
    worker = services()["worker"]["command"]
    assert callable(import_string(worker[worker.index("--handler") + 1]))
    gunicorn = json.loads(next(rest for name, rest in stages()["web"] if name == "CMD"))
    module = gunicorn[gunicorn.index("--config") + 1].removeprefix("python:")
    assert (ROOT / module.replace(".", "/")).with_suffix(".py").exists()
