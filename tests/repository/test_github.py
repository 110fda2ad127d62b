"""What GitHub reads is valid, thin, and says what the Makefile and the package say."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import yaml

from tests.cases import cases
from tests.repository.compose import ROOT, text
from tests.repository.test_versions import constant

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml"))
SCHEMAS = [
    *(("github-workflows", path) for path in WORKFLOWS),
    *(("github-issue-forms", path) for path in FORMS),
    ("github-issue-config", ROOT / ".github/ISSUE_TEMPLATE/config.yml"),
    ("dependabot", ROOT / ".github/dependabot.yml"),
    ("readthedocs", ROOT / ".readthedocs.yaml"),
]


def loaded(name):
    """Return a YAML file of the repository."""
    return yaml.safe_load(text(name))


def commands():
    """Return the shell commands of all workflows."""
    jobs = [job for path in WORKFLOWS for job in loaded(str(path))["jobs"].values()]
    return [step["run"] for job in jobs for step in job.get("steps", ()) if "run" in step]


@cases(("schema", "path"), SCHEMAS)
def test_a_file_fits_its_schema(schema, path):
    """The schemas come with the linter: nothing is downloaded."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_workflows_run_targets_that_there_are():
    """The work itself is in the Makefile and in .ci/run."""
    called = {one for text in commands() for one in re.findall(r"\bmake ([a-z]+)", text)}
    assert called >= {"matrix", "test", "package"}
    targets = set(re.findall(r"^([a-z]+):", text("Makefile"), re.MULTILINE))
    assert called <= targets
    assert any(".ci/run" in one for one in commands())


def test_the_nightly_workflow_runs_before_a_release():
    """What `make test` leaves out has been run on what is published."""
    assert ".ci/run nightly" in commands()
    assert "nightly:" in text("Makefile")
    jobs = loaded(".github/workflows/release.yml")["jobs"]
    assert jobs["nightly"]["uses"] == "./.github/workflows/nightly.yml"
    assert jobs["build"]["needs"] == "nightly"


def test_the_matrix_is_that_of_nox():
    """Each Python has a job."""
    pythons = {one for several in constant("PYTHONS").values() for one in several}
    matrix = loaded(".github/workflows/ci.yml")["jobs"]["matrix"]["strategy"]["matrix"]
    assert set(matrix["python"]) == pythons


def test_the_cluster_is_of_the_images_version():
    """The tests run on the server that docker-compose.yml has."""
    image = loaded(".github/workflows/cluster.yml")["jobs"]["cluster"]["services"]["foundationdb"]
    assert f"image: {image['image']}\n" in text("docker-compose.yml")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_few_rights(path):
    """It reads the repository; only publishing asks for an identity, and nothing for a token."""
    workflow = loaded(str(path))
    assert workflow["permissions"] == {"contents": "read"}
    rights = [job.get("permissions", {}) for job in workflow["jobs"].values()]
    assert [one for one in rights if one] in ([], [{"id-token": "write"}])
    assert "secrets." not in path.read_text()
    assert all(job.keys() & {"timeout-minutes", "uses"} for job in workflow["jobs"].values())


def test_pre_commit_runs_the_linters_of_make_lint():
    """And no other, in the versions that are installed."""
    (repository,) = loaded(".pre-commit-config.yaml")["repos"]
    hooks = {
        tuple(hook["entry"].removeprefix(".venv/bin/").split()) for hook in repository["hooks"]
    }
    lint = text("Makefile").partition("lint: install")[2].partition("\n\n")[0]
    linted = {tuple(one.split()) for one in re.findall(r"\$\(BIN\)/(.+)", lint)}
    assert {hook[:2] for hook in hooks} == {("ruff", "check"), ("ruff", "format"), ("mypy",)}
    assert {one[:2] for one in linted} == {hook[:2] for hook in hooks}
