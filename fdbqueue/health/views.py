"""The health checks: is the process alive, does its engine respond, do the queues move.

The first two need no login, so they say nothing else; the reason of a failure is in the log. The
third names queues, so only monitors may read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.cache import add_never_cache_headers
from django.utils.decorators import method_decorator
from django.views import View

from fdbqueue import access, conf, deadlines
from fdbqueue.columns.attention import CONCERN_READS, Concern, concerns_of
from fdbqueue.columns.queue_rows import QueueRow, read_rows
from fdbqueue.columns.text import in_english
from fdbqueue.columns.workers_and_reasons import workers_of
from fdbqueue.exceptions import FdbQueueError, QueueNotFound
from fdbqueue.logs import get_logger
from fdbqueue.service import Catalog, Workers, error_code

logger = get_logger(__name__)


@method_decorator(login_not_required, name="dispatch")
class HealthView(View):
    """A health check: GET and HEAD only, never cached."""

    http_method_names = ["get", "head", "options"]  # noqa: RUF012  # as in the class above

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Return the response, and forbid caching."""
        response = super().dispatch(request, *args, **kwargs)
        add_never_cache_headers(response)
        return response

    def get(self, request: HttpRequest) -> HttpResponse:
        """Return 200 if the check succeeds, else 503; 503 if the engine does not respond."""
        del request
        try:
            report = self.report()
        except Exception as error:
            if not isinstance(error, FdbQueueError) and error_code(error) is None:
                raise
            reason = getattr(error, "code", None)
            logger.warning("the engine is not ready", extra={"reason": reason}, exc_info=error)
            report = {"status": "unavailable"}
        return JsonResponse(report, status=200 if report["status"] == "ok" else 503)

    def report(self) -> dict[str, Any]:
        """Return what was found; its ``status`` is "ok" if the check succeeds."""
        raise NotImplementedError


class LiveView(HealthView):
    """Check that this process responds; the engine is not used."""

    def report(self) -> dict[str, Any]:
        """Return that all is well, because the process responds."""
        return {"status": "ok"}


class ReadyView(HealthView):
    """Check that the engine responds, and may be pushed to: read one key, within a timeout.

    The disk of the embedded engine's file must have room: pops may go on without, pushes do not.

    For another timeout, use ``ReadyView.as_view(timeout_seconds=0.5)`` in your URLs.
    """

    #: How long the engine may take. A cluster that was never reached in this process may
    #: take the engine's ``connect_timeout_seconds`` instead.
    timeout_seconds: float = 2.0

    def report(self) -> dict[str, Any]:
        """Read from the engine."""
        catalog = deadlines.limited_catalog(self.timeout_seconds, reads_only=True)
        catalog.reach()
        room = getattr(conf.innermost(conf.database()), "disk_space", None)
        return {"status": "disk full" if room is not None and room().is_full else "ok"}


class QueuesView(HealthView):
    """Check that no queue stands still by a fault; and say what the list of queues says.

    It names queues, so it is for monitors alone: with the token of the metrics, or logged in as a
    user who may view all queues. To check as well that queues have a worker that is alive, also
    while nothing waits there, name them in your URLs:
    ``QueuesView.as_view(with_workers=["tasks-default"])``.
    """

    #: How long all reads may take.
    timeout_seconds: float = 5.0
    #: The queues that are to have a worker, one that keeps a row.
    with_workers: Sequence[str] = ()

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Check the permission, too."""
        refused = access.monitor_refusal(request)
        if refused is None:
            return super().dispatch(request, *args, **kwargs)
        add_never_cache_headers(refused)
        return refused

    def report(self) -> dict[str, Any]:
        """Return what needs attention; the queues that are blocked, and where; and those without.

        A worker that does not say which queues it takes from counts for all. If there are more
        workers than are read, no queue is without.
        """
        catalog = deadlines.limited_catalog(self.timeout_seconds, reads_only=True)
        names, is_complete = access.monitored_names(catalog)
        rows = [*read_rows(catalog.database, map(catalog.queue, names), CONCERN_READS)]
        blocked = {row.queue.name: row.ends.undecodable for row in rows if row.ends.undecodable}
        found = {row.queue.name: [(one, row) for one in concerns_of(row)] for row in rows}
        report = {
            "status": "ok",
            "attention": {
                name: [_said(*one) for one in some] for name, some in found.items() if some
            },
            "blocked": blocked,
            "complete": is_complete,
        }
        if any(one.stands for some in found.values() for one, _row in some):
            report["status"] = "stands still"
        if self.with_workers:
            workers = catalog.presences.read()
            named = self.with_workers if workers.is_complete else ()
            without = [name for name in named if not _is_served(catalog, name, workers)]
            report["no_worker"] = without
            report |= {"status": "no worker"} if without else {}
        return report | ({"status": "blocked"} if blocked else {})


def _said(concern: Concern, row: QueueRow) -> dict[str, str]:
    """Return a concern as the command and the pages say it."""
    with in_english():
        remedy = concern.remedy(row)
        return {
            "reason": concern.name,
            "says": concern.text(row),
            "remedy": remedy and f"manage.py {remedy}",
        }


def _is_served(catalog: Catalog, name: str, workers: Workers) -> bool:
    """Tell whether a worker that is alive may take from a queue."""
    try:
        queue = catalog.queue(name)
    except QueueNotFound:
        return False
    return not all(one.is_lost for one in workers_of(queue, workers))
