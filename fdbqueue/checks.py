"""System checks of the settings; they connect to the queues' database only if asked to.

What may be in the setting ``FDBQUEUE``, and most of E001 to E018, is in :mod:`fdbqueue.conf`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, Resolver404, get_script_prefix, resolve, reverse

from fdbqueue import conf, deadlines
from fdbqueue.exceptions import FdbQueueError, FormatMismatch, LayoutMismatch
from fdbqueue.service import covers, error_code, mismatches_of, run
from fdbqueue.tasks.checks import check_app

#: What several machines may share; locks and shared memory are of one machine.
_NETWORK_FILE_SYSTEMS = re.compile(
    r"afs|beegfs|ceph|cifs|gfs2|glusterfs|gpfs|lustre|nfs4?|ocfs2|smb3|smbfs"
    r"|fuse\.(ceph|glusterfs|s3fs|sshfs)"
)
#: What platforms put in the environment of a process that may run several times, and their names.
_PLATFORMS = {
    "KUBERNETES_SERVICE_HOST": "Kubernetes",
    "DYNO": "Heroku",
    "K_SERVICE": "Cloud Run",
    "AWS_LAMBDA_FUNCTION_NAME": "AWS Lambda",
}
#: Linux's list of mounts, and how it writes spaces.
_MOUNTS, _ESCAPED = Path("/proc/self/mounts"), re.compile(r"\\([0-7]{3})")
#: How long the engine may take to compare the formats.
_FORMATS_SECONDS = 3.0


def register_checks() -> None:
    """Let ``manage.py check`` run the checks below."""
    register(check_setting, Tags.compatibility)
    register(check_embedded_place, Tags.compatibility)
    register(check_hidden_patterns, Tags.compatibility)
    register(check_embedded_path, Tags.compatibility)
    register(check_app, Tags.compatibility)
    register(check_login_address, Tags.urls)
    register(check_formats, Tags.database)


def check_setting(**_: Any) -> list[CheckMessage]:
    """Report everything that is wrong with the setting."""
    return [Error(problem.message, hint=problem.hint, id=problem.id) for problem in conf.problems()]


def check_embedded_place(**_: Any) -> list[CheckMessage]:
    """Warn if several machines may use the embedded engine's file, or if each may have its own."""
    if not _is_embedded() or any(conf.problems()):
        return []
    path = Path(conf.read_setting()["OPTIONS"]["path"])
    system = _file_system(path)
    platform = next((name for key, name in _PLATFORMS.items() if key in os.environ), None)
    if _NETWORK_FILE_SYSTEMS.fullmatch(system):
        text = f"The embedded engine's path {str(path)!r} is on a network file system, {system}."
        hint = "Its locks do not hold there, and items are lost: use a disk of the machine itself."
    elif platform is not None:
        text = f"The embedded engine is in use on {platform}, where each instance has its own disk."
        hint = "Queues of one are not the others', and end with it. Silence this check for one "
        hint += "instance with a lasting disk."
    else:
        return []
    hint += " For several machines use 'fdbqueue.engines.foundationdb'."
    return [Warning(text, hint=hint, id="fdbqueue.W001")]


def _file_system(path: Path) -> str:
    """Return the kind of the file system that a path is on; empty if it cannot be told."""
    try:
        mounts = _MOUNTS.read_text(errors="surrogateescape").splitlines()
        path = path.resolve()
    except (OSError, RuntimeError):  # it is not Linux, or links lead in a circle
        return ""
    longest = found = ""
    for _device, escaped, kind, *_ in map(str.split, mounts):
        place = _ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), escaped)
        if path.is_relative_to(place) and len(place) >= len(longest):  # the last covers the others
            longest, found = place, kind
    return found


def check_hidden_patterns(**_: Any) -> list[CheckMessage]:
    """Check that each pattern of the setting has names of its own: the first that fits wins."""
    found: list[CheckMessage] = []
    patterns: list[str] = []
    queues = conf.read_setting().get("QUEUES", {})
    for name in queues if isinstance(queues, Mapping) else ():
        if not isinstance(name, str) or "*" not in name:
            continue
        first = next((one for one in patterns if covers(one, name)), None)
        if first is not None:
            text = f"No queue is of the pattern {name!r}: every name that fits it fits {first!r}."
            hint = f"Put {name!r} before {first!r}: the first pattern that a name fits wins."
            found.append(Warning(text, hint=hint, id="fdbqueue.W006"))
        patterns.append(name)
    return found


