"""The actions: each is declared, gets its checked input, calls the service once, and returns JSON.

:mod:`fdbqueue.api.actions` says what a declaration has, and what is worked out from it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django.apps import apps
from django.db import transaction
from django.views.decorators.http import conditional_page
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle
from rest_framework.viewsets import ViewSetMixin

from fdbqueue import access, conf, deadlines, service, verbs
from fdbqueue.access import LEASE, MANAGE, POP, PUSH, VIEW
from fdbqueue.api import inputs, outputs, pagination, requests, waiting
from fdbqueue.api.actions import Action, QueuePermission, declaration
from fdbqueue.api.base_view import BaseView
from fdbqueue.api.throttling import QueueThrottle
from fdbqueue.service import (
    Catalog,
    Family,
    Item,
    Queue,
    SeveralQueues,
)

#: The checked fields of a body or a query, by their names.
Asked = dict[str, Any]
#: Parts of the examples of bodies.
_ID, _VALUE = (outputs.ItemOutput.example[name] for name in ("id", "value"))
_TOKEN = outputs.LeasedItemOutput.example["lease"]
_DEAD_REASON = outputs.DeadReasonOutput.example["reason"]


class QueueViewSet(ViewSetMixin, BaseView):
    """Queues by name: list and browse them, push, pop, and lease items.

    The project decides how users authenticate; :mod:`fdbqueue.access` decides what they may do.
    """

    permission_classes = (QueuePermission,)
    lookup_field = "name"
    lookup_value_regex = "[^/]+"  # a name of no queue gets the API's 404, not Django's

    @classmethod
    def as_view(cls, actions: Any = None, **initkwargs: Any) -> Any:
        """Return the view, whose GETs are 304 if the client has what they would answer.

        With ATOMIC_REQUESTS, a waiting pop must not hold an SQL transaction.
        """
        view = super().as_view(actions, **initkwargs)
        return transaction.non_atomic_requests(
            conditional_page(view) if "get" in (actions or ()) else view
        )

    @property
    def purpose(self) -> Action | None:
        """What is declared of the action; for OPTIONS, of the address."""
        asks_what_it_is = self.action == "metadata"
        name = next(iter(self.action_map.values())) if asks_what_it_is else self.action
        return declaration(self, name)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Check the request before the action; nothing reads the body before these checks."""
        requests.check_address(request)
        requests.check_length(request)
        if self.action is not None:
            requests.check_media(request)
        super().initial(request, *args, **kwargs)

    def get_throttles(self) -> list[BaseThrottle]:
        """Return the throttles of the project, and the API's own."""
        throttles = super().get_throttles()
        throttles.append(QueueThrottle())
        return throttles

    @Action(
        "GET", "List the queues", VIEW, answer=outputs.QueuePageOutput, query=inputs.QueuesQuery
    )
    def list(self, asked: Asked) -> Any:
        """List the queues, one page at a time; a page may be short."""
        position = pagination.queue_position(asked.get("cursor"))
        catalog = self._begin()
        names, following = deadlines.next_names(catalog.each_name(after=position), asked["limit"])
        queues = [catalog.queue(name) for name in names]

        show = functools.partial(outputs.queue_rows, queues=queues)
        rows = service.run(catalog.database, show, read_only=True)
        return {"queues": rows, "cursor": pagination.queue_cursor(following)}

    @Action("GET", "Show a queue", VIEW, answer=outputs.QueueDetailOutput)
    def retrieve(self, _asked: Asked, name: str) -> Any:
        """Show a queue: its settings, its counts, and the items at its two ends."""
        queue = self._queue(name)
        show = functools.partial(outputs.queue_detail, queue)
        return service.run(queue.database, show, read_only=True)

    @Action(
        "POST",
        "Pause a queue",
        MANAGE,
        body=inputs.PauseBody,
        answer=outputs.PausedOutput,
        examples={"With a reason": {"reason": "deploying 2.4"}, "Without one": {}},
    )
    def pause(self, asked: Asked, name: str) -> Any:
        """Pause a queue: pops and leases find nothing until it is resumed, and pushes go on.

        A pattern of the setting pauses all queues that fit it, for users who may manage all queues.
        """
        return {"paused": outputs.pause(self._queue_or_family(name).pause(**asked))}

    @Action(
        "POST",
        "Resume a queue",
        MANAGE,
        body=inputs.ResumeBody,
        answer=outputs.ResumedOutput,
        examples={"Always": {}},
    )
    def resume(self, _asked: Asked, name: str) -> Any:
        """Resume a paused queue, or a family: pops and leases take items again."""
        return {"resumed": self._queue_or_family(name).resume()}

    @Action(
        "POST",
        "Push one item or many",
        PUSH,
        body=inputs.PushBody,
        many=inputs.PushManyBody,
        answer=(outputs.PushedItemOutput, outputs.PushedOutput),
        found=(outputs.PushedItemOutput, outputs.ExistingOutput),
        is_keyed=True,
        examples={
            "One item": {"value": _VALUE, "priority": 6.4},
            "One item, hidden for a minute": {"value": _VALUE, "delay": 60},
            "One item, unless one with this key is pending": {
                "value": _VALUE,
                "unique": "us1000chhc",
            },
            "Many items": {"items": [{"value": 1, "priority": 2.5}, {"value": 2}]},
        },
    )
    def push(self, asked: Asked, name: str) -> Any:
        """Push one item, or many in one transaction."""
        queue = self._queue(name)
        if "items" in asked:
            entries, once = asked["items"], asked["once"]
            pushed = queue.push_batch(inputs.pushes_of(queue, entries), once=once)
            is_unique = any("unique" in entry for entry in entries)
            found = outputs.pushed(pushed, is_unique=is_unique)
            return Response(found, status=status.HTTP_201_CREATED)
        item = queue.push(inputs.from_json(asked.pop("value"), queue), **asked)
        kind = outputs.PushedItemOutput if "unique" in asked else outputs.ItemOutput
        if not item.existing:
            address = self.reverse_action("item", args=[name, item.id], request=None)
            made, headers = outputs.item(queue, item, kind), {"Location": address}
            return Response(made, status=status.HTTP_201_CREATED, headers=headers)
        # Another user may have pushed it: only a user who may view the queue sees what it is.
        sees = access.may(self.request.user, VIEW, name)
        return outputs.item(queue, item, kind if sees else outputs.ExistingOutput)

    @Action(
        "POST",
        "Pop items",
        POP,
        body=inputs.PopBody,
        answer=outputs.ItemsOutput,
        is_keyed=True,
        examples={
            "The highest priority, waiting up to ten seconds": {"end": "max", "wait": 10},
            "Up to a hundred items": {"limit": 100},
        },
    )
    def pop(self, asked: Asked, name: str) -> Any:
        """Pop items from one end, in one transaction."""
        return self._take(asked, name, Queue.pop_many, outputs.ItemOutput)

    @Action(
        "POST",
        "Lease items",
        LEASE,
        body=inputs.LeaseBody,
        answer=outputs.LeasedItemsOutput,
        is_keyed=True,
        examples={
            "For a minute": {"end": "max", "seconds": 60},
            "By a worker with a name": {"worker": "mail1:4711"},
        },
    )
    def lease(self, asked: Asked, name: str) -> Any:
        """Lease items from one end, in one transaction."""
        return self._take(asked, name, Queue.lease_many, outputs.LeasedItemOutput)

    @Action(
        "POST",
        "Pop from several queues",
        POP,
        body=inputs.PopFromBody,
        answer=outputs.PoppedFromOutput,
        is_keyed=True,
        examples={
            "The first that has an item": {"queues": ["urgent", "quakes"], "wait": 10},
            "In turns, by a pattern": {"queues": ["user-*"], "fair": True},
        },
    )
    def pop_from(self, asked: Asked) -> Any:
        """Pop items of the first of several queues that has any, in one transaction."""
        return self._take_from(asked, POP, SeveralQueues.pop_many, outputs.ItemOutput)

    @Action(
        "POST",
        "Lease from several queues",
        LEASE,
        body=inputs.LeaseFromBody,
        answer=outputs.LeasedFromOutput,
        is_keyed=True,
        examples={"For a minute": {"queues": ["urgent", "quakes"], "seconds": 60}},
    )
    def lease_from(self, asked: Asked) -> Any:
        """Lease items of the first of several queues that has any, in one transaction."""
        output = outputs.LeasedItemOutput
        return self._take_from(asked, LEASE, SeveralQueues.lease_many, output)

    @Action(
        "POST",
        "Acknowledge leases",
        LEASE,
        body=inputs.AckBody,
        many=inputs.AckManyBody,
        answer=outputs.AckedOutput,
        is_keyed=True,
        examples={"One lease": {"lease": _TOKEN}, "Many leases": {"leases": [_TOKEN]}},
    )
    def ack(self, asked: Asked, name: str) -> Any:
        """Acknowledge one leased item, or many in one transaction: they are removed."""
        end = Queue.ack_many if "leases" in asked else Queue.ack
        return self._end(asked, name, "acked", end)

    @Action(
        "POST",
        "Give up leases",
        LEASE,
        body=inputs.NackBody,
        many=inputs.NackManyBody,
        answer=outputs.NackedOutput,
        is_keyed=True,
        examples={
            "Ready again in a minute": {"lease": _TOKEN, "delay": 60, "reason": "no connection"},
            "Many leases": {"leases": [_TOKEN]},
        },
    )
    def nack(self, asked: Asked, name: str) -> Any:
        """Give up one leased item, or many: they are requeued, or become dead letters."""
        end = Queue.nack_many if "leases" in asked else Queue.nack
        return self._end(asked, name, "nacked", end)

    @Action(
        "POST",
        "Extend leases",
        LEASE,
        body=inputs.ExtendBody,
        many=inputs.ExtendManyBody,
        answer=(outputs.LeasedItemOutput, outputs.ExtendedOutput),
        is_keyed=True,
        examples={
            "By five minutes": {"lease": _TOKEN, "seconds": 300},
            "Many leases": {"leases": [_TOKEN], "seconds": 300},
        },
    )
    def extend(self, asked: Asked, name: str) -> Any:
        """Extend one lease, or many: they end the given number of seconds from now."""
        end = Queue.extend_many if "leases" in asked else Queue.extend
        return self._end(asked, name, "extended", end)

    @Action(
        "GET",
        "Show what a pop would take",
        VIEW,
        query=inputs.PeekQuery,
        answer=outputs.ItemsOutput,
        conflicts=True,
    )
    def peek(self, asked: Asked, name: str) -> Any:
        """Show the items that a pop would take, without taking them."""
        queue = self._queue(name)
        found = queue.peek_many(asked["limit"], end=asked["end"])
        return {"items": outputs.items(queue, found)}

    @Action(
        "GET",
        "List the items in a state",
        VIEW,
        query=inputs.ItemsQuery,
        answer=outputs.ItemPageOutput,
    )
    def items(self, asked: Asked, name: str) -> Any:
        """List the items in one state, one page at a time, in order from one end."""
        queue = self._queue(name)
        place = queue, asked["end"], asked["state"], asked["order"]
        after = pagination.item_position(*place, asked.pop("cursor", None))
        worker = asked.pop("worker", None)
        page = queue.page(after=after, **asked)
        cursor = pagination.item_cursor(*place, page.cursor)
        found = [item for item in page.items if worker is None or item.worker == worker]
        return {"items": outputs.items(queue, found), "cursor": cursor}

    @Action("GET", "Show an item", VIEW, answer=outputs.ItemOutput, path="items/(?P<id>[^/]+)")
    def item(self, _asked: Asked, name: str, id: str) -> Any:
        """Show one item, in any state."""
        queue = self._queue(name)
        return outputs.item(queue, queue.get(id))

    @item.mapping.delete  # type: ignore[untyped-decorator]  # as Django REST framework makes it
    @Action("DELETE", "Remove an item", MANAGE, answer=outputs.RemovedOutput, conflicts=True)
    def remove(self, _asked: Asked, name: str, id: str) -> Any:
        """Remove one item for good, in any state; of a queue of tasks, only a dead letter."""
        verbs.remove(self._queue(name), id)
        return {"removed": 1}

    @Action(
        "GET",
        "List the reasons of dead letters",
        VIEW,
        query=inputs.ReasonsQuery,
        answer=outputs.DeadReasonsOutput,
    )
    def dead_reasons(self, asked: Asked, name: str) -> Any:
        """List the reasons of dead letters with their numbers, the most frequent first."""
        queue = self._queue(name)
        show = functools.partial(outputs.dead_reasons, queue, limit=asked["limit"])
        return service.run(queue.database, show, read_only=True)

    @Action(
        "POST",
        "Bury an item",
        MANAGE,
        body=inputs.BuryBody,
        answer=outputs.BuriedOutput,
        conflicts=True,
        examples={"With a reason": {"id": _ID, "reason": "not ours"}},
    )
    def bury(self, asked: Asked, name: str) -> Any:
        """Make a ready item a dead letter; of a queue of tasks, only one that is no task."""
        verbs.bury(self._queue(name), asked["id"], reason=asked["reason"])
        return {"buried": 1}

    @Action(
        "POST",
        "Redrive dead letters",
        MANAGE,
        body=inputs.RedriveBody,
        answer=outputs.RedrivenOutput,
        examples={
            "All": {},
            "Those of a reason": {"reason": _DEAD_REASON},
            "By their ids": {"ids": [_ID]},
        },
    )
    def redrive(self, asked: Asked, name: str) -> Any:
        """Redrive dead letters by ids, by a reason, or all; at most ``limit``.

        A dead letter that cannot be decoded stays dead unless ``ids`` names it: it would block the
        queue.
        """
        outcome = self._done(verbs.redrive, asked, name)
        undecodable = len(outcome.undecodable)
        return {"redriven": outcome.number, "more": outcome.has_more, "undecodable": undecodable}

    @Action(
        "POST",
        "Give back leased items",
        MANAGE,
        body=inputs.GiveBackBody,
        answer=outputs.bounded("GivenBackOutput", "given_back", "giving back leased items"),
        examples={
            "What a dead worker holds": {"worker": "mail1:4711"},
            "By their ids, as they were": {"ids": [_ID], "spend": False},
        },
    )
    def give_back(self, asked: Asked, name: str) -> Any:
        """Give back leased items to their places before their leases end; at most `limit`.

        A worker that lives learns that it has lost them when it ends or extends their leases.
        """
        outcome = self._done(verbs.give_back, asked, name)
        return {"given_back": outcome.number, "more": outcome.has_more}

    @Action(
        "POST",
        "Make delayed items ready now",
        MANAGE,
        body=inputs.RunNowBody,
        answer=outputs.bounded("MadeReadyOutput", "made_ready", "making delayed items ready"),
        examples={"All": {}, "By their ids": {"ids": [_ID]}},
    )
    def run_now(self, asked: Asked, name: str) -> Any:
        """Make delayed items ready now, by ids or all; at most `limit`. Limits hold."""
        outcome = self._done(verbs.run_now, asked, name)
        return {"made_ready": outcome.number, "more": outcome.has_more}

    @Action(
        "POST",
        "Remove the items in a state",
        MANAGE,
        body=inputs.PurgeBody,
        answer=outputs.PurgedOutput,
        conflicts=True,
        examples={
            "The dead letters": {"state": "dead"},
            "Those of a reason": {"state": "dead", "reason": _DEAD_REASON},
        },
    )
    def purge(self, asked: Asked, name: str) -> Any:
        """Remove items in one state, or dead letters of a reason, for good; at most ``limit``.

        Of a queue of tasks, only dead letters.
        """
        outcome = self._done(verbs.purge, asked, name)
        return {"purged": outcome.number, "more": outcome.has_more}

    def _done(self, verb: Callable[..., None], asked: Asked, name: str) -> verbs.Outcome:
        """Do a verb to the bound that the fields of the body are; return what was done in time."""
        outcome = verbs.Outcome()
        verb(self._queue(name), outcome, **asked)
        return outcome

    def _take(
        self,
        asked: Asked,
        name: str,
        take: Callable[..., Sequence[Item]],
        output: type[outputs.ItemOutput],
    ) -> Any:
        """Pop or lease; the fields of the body are the arguments of the queue's method."""
        with self._waits(asked) as wait:
            queue = self._queue(name, asked["wait"])
            found = take(queue, asked.pop("limit"), waits_while=wait.goes_on, **asked)
        headers = {} if found else _when_again([queue], wait.retry_after)
        return Response({"items": outputs.items(queue, found, output)}, headers=headers)

    def _take_from(
        self,
        asked: Asked,
        permission: str,
        take: Callable[..., Sequence[Item]],
        output: type[outputs.ItemOutput],
    ) -> Any:
        """Pop or lease from several queues; the other fields are the arguments of their method."""
        catalog = self._begin(asked["wait"])
        names, fair = asked.pop("queues"), asked.pop("fair")
        several = access.takeable(catalog, self.request.user, permission, names, fair=fair)
        with self._waits(asked) as wait:
            found = take(several, asked.pop("limit"), waits_while=wait.goes_on, **asked)
        if not found:
            named = [catalog.queue(name) for name in names if "*" not in name]
            headers = _when_again(named, wait.retry_after)
            return Response({"queue": None, "items": []}, headers=headers)
        queue = several.queue_of(found[0])
        return {"queue": queue.name, "items": outputs.items(queue, found, output)}

    def _waits(self, asked: Asked) -> contextlib.AbstractContextManager[waiting.Wait]:
        """Hold a place of those who wait, if the request is to wait and there is one."""
        connected = functools.partial(requests.client_is_connected, self.request)
        return waiting.waits(self.request.user, asked["wait"], connected)

    def _end(self, asked: Asked, name: str, done: str, end: Callable[..., Any]) -> Any:
        """End or extend leases; the fields of the body are the arguments of the queue's method."""
        queue = self._queue(name)
        found = end(queue, **asked)
        if isinstance(found, Item):
            return outputs.item(queue, found, outputs.LeasedItemOutput)
        return outputs.held(done, found)

    def _begin(self, wait_seconds: float = 0) -> Catalog:
        """Start the deadline of the engine, now that all input is read; return the catalog."""
        return deadlines.limited_catalog(conf.api().timeout_seconds, wait_seconds)

    def _queue_or_family(self, name: str) -> Queue | Family:
        """Start the deadline of the engine, and return a queue, or the family with a pattern."""
        catalog = self._begin()
        return catalog.family(name) if "*" in name else catalog.queue(name)

    def _queue(self, name: str, wait_seconds: float = 0) -> Queue:
        """Start the deadline of the engine, and return a queue."""
        return self._begin(wait_seconds).queue(name)


