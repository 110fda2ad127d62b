"""System checks of the settings; they never connect to a queue's database."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, Resolver404, get_script_prefix, resolve, reverse

from fdbqueue import conf


def register_checks() -> None:
    """Let ``manage.py check`` run the checks below."""
    register(check_setting, Tags.compatibility)
    register(check_embedded_in_production, Tags.security)
    register(check_embedded_path, Tags.compatibility)
    register(check_login_address, Tags.urls)


def check_setting(**_: Any) -> list[CheckMessage]:
    """Report everything that is wrong with the setting."""
    return [Error(problem.message, hint=problem.hint, id=problem.id) for problem in conf.problems()]


def check_embedded_in_production(**_: Any) -> list[CheckMessage]:
    """Warn where the embedded engine serves a project that does not debug."""
    if settings.DEBUG or not _is_embedded():
        return []
    return [
        Warning(
            "The embedded engine is in use with DEBUG off.",
            hint="It keeps all queues in one file on one machine. If that is what you want, "
            "silence this check; else use 'fdbqueue.engines.foundationdb'.",
            id="fdbqueue.W001",
        )
    ]


def check_embedded_path(**_: Any) -> list[CheckMessage]:
    """Warn where the file of the embedded engine depends on the folder a process starts in."""
    if not _is_embedded() or any(conf.problems()):
        return []
    path = _setting()["OPTIONS"]["path"]
    if Path(path).is_absolute():
        return []
    return [
        Warning(
            f"The embedded engine's path {str(path)!r} is not absolute.",
            hint="Processes that start in different folders use different files, and so different "
            "queues. Use an absolute path, for instance BASE_DIR / 'queues.sqlite3'.",
            id="fdbqueue.W003",
        )
    ]


def check_login_address(**_: Any) -> list[CheckMessage]:
    """Warn where the pages outside the admin send visitors to a login that does not exist."""
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


def _setting() -> Mapping[str, Any]:
    """Return the setting; an empty one where it is not a dictionary, which E001 reports."""
    setting = getattr(settings, conf.SETTING, {})
    return setting if isinstance(setting, Mapping) else {}


def _is_embedded() -> bool:
    return _setting().get("ENGINE", conf.EMBEDDED) == conf.EMBEDDED


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
