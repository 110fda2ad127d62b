"""The package that has the client library, for each system."""

from __future__ import annotations

import pytest

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


def test_this_system_has_an_instruction():
    """It is in the version of the binding that is installed."""
    assert how_to_install()