def check_embedded_path(**_: Any) -> list[CheckMessage]:
    """Warn if the file of the embedded engine depends on the folder a process starts in.

    And if there cannot be a file, because it is a folder, or its folder does not exist.
    """
    if not _is_embedded() or any(conf.problems()):
        return []
    path = Path(conf.read_setting()["OPTIONS"]["path"])
    found: list[CheckMessage] = []
    if not path.is_absolute():
        hint = (
            "Processes that start in different folders use different files, and so different "
            "queues. Use an absolute path, for instance BASE_DIR / 'queues.sqlite3'."
        )
        text = f"The embedded engine's path {str(path)!r} is not absolute."
        found.append(Warning(text, hint=hint, id="fdbqueue.W003"))
    if path.is_dir():
        text = f"The embedded engine's path {str(path)!r} is a folder."
        hint = "Add the name of a file to it, for instance BASE_DIR / 'queues.sqlite3'."
        found.append(Warning(text, hint=hint, id="fdbqueue.W005"))
    elif not path.parent.is_dir():
        text = f"The embedded engine's path {str(path)!r} is in a folder that does not exist."
        found.append(Warning(text, hint=f"Create {path.parent}.", id="fdbqueue.W005"))
    return found


def check_login_address(**_: Any) -> list[CheckMessage]:
    """Warn if the pages outside the admin send visitors to a login that does not exist."""
    if not _has_plain_pages() or _leads_somewhere(settings.LOGIN_URL):
        return []
    return [
        Warning(
            f"The pages of fdbqueue.urls send visitors to log in at LOGIN_URL, "
            f"{str(settings.LOGIN_URL)!r}, and the project has no such address.",
            hint="Set LOGIN_URL to the address or the name of a login view, for instance "
            "'admin:login', or add one to the urlpatterns.",
            id="fdbqueue.W002",
        )
    ]


def check_formats(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Compare the setting with what the queues are written under, for ``check --database``.

    It reads a row of each queue that the setting names. As Django's own checks of databases, it
    runs with ``check --database default``, and before ``migrate``.
    """
    if not databases or any(conf.problems()):
        return []
    try:
        catalog = deadlines.limited_catalog(_FORMATS_SECONDS, reads_only=True)
        queues = [catalog.queue(name) for name in catalog.plain_names()]
        found = run(catalog.database, lambda tr: mismatches_of(tr, queues), read_only=True)
    except Exception as error:
        if not isinstance(error, FdbQueueError) and error_code(error) is None:
            raise
        return [
            Warning(
                f"The settings of the queues could not be compared with what is stored: {error}",
                hint="Run manage.py queue_doctor when the engine answers.",
                id="fdbqueue.W004",
            )
        ]
    return [_mismatch(one) for one in found if one is not None]


def _mismatch(error: FormatMismatch) -> Error:
    if isinstance(error, LayoutMismatch):
        return Error(f"{error}.", id="fdbqueue.E017")
    queue = error.context["queue"]
    return Error(
        f"The queue {queue!r} was written under {error.context['written']}, but the setting says "
        f"{error.context['here']}.",
        hint="Correct the setting. If it was changed on purpose, stop all processes that have the "
        f"former one, then run manage.py queue_doctor {queue} --adopt-settings.",
        id="fdbqueue.E017",
    )


def _is_embedded() -> bool:
    return conf.read_setting().get("ENGINE", conf.EMBEDDED) == conf.EMBEDDED


def _has_plain_pages() -> bool:
    if not getattr(settings, "ROOT_URLCONF", None):
        return False
    try:
        reverse("fdbqueue:queues")
    except NoReverseMatch:
        return False
    return True


def _leads_somewhere(login_url: Any) -> bool:
    """Tell whether a view is at an address; one of another host is not looked up."""
    if not login_url:
        return False
    try:
        address = urlsplit(resolve_url(login_url))
        if not address.netloc:
            resolve("/" + address.path.removeprefix(get_script_prefix()).lstrip("/"))
    except (NoReverseMatch, Resolver404):
        return False
    return True