def _when_again(queues: Iterable[Queue], least_seconds: int) -> dict[str, str]:
    """Return the header that says when to ask again; it is missing if that may be at once.

    The rates of queues say when some gives items again. ``max_leased`` is not asked: a lease may
    end at any moment.
    """
    limited = [queue for queue in queues if queue.options.rate is not None]
    seconds = max(least_seconds, _held_seconds(limited) if limited else 0)
    return {"Retry-After": str(seconds)} if seconds > 0 else {}


def _held_seconds(limited: Sequence[Queue]) -> int:
    """Return after how many seconds the rates of queues let the first give items again."""

    def read(tr: Any) -> Sequence[Any]:
        return [until for queue in limited if (until := queue.held_until(tr=tr)) is not None]

    found = service.run(limited[0].database, read, read_only=True)
    now = service.moment(service.now_us())
    return math.ceil(min([(until - now).total_seconds() for until in found], default=0))


def describe() -> None:
    """Describe the actions to drf-spectacular, if the project has it installed.

    Importing it takes a sixth of the start of every command, and only what imports the views can
    make a schema: so it is done at the end of this module. While models are still being imported
    it does nothing, and is done when the app is ready.
    """
    if apps.models_ready and apps.is_installed("drf_spectacular"):
        importlib.import_module("fdbqueue.api.schema")


describe()
