"""System checks of the ``FDBQUEUE`` setting; they never connect."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register

from fdbqueue import conf


def register_checks() -> None:
    """Let ``manage.py check`` run the checks below."""
    register(check_setting, Tags.compatibility)
    register(check_embedded_in_production, Tags.security)


def check_setting(**_: Any) -> list[CheckMessage]:
    """Report everything that is wrong with the setting."""
    return [Error(problem.message, hint=problem.hint, id=problem.id) for problem in conf.problems()]


def check_embedded_in_production(**_: Any) -> list[CheckMessage]:
    """Warn where the embedded engine serves a project that does not debug."""
    setting = getattr(settings, conf.SETTING, {})
    if settings.DEBUG or setting.get("ENGINE", conf.EMBEDDED) != conf.EMBEDDED:
        return []
    return [
        Warning(
            "The embedded engine is in use with DEBUG off.",
            hint="It keeps all queues in one file on one machine. If that is what you want, "
            "silence this check; else use 'fdbqueue.engines.foundationdb'.",
            id="fdbqueue.W001",
        )
    ]
