"""The package that has the client library, for each system."""

from __future__ import annotations

import pytest

from fdbqueue.engines import client_library
from fdbqueue.engines.client_library import RELEASES, how_to_install, instruction
from tests.cases import cases

NONE: frozenset[str] = frozenset()
DEBIAN, UBUNTU = frozenset({"debian", ""}), frozenset({"ubuntu", "debian"})
ROCKY, ALPINE = frozenset({"rocky", "rhel", "centos", "fedora"}), frozenset({"alpine", ""})


@cases(
    ("system", "machine", "family", "file"),
    [
        ("Linux", "x86_64", DEBIAN, "foundationdb-clients_7.3.79-1_amd64.deb"),
        ("Linux", "aarch64", UBUNTU, "foundationdb-clients_7.3.79-1_aarch64.deb"),
        ("Linux", "x86_64", ROCKY, "foundationdb-clients-7.3.79-1.el9.x86_64.rpm"),
        ("Linux", "aarch64", ROCKY, "foundationdb-clients-7.3.79-1.el9.aarch64.rpm"),
        ("Linux", "x86_64", NONE, "libfdb_c.x86_64.so"),
        ("Darwin", "arm64", NONE, "FoundationDB-7.3.79_arm64.pkg"),
        ("Darwin", "x86_64", NONE, "FoundationDB-7.3.79_x86_64.pkg"),
    ],
)
def test_a_system_has_its_file(system, machine, family, file):
    """It is named with its address, and with the command that installs it."""
    text = instruction(system, machine, family, "7.3.79")
    assert f"{RELEASES}/download/7.3.79/{file} and run: sudo " in text


@pytest.mark.parametrize(
    ("system", "machine", "family", "reason"),
    [
        ("Linux", "x86_64", ALPINE, "glibc"),
        ("Linux", "riscv64", DEBIAN, "no package for Linux on riscv64"),
        ("Windows", "AMD64", NONE, "no package for Windows"),
    ],
)
def test_a_system_without_one_is_told(system, machine, family, reason):
    """The text does not send anybody to a file that does not exist."""
    text = instruction(system, machine, family, "7.3.79")
    assert reason in text
    assert "/download/" not in text


@pytest.mark.parametrize(
    ("binding", "file", "pip"),
    [
        ("7.3.63", "/7.3.63/", ""),
        ("8.0.0", "/7.3.79/", "foundationdb~=7.3.0"),
        ("VERSION", "/7.3.79/", ""),
    ],
)
def test_the_version_is_one_of_a_cluster_of_7_3(monkeypatch, binding, file, pip):
    """A newer binding refuses such a library, so the text says how to replace it."""
    monkeypatch.setattr(client_library, "binding_version", lambda: binding)
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    text = how_to_install()
    assert text.startswith("it must have the version of the cluster; for 7.3, download ")
    assert file in text
    assert pip in text
