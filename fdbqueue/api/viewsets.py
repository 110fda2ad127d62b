"""The views: each reads its input, calls the service once, and returns the result."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from django.db import transaction
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle
from rest_framework.viewsets import ViewSetMixin

from fdbqueue import conf, deadlines, service
from fdbqueue.access import LEASE, MANAGE, POP, PUSH, VIEW, may, may_in_general, takeable, visible
from fdbqueue.api import descriptions, errors, inputs, outputs, pagination, requests, results
from fdbqueue.api.answers import Answers
from fdbqueue.api.permissions import QueuePermission
from fdbqueue.api.throttling import QueueThrottle
from fdbqueue.api.values import from_json, pushes_of
from fdbqueue.service import (
    Catalog,
    IdempotencyKey,
    Item,
    Queue,
    SeveralQueues,
    counts_of,
    pauses_of,
)

#: The serializer of a body, and the method of the queue that takes its fields as arguments.
_Ending = tuple[type[inputs.Input], Callable[..., Any]]


class QueueViewSet(ViewSetMixin, Answers):
    """Queues by name: list and browse them, push, pop, and lease items.

    The project decides how users authenticate; :mod:`fdbqueue.access` decides what they may do.
    """

    permission_classes = (QueuePermission,)
    required_permissions: ClassVar[Mapping[str, str]] = {
        "list": VIEW,
        "retrieve": VIEW,
        "pause": MANAGE,
        "resume": MANAGE,
        "peek": VIEW,
        "items": VIEW,
        "item": VIEW,
        "push": PUSH,
        "pop": POP,
        "lease": LEASE,
        "pop_from": POP,
        "lease_from": LEASE,
        "ack": LEASE,
        "nack": LEASE,
        "extend": LEASE,
        "dead_reasons": VIEW,
        "bury": MANAGE,
        "redrive": MANAGE,
        "purge": MANAGE,
        "remove": MANAGE,
    }
    #: The actions whose body names the queues; they check the permission of each.
    named_in_body = frozenset({"pop_from", "lease_from"})
    lookup_field = "name"
    lookup_value_regex = "[^/]+"  # a name of no queue gets the API's 404, not Django's

    @classmethod
    def as_view(cls, actions: Any = None, **initkwargs: Any) -> Any:
        """Return the view; with ATOMIC_REQUESTS, a waiting pop must not hold an SQL transaction."""
        return transaction.non_atomic_requests(super().as_view(actions, **initkwargs))

    @property
    def purpose(self) -> str:
        """The action of the request; for OPTIONS, the action of the address."""
        asks_what_it_is = self.action == "metadata"
        return next(iter(self.action_map.values())) if asks_what_it_is else self.action

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Check the request before the action; nothing reads the body before these checks."""
        requests.check_address(request)
        requests.check_length(request)
        if self.action is not None:
            requests.check_media(request)
        request.parser_context["held"] = self.held
        super().initial(request, *args, **kwargs)

    def get_throttles(self) -> list[BaseThrottle]:
        """Return the throttles of the project, and the API's own."""
        throttles = super().get_throttles()
        throttles.append(QueueThrottle())
        return throttles

    def list(self, request: Request) -> Response:
        """List the queues that the user may view, one page at a time; a page may be short."""
        asked = requests.query(request, inputs.QueuesQuery)
        position = pagination.queue_position(asked.get("cursor"))
        catalog = self._begin()
        names, following = visible(
            catalog,
            _may_view(request.user),
            after=position,
            limit=asked["limit"],
            is_late=deadlines.is_half_over,
        )
        queues = [catalog.queue(name) for name in names]

        def read(tr: Any) -> Sequence[Any]:
            return outputs.queue_rows(queues, counts_of(tr, queues), pauses_of(tr, queues))

        rows = service.run(catalog.database, read, read_only=True)
        return Response({"queues": rows, "cursor": pagination.queue_cursor(following)})

    def retrieve(self, request: Request, name: str) -> Response:
        """Show a queue: its settings, its counts, and the items at its two ends."""
        requests.query(request, inputs.NoParameters)
        queue = self._queue(name)
        show = functools.partial(outputs.queue_detail, queue)
        return Response(service.run(queue.database, show, read_only=True))

    @action(detail=True, methods=["post"])
    def pause(self, request: Request, name: str) -> Response:
        """Pause a queue: pops and leases find nothing until it is resumed, and pushes go on."""
        asked = requests.checked(inputs.PauseBody, requests.body(request))
        queue = self._queue(name)
        return Response({"paused": outputs.pause(queue, queue.pause(**asked))})

    @action(detail=True, methods=["post"])
    def resume(self, request: Request, name: str) -> Response:
        """Resume a paused queue: pops and leases take items again."""
        requests.checked(inputs.ResumeBody, requests.body(request))
        return Response({"resumed": self._queue(name).resume()})

    @action(detail=True, methods=["post"])
    def push(self, request: Request, name: str) -> Response:
        """Push one item, or many in one transaction."""
        once, body = requests.once(request), requests.body(request)
        if requests.has(body, "items"):
            entries = requests.checked(inputs.PushManyBody, body)["items"]
            queue = self._queue(name)
            pushed = queue.push_batch(pushes_of(queue, entries), once=once)
            keyed = any("unique" in entry for entry in entries)
            return _answer(results.pushed(pushed, keyed=keyed), once, status.HTTP_201_CREATED)
        entry = requests.checked(inputs.PushBody, body)
        queue = self._queue(name)
        item = queue.push(from_json(entry.pop("value"), queue), **entry, once=once)
        kind = outputs.PushedItemOutput if "unique" in entry else outputs.ItemOutput
        if not item.existing:
            address = self.reverse_action("item", args=[name, item.id], request=None)
            made = _answer(outputs.item(queue, item, kind), once, status.HTTP_201_CREATED)
            made.headers["Location"] = address
            return made
        # Another user may have pushed it: only a user who may view the queue sees what it is.
        shown = kind if may(request.user, VIEW, name) else outputs.ExistingOutput
        return _answer(outputs.item(queue, item, shown), once)

    @action(detail=True, methods=["post"])
    def pop(self, request: Request, name: str) -> Response:
        """Pop items from one end, in one transaction."""
        return self._take(request, name, inputs.PopBody, Queue.pop_many, outputs.ItemOutput)

    @action(detail=True, methods=["post"])
    def lease(self, request: Request, name: str) -> Response:
        """Lease items from one end, in one transaction."""
        output = outputs.LeasedItemOutput
        return self._take(request, name, inputs.LeaseBody, Queue.lease_many, output)

    def pop_from(self, request: Request) -> Response:
        """Pop items of the first of several queues that has any, in one transaction."""
        body, output = inputs.PopFromBody, outputs.ItemOutput
        return self._take_from(request, POP, body, SeveralQueues.pop_many, output)

    def lease_from(self, request: Request) -> Response:
        """Lease items of the first of several queues that has any, in one transaction."""
        body, output = inputs.LeaseFromBody, outputs.LeasedItemOutput
        return self._take_from(request, LEASE, body, SeveralQueues.lease_many, output)

    @action(detail=True, methods=["post"])
    def ack(self, request: Request, name: str) -> Response:
        """Acknowledge one leased item, or many in one transaction: they are removed."""
        one, many = (inputs.AckBody, Queue.ack), (inputs.AckManyBody, Queue.ack_many)
        return self._end(request, name, "acked", one, many)

    @action(detail=True, methods=["post"])
    def nack(self, request: Request, name: str) -> Response:
        """Give up one leased item, or many: they are requeued, or become dead letters."""
        one, many = (inputs.NackBody, Queue.nack), (inputs.NackManyBody, Queue.nack_many)
        return self._end(request, name, "nacked", one, many)

    @action(detail=True, methods=["post"])
    def extend(self, request: Request, name: str) -> Response:
        """Extend one lease, or many: they end the given number of seconds from now."""
        one, many = (inputs.ExtendBody, Queue.extend), (inputs.ExtendManyBody, Queue.extend_many)
        return self._end(request, name, "extended", one, many)

    @action(detail=True)
    def peek(self, request: Request, name: str) -> Response:
        """Show the items that a pop would take, without taking them."""
        asked = requests.query(request, inputs.PeekQuery)
        queue = self._queue(name)
        found = queue.peek_many(asked["limit"], end=asked["end"])
        return Response({"items": outputs.items(queue, found)})

    @action(detail=True)
    def items(self, request: Request, name: str) -> Response:
        """List the items in one state, one page at a time, in order from one end."""
        asked = requests.query(request, inputs.ItemsQuery)
        queue = self._queue(name)
        place = queue, asked["end"], asked["state"]
        after = pagination.item_position(*place, asked.pop("cursor", None))
        page = queue.page(after=after, **asked)
        cursor = pagination.item_cursor(*place, page.cursor)
        return Response({"items": outputs.items(queue, page.items), "cursor": cursor})

    @action(detail=True, url_path="items/(?P<id>[^/]+)")
    def item(self, request: Request, name: str, id: str) -> Response:
        """Show one item, in any state."""
        requests.query(request, inputs.NoParameters)
        queue = self._queue(name)
        return Response(outputs.item(queue, queue.get(id)))

    @item.mapping.delete
    def remove(self, request: Request, name: str, id: str) -> Response:
        """Remove one item for good, in any state."""
        requests.query(request, inputs.NoParameters)
        self._queue(name).remove(id)
        return Response({"removed": 1})

    @action(detail=True, url_path="dead-reasons")
    def dead_reasons(self, request: Request, name: str) -> Response:
        """List the reasons of dead letters with their numbers, the most frequent first."""
        asked = requests.query(request, inputs.ReasonsQuery)
        queue = self._queue(name)
        show = functools.partial(outputs.dead_reasons, queue, limit=asked["limit"])
        return Response(service.run(queue.database, show, read_only=True))

    @action(detail=True, methods=["post"])
    def bury(self, request: Request, name: str) -> Response:
        """Make a ready item a dead letter."""
        asked = requests.checked(inputs.BuryBody, requests.body(request))
        self._queue(name).bury(asked["id"], reason=asked["reason"])
        return Response({"buried": 1})

    @action(detail=True, methods=["post"])
    def redrive(self, request: Request, name: str) -> Response:
        """Requeue dead letters, those of some ids or of a reason, or all; at most ``limit``."""
        asked = requests.checked(inputs.RedriveBody, requests.body(request))
        queue, ids = self._queue(name), asked.pop("ids")
        return self._do_some(
            "redriven",
            asked["limit"],
            lambda done: queue.redrive(ids, on_redriven=done, **asked),
        )

    @action(detail=True, methods=["post"])
    def purge(self, request: Request, name: str) -> Response:
        """Remove items in one state, or dead letters of a reason, for good; at most ``limit``."""
        asked = requests.checked(inputs.PurgeBody, requests.body(request))
        queue = self._queue(name)
        return self._do_some(
            "purged", asked["limit"], lambda done: queue.clear_state(on_removed=done, **asked)
        )

    def _do_some(
        self, done: str, limit: int, work: Callable[[Callable[[int], None]], int]
    ) -> Response:
        """Do work of several transactions; where the time is over, tell how much was done.

        Args:
            done: The key of the number.
            limit: The most that is done.
            work: Does it, and calls its argument with the number of each transaction.
        """
        counts: list[int] = []
        is_late = False
        try:
            work(counts.append)
        except Exception as error:
            is_late = errors.is_late(error) and sum(counts) > 0
            if not is_late:
                raise
        number = sum(counts)
        return Response({done: number, "more": is_late or number >= limit})

    def _take(
        self,
        request: Request,
        name: str,
        body: type[inputs.PopBody],
        take: Callable[..., Sequence[Item]],
        output: type[outputs.ItemOutput],
    ) -> Response:
        """Pop or lease; the fields of the body are the arguments of the queue's method."""
        asked = requests.checked(body, requests.body(request))
        self.held.close()  # the rest of the body is small, and this may wait for long
        once, queue = requests.once(request), self._queue(name, asked["wait"])
        connected = functools.partial(requests.client_is_connected, request)
        found = take(queue, asked.pop("limit"), waits_while=connected, once=once, **asked)
        return _answer({"items": outputs.items(queue, found, output)}, once)

    def _take_from(
        self,
        request: Request,
        permission: str,
        body: type[inputs.PopFromBody | inputs.LeaseFromBody],
        take: Callable[..., Sequence[Item]],
        output: type[outputs.ItemOutput],
    ) -> Response:
        """Pop or lease from several queues; the other fields are the arguments of their method."""
        asked = requests.checked(body, requests.body(request))
        self.held.close()
        once, catalog = requests.once(request), self._begin(asked["wait"])
        names, fair = asked.pop("queues"), asked.pop("fair")
        several = takeable(catalog, request.user, permission, names, fair=fair)
        connected = functools.partial(requests.client_is_connected, request)
        found = take(several, asked.pop("limit"), waits_while=connected, once=once, **asked)
        if not found:
            return _answer({"queue": None, "items": []}, once)
        queue = several.queue_of(found[0])
        items = outputs.items(queue, found, output)
        return _answer({"queue": queue.name, "items": items}, once)

    def _end(self, request: Request, name: str, done: str, one: _Ending, many: _Ending) -> Response:
        """End or extend leases; the fields of the body are the arguments of the queue's method."""
        once, body = requests.once(request), requests.body(request)
        kind, end = many if requests.has(body, "leases") else one
        asked = requests.checked(kind, body)
        queue = self._queue(name)
        found = end(queue, **asked, once=once)
        if isinstance(found, Item):
            return _answer(outputs.item(queue, found, outputs.LeasedItemOutput), once)
        return _answer(results.held(done, found), once)

    def _begin(self, wait_seconds: float = 0) -> Catalog:
        """Start the deadline of the engine, now that all input is read; return the catalog."""
        return deadlines.begin(conf.api().timeout_seconds, wait_seconds)

    def _queue(self, name: str, wait_seconds: float = 0) -> Queue:
        """Start the deadline of the engine, and return a queue."""
        return self._begin(wait_seconds).queue(name)


def _answer(data: Any, once: IdempotencyKey | None, code: int = status.HTTP_200_OK) -> Response:
    """Return the response of a change, and say whether it is a replay."""
    replayed = {"Idempotent-Replayed": "true"} if once is not None and once.replayed else {}
    return Response(data, status=code, headers=replayed)


def _may_view(user: Any) -> Callable[[str], bool]:
    """Return a function that tells whether a user may see a queue."""
    if may_in_general(user, VIEW):
        return lambda _: True
    return functools.partial(may, user, VIEW)


descriptions.load()
