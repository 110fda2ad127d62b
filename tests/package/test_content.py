"""What is in the wheel and in the source archive, and what they say of themselves."""

from __future__ import annotations

import re
from importlib.metadata import distribution

import pytest
from markdown_it import MarkdownIt
from packaging.requirements import Requirement

from tests.package.building import ROOT

OURS = {
    str(path.relative_to(ROOT))
    for path in (ROOT / "fdbqueue").rglob("*")
    if path.is_file() and "__pycache__" not in path.parts
}


def test_the_wheel_holds_every_file_of_the_package(built):
    """Templates, static files, migrations and py.typed are there too."""
    assert built.names() >= OURS
    endings = {name.rpartition(".")[2] for name in OURS}
    assert endings >= {"html", "css", "js", "py", "typed"}
    assert "fdbqueue/migrations/0001_queue_permissions.py" in OURS


def test_the_wheel_holds_nothing_else(built):
    """No tests, no demo project, no benchmarks, though they are in the sources."""
    tops = {name.partition("/")[0] for name in built.names()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"fdbqueue"}
    assert any(name.endswith("licenses/LICENSE") for name in built.names())


def test_the_source_archive_is_whole(built):
    """The wheel was built from it; what describes it is in it as well."""
    assert built.source_names() >= {*OURS, "LICENSE", "README.md", "pyproject.toml"}
    assert not any(name.startswith("project/") for name in built.source_names())


def test_three_packages_are_required(built):
    """All others belong to an extra."""
    requirements = [Requirement(line) for line in built.metadata("Requires-Dist")]
    plain = {one.name.lower() for one in requirements if one.marker is None}
    assert plain == {"django", "djangorestframework", "foundationdb"}
    extras = {match[1] for one in requirements if (match := _EXTRA.search(str(one.marker)))}
    assert extras == set(built.metadata("Provides-Extra"))


_EXTRA = re.compile(r'extra == "([a-z-]+)"')


def test_what_the_tests_run_with_is_what_is_required(built):
    """The versions of this environment are in the ranges, those of the extras too."""
    for line in built.metadata("Requires-Dist"):
        requirement = Requirement(line)
        assert distribution(requirement.name).version in requirement.specifier, line


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13", "3.14"])
def test_the_metadata_names_the_versions(built, version):
    """Each Python that the tests were run on, and the Djangos."""
    classifiers = built.metadata("Classifier")
    assert f"Programming Language :: Python :: {version}" in classifiers
    assert {line for line in classifiers if line.startswith("Framework :: Django :: ")} == {
        "Framework :: Django :: 5.2",
        "Framework :: Django :: 6.0",
        "Framework :: Django :: 6.1",
    }


def test_the_readme_is_the_description(built):
    """The page of the release shows it, with links that lead somewhere from there."""
    assert built.metadata("Description-Content-Type") == ["text/markdown"]
    tokens = MarkdownIt("commonmark").enable("table").parse(built.body())
    inside = [child for token in tokens for child in token.children or []]
    targets = [child.attrGet(name) for child in inside for name in ("href", "src")]
    targets = [target for target in targets if target]
    assert len(targets) > 20
    assert not [one for one in targets if not one.startswith(("https://", "http://127.0.0.1", "#"))]


def test_the_links_lead_to_the_files_of_this_version(built):
    """Each file is in the repository, and the address has the version's tag."""
    (version,) = built.metadata("Version")
    urls = dict(line.split(", ") for line in built.metadata("Project-URL"))
    pattern = rf"\((?:{re.escape(urls['Source'])}/blob|https://raw\S+?)/v{version}/([^)#]+)"
    files = re.findall(pattern, built.body())
    assert len(files) > 20
    assert not [name for name in files if not (ROOT / name).exists()]
