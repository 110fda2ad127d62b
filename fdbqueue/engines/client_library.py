"""Which package has FoundationDB's client library for a system, and how to install it."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

RELEASES = "https://github.com/apple/foundationdb/releases"
#: The binding's distribution on package indexes.
_BINDING = "foundationdb"
#: The clusters that fdbqueue is tested on, and a client library for them.
_SERIES, _RELEASE = "7.3", "7.3.79"
_UNKNOWN = "VERSION"
#: What FoundationDB calls a processor in the names of its files; Debian's packages differ.
_MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
_DEB_MACHINES = {"x86_64": "amd64", "aarch64": "aarch64"}
_MAC_MACHINES = {"x86_64": "x86_64", "aarch64": "arm64"}
_DEB_FAMILY = frozenset({"debian", "ubuntu"})
_RPM_FAMILY = frozenset({"rhel", "fedora", "centos", "amzn", "suse"})


def how_to_install() -> str:
    """Return how to install the library on this system, for a cluster of 7.3.

    The library must have the version of the cluster, which nobody knows without one. A library
    that is newer than the binding serves it too; an older one does not.
    """
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    family = frozenset({release.get("ID", ""), *release.get("ID_LIKE", "").split()})
    binding = binding_version()
    is_of_series = binding.startswith(f"{_SERIES}.")
    version = binding if is_of_series else _RELEASE
    text = instruction(platform.system(), platform.machine(), family, version)
    if not is_of_series and binding != _UNKNOWN:
        text += (
            f'; and run: pip install "foundationdb~={_SERIES}.0", because {binding} is installed'
        )
    return f"it must have the version of the cluster; for {_SERIES}, {text}"


def binding_version() -> str:
    """Return the installed version of the binding; ``"VERSION"`` if it cannot be told."""
    try:
        return version(_BINDING)
    except PackageNotFoundError:  # it was copied, and not installed
        return _UNKNOWN


def instruction(system: str, machine: str, family: frozenset[str], version: str) -> str:
    """Return how to install the library.

    Args:
        system: The name of the system, as ``platform.system()`` has it.
        machine: Its processor, as ``platform.machine()`` has it.
        family: The names of a Linux distribution and of those that it is like.
        version: The version to install.
    """
    processor = _MACHINES.get(machine.lower())
    if processor is None or system not in {"Linux", "Darwin"}:
        return f"there is no package for {system} on {machine}; {RELEASES} lists those there are"
    if system == "Darwin":
        file = f"FoundationDB-{version}_{_MAC_MACHINES[processor]}.pkg"
        return _download(version, file, f"sudo installer -pkg {file} -target /")
    if "alpine" in family:
        return "the library needs glibc, which Alpine lacks; use an image of Debian, say"
    if family & _DEB_FAMILY:
        file = f"foundationdb-clients_{version}-1_{_DEB_MACHINES[processor]}.deb"
        return _download(version, file, f"sudo dpkg --install {file}")
    if family & _RPM_FAMILY:
        file = f"foundationdb-clients-{version}-1.el9.{processor}.rpm"
        return _download(version, file, f"sudo rpm --install {file}")
    file = f"libfdb_c.{processor}.so"
    return _download(version, file, f"sudo install {file} /usr/lib/libfdb_c.so && sudo ldconfig")


def _download(version: str, file: str, command: str) -> str:
    return f"download {RELEASES}/download/{version}/{file} and run: {command}"
