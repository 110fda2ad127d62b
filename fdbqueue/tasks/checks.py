"""The system checks of tasks: all their ids, and what is wrong with a backend and its outbox.

What its options and schedules may be is said where they are read: ``options``, ``schedules``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning
from django.utils.module_loading import import_string

from fdbqueue import conf
from fdbqueue.service import NAME

APP = "fdbqueue.tasks"
#: The app that has the table of the option ``outbox``.
OUTBOX_APP = "fdbqueue.tasks.outbox"
#: The ids.
NO_APP = "fdbqueue.tasks.E001"
OPTIONS = "fdbqueue.tasks.E002"
QUEUE_NAME = "fdbqueue.tasks.E003"
SHARED_QUEUES = "fdbqueue.tasks.E004"
QUEUES_OF_SETTING = "fdbqueue.tasks.E005"
NO_OUTBOX_APP = "fdbqueue.tasks.E006"
SCHEDULE, SCHEDULED_TASK = "fdbqueue.tasks.E010", "fdbqueue.tasks.E011"
TIMES, ARGUMENTS = "fdbqueue.tasks.E012", "fdbqueue.tasks.E013"
ANY_NAME = "fdbqueue.tasks.W001"
NO_TABLE = "fdbqueue.tasks.W002"
NO_BACKEND = "fdbqueue.tasks.W003"


def check_app(**_: Any) -> list[CheckMessage]:
    """Report backends of ours in ``TASKS`` without their app, and the app without a backend.

    The app checks all else. Django runs a backend's own checks only if something has imported its
    tasks. Without a backend of ours, Django runs each task inside its ``enqueue``.
    """
    backends = getattr(settings, "TASKS", {})
    if not isinstance(backends, Mapping):
        return []
    ours = [
        alias
        for alias, given in backends.items()
        if isinstance(given, Mapping) and _is_ours(given.get("BACKEND"))
    ]
    if not apps.is_installed(APP):
        hint = f"Add {APP!r} to INSTALLED_APPS."
        return [
            Error(f"The task backend {alias!r} needs the app {APP!r}.", hint=hint, id=NO_APP)
            for alias in ours
        ]
    if ours:
        return []
    text = f"{APP!r} is installed, but TASKS has no backend of fdbqueue's."
    hint = (
        "Without one, Django runs each task inside enqueue(). Set TASKS = {'default': {'BACKEND': "
        "'fdbqueue.tasks.FdbQueueBackend'}}; or silence this check, if tests mean it so."
    )
    return [Warning(text, hint=hint, id=NO_BACKEND)]


def _is_ours(path: Any) -> bool:
    """Tell whether a dotted path leads to our task backend, or to a class made from it."""
    if str(path).startswith(f"{APP}."):
        return True
    try:
        ancestors = import_string(str(path)).__mro__
    except Exception:  # noqa: BLE001  # a project's own module may raise anything; Django reports it
        return False
    return any(one.__module__.startswith(f"{APP}.") for one in ancestors)


def check_backend(backend: Any, problems: Iterable[conf.SettingProblem]) -> Iterator[CheckMessage]:
    """Yield what is wrong with the setting of a backend, without connecting to anything.

    Args:
        backend: The backend.
        problems: What is wrong with its options and schedules.
    """
    what = f"The task backend {backend.alias!r}"
    if not apps.is_installed("fdbqueue"):  # else its checks look for fdbqueue.tasks
        hint = "Add 'fdbqueue' and 'fdbqueue.tasks' to INSTALLED_APPS."
        yield Error(f"{what} needs the app 'fdbqueue'.", hint=hint, id=NO_APP)
    for problem in problems:
        yield Error(f"{what}: {problem.message}", hint=problem.hint, id=problem.id)
    for queue in sorted(backend.queues):
        if not NAME.fullmatch(backend.queue_prefix + queue):
            text = f"The task queue {queue!r} of the backend {backend.alias!r} has no valid name."
            hint = (
                f"Let {backend.queue_prefix + queue!r} have 1 to 100 letters, digits, '_', '-' "
                "and '.', the first a letter or digit."
            )
            yield Error(text, hint=hint, id=QUEUE_NAME)
    if backend.settings.outbox is not None and not apps.is_installed(OUTBOX_APP):
        hint = f"Add {OUTBOX_APP!r} to INSTALLED_APPS, and run manage.py migrate."
        yield Error(
            f"{what} has the option 'outbox', but not its app.", hint=hint, id=NO_OUTBOX_APP
        )
    yield from _overlaps(backend)


def _overlaps(backend: Any) -> Iterator[CheckMessage]:
    """Yield what is wrong if another backend's queues, or the setting's, are among its own."""
    from fdbqueue.tasks.compat import backends

    alias, ours = backend.alias, set(backend.names())
    for other in backends():
        if other.alias < alias and ours & set(other.names()):
            names = ", ".join(sorted(ours & set(other.names())))
            text = f"The task backends {other.alias!r} and {alias!r} share {names}."
            hint = "Give one of them another queue_prefix."
            yield Error(text, hint=hint, id=SHARED_QUEUES)
    for other in backends():
        if other.alias == alias or backend.queues:
            continue
        shared = [name for name in other.names() if name.startswith(backend.queue_prefix)]
        if shared := sorted({*shared} - ours):
            text = f"The task backend {alias!r} takes queues of any name, and among its "
            text += f"{backend.queue_prefix}* are queues of {other.alias!r}: {', '.join(shared)}."
            hint = f"Only {other.alias!r} takes them. Give one of both another queue_prefix."
            yield Warning(text, hint=hint, id=ANY_NAME)
    for name in sorted(ours.union(backend.limited_names()).intersection(conf.own_names())):
        text = f"The queue {name!r} in FDBQUEUE is also a queue of the task backend {alias!r}."
        hint = "Give one of them another name, or the backend another queue_prefix."
        yield Error(text, hint=hint, id=QUEUES_OF_SETTING)


def check_tables(
    app_configs: Any = None,  # noqa: ARG001  # as Django calls it
    databases: Sequence[str] | None = None,
    **_: Any,
) -> list[CheckMessage]:
    """Report the outboxes whose table is missing, for ``check --database`` and ``migrate``."""
    from django.db import DatabaseError, connections

    from fdbqueue.tasks.compat import backends
    from fdbqueue.tasks.outbox.models import OutboxTask

    found: list[CheckMessage] = []
    for backend in backends():
        alias = backend.settings.outbox
        if alias is None or alias not in (databases or ()):
            continue
        try:
            names = connections[alias].introspection.table_names()
        except DatabaseError:
            continue  # that it cannot be reached, Django says
        if OutboxTask._meta.db_table not in names:  # noqa: SLF001  # Django's public name for it
            text = f"The outbox of the task backend {backend.alias!r} has no table in {alias!r}."
            hint = f"Run: manage.py migrate fdbqueue_outbox --database {alias}"
            found.append(Warning(text, hint=hint, id=NO_TABLE))
    return found
