"""The views: each reads its input, makes one call of the service, and shows the result."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from django.db import transaction
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSet

from fdbqueue import conf, deadlines, service
from fdbqueue.access import LEASE, POP, PUSH, VIEW, may, may_in_general, visible
from fdbqueue.api import cycles, errors, inputs, outputs, pagination, parsing
from fdbqueue.api.connections import is_open
from fdbqueue.api.media import Negotiation, StrictJSONParser, StrictJSONRenderer
from fdbqueue.api.permissions import QueuePermission
from fdbqueue.api.throttling import QueueThrottle
from fdbqueue.api.values import from_json, pushes_of
from fdbqueue.service import Catalog, Item, Once, Queue
from fdbqueue.service.overview import counts_of

#: What is read of a body, and the service's method that it has the arguments of.
_Ending = tuple[type[inputs.Input], Callable[..., Any]]


class NoSuchAddress(APIView):
    """Answers at addresses below the API's that are none, whatever the method.

    Without it Django would redirect those that lack the last slash, and a client that follows
    would send a request without a body. A GET is not redirected either: an address has one form,
    with every method and whatever ``APPEND_SLASH`` says.
    """

    authentication_classes = ()
    permission_classes = ()
    throttle_classes = ()
    parser_classes = ()
    renderer_classes = (StrictJSONRenderer,)
    versioning_class = None
    schema = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002  # DRF's signature
        """Refuse the request before anything is done with it.

        Raises:
            AddressNotFound: Always.
        """
        raise errors.AddressNotFound

    def get_exception_handler(self) -> Callable[..., Response | None]:
        """Return the API's own, whatever ``EXCEPTION_HANDLER`` the host project has."""
        return errors.handle

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the response, not to be kept by anything in between."""
        final = super().finalize_response(request, response, *args, **kwargs)
        final.headers.setdefault("Cache-Control", "no-store")
        return final


class QueueViewSet(ViewSet):
    """Queues by name: list them, look into them, push, pop, lease.

    How users authenticate is the host project's; what they may do is not: see
    :mod:`fdbqueue.access`.
    """

    parser_classes = (StrictJSONParser,)
    renderer_classes = (StrictJSONRenderer,)
    content_negotiation_class = Negotiation
    versioning_class = None
    permission_classes = (QueuePermission,)
    required_permissions: ClassVar[Mapping[str, str]] = {
        "list": VIEW,
        "retrieve": VIEW,
        "peek": VIEW,
        "items": VIEW,
        "item": VIEW,
        "push": PUSH,
        "pop": POP,
        "lease": LEASE,
        "ack": LEASE,
        "nack": LEASE,
        "extend": LEASE,
    }
    lookup_field = "name"
    lookup_value_regex = "[^/]+"  # a name that is none gets our 404, not Django's

    @classmethod
    def as_view(cls, actions: Any = None, **initkwargs: Any) -> Any:
        """Return the view; with ATOMIC_REQUESTS a wait must not hold a transaction of SQL."""
        return transaction.non_atomic_requests(super().as_view(actions, **initkwargs))

    @property
    def purpose(self) -> str:
        """The action that is asked for; for OPTIONS, the one that the address is there for."""
        asks_what_it_is = self.action == "metadata"
        return next(iter(self.action_map.values())) if asks_what_it_is else self.action

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Answer a request, and let go of it: of its room, its body, and of all it refers to."""
        with cycles.forgotten(self), contextlib.ExitStack() as self.held:
            return super().dispatch(request, *args, **kwargs)

    def initialize_request(self, request: Any, *args: Any, **kwargs: Any) -> Request:
        """Return DRF's request, which holds neither the view nor itself."""
        return cycles.cut_request(super().initialize_request(request, *args, **kwargs))

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Do what comes before the action; nothing that reads the body comes before the checks."""
        parsing.check_address(request)
        parsing.check_length(request)
        if self.action is not None:
            parsing.check_media(request)
        request.parser_context["held"] = self.held
        super().initial(request, *args, **kwargs)

    def get_exception_handler(self) -> Callable[..., Response | None]:
        """Return ours, whatever ``EXCEPTION_HANDLER`` the host project has."""
        return errors.handle

    def get_throttles(self) -> list[BaseThrottle]:
        """Return the host project's, and ours."""
        return [*super().get_throttles(), QueueThrottle()]

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the response, not to be kept by anything in between: it was of that moment."""
        final = super().finalize_response(request, response, *args, **kwargs)
        final.headers.setdefault("Cache-Control", "no-store")
        return cycles.cut_response(final)

    def list(self, request: Request) -> Response:
        """Show the queues that the user may see, a page at a time; a page may be short."""
        asked = parsing.query(request, inputs.QueuesQuery)
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
        count = functools.partial(counts_of, queues=queues)
        found = service.run(catalog.database, count, read_only=True)
        rows = [outputs.queue_row(*row) for row in zip(queues, found, strict=True)]
        return Response({"queues": rows, "cursor": pagination.queue_cursor(following)})

    def retrieve(self, request: Request, name: str) -> Response:
        """Show a queue, and the items at its two ends."""
        parsing.query(request, inputs.NoParameters)
        queue = self._queue(name)
        show = functools.partial(outputs.queue_detail, queue)
        return Response(service.run(queue.database, show, read_only=True))

    @action(detail=True, methods=["post"])
    def push(self, request: Request, name: str) -> Response:
        """Push one item, or many in one transaction."""
        once, body = parsing.once(request), parsing.body(request)
        if parsing.has(body, "items"):
            entries = parsing.checked(inputs.PushManyBody, body)["items"]
            queue = self._queue(name)
            pushed = queue.push_batch(pushes_of(queue, entries), once=once)
            shown: Any = {"pushed": len(pushed), "ids": [item.id for item in pushed]}
        else:
            entry = parsing.checked(inputs.PushBody, body)
            queue = self._queue(name)
            value = from_json(entry.pop("value"), queue)
            shown = outputs.item(queue, queue.push(value, **entry, once=once))
        return _answer(shown, once, status.HTTP_201_CREATED)

    @action(detail=True, methods=["post"])
    def pop(self, request: Request, name: str) -> Response:
        """Take items from one end, in one transaction."""
        return self._take(request, name, inputs.PopBody, Queue.pop_many, outputs.ItemOutput)

    @action(detail=True, methods=["post"])
    def lease(self, request: Request, name: str) -> Response:
        """Lease items from one end, in one transaction."""
        output = outputs.LeasedItemOutput
        return self._take(request, name, inputs.LeaseBody, Queue.lease_many, output)

    @action(detail=True, methods=["post"])
    def ack(self, request: Request, name: str) -> Response:
        """Remove one leased item for good, or many in one transaction."""
        one, many = (inputs.AckBody, Queue.ack), (inputs.AckManyBody, Queue.ack_many)
        return self._end(request, name, "acked", one, many)

    @action(detail=True, methods=["post"])
    def nack(self, request: Request, name: str) -> Response:
        """Give up one leased item, or many: back to their places, or to the dead letters."""
        one, many = (inputs.NackBody, Queue.nack), (inputs.NackManyBody, Queue.nack_many)
        return self._end(request, name, "nacked", one, many)

    @action(detail=True, methods=["post"])
    def extend(self, request: Request, name: str) -> Response:
        """Extend one lease, or many, to end the given number of seconds from now."""
        one, many = (inputs.ExtendBody, Queue.extend), (inputs.ExtendManyBody, Queue.extend_many)
        return self._end(request, name, "extended", one, many)

    @action(detail=True)
    def peek(self, request: Request, name: str) -> Response:
        """Show the items that a pop would take."""
        asked = parsing.query(request, inputs.PeekQuery)
        queue = self._queue(name)
        found = queue.peek_many(asked["limit"], end=asked["end"])
        return Response({"items": outputs.items(queue, found)})

    @action(detail=True)
    def items(self, request: Request, name: str) -> Response:
        """Show a page of the items, in their order from one end."""
        asked = parsing.query(request, inputs.ItemsQuery)
        queue = self._queue(name)
        place = queue, asked["end"], asked["state"]
        after = pagination.item_position(*place, asked.pop("cursor", None))
        page = queue.page(after=after, **asked)
        cursor = pagination.item_cursor(*place, page.cursor)
        return Response({"items": outputs.items(queue, page.items), "cursor": cursor})

    @action(detail=True, url_path="items/(?P<id>[^/]+)")
    def item(self, request: Request, name: str, id: str) -> Response:
        """Show one item, in whatever state it is."""
        parsing.query(request, inputs.NoParameters)
        queue = self._queue(name)
        return Response(outputs.item(queue, queue.get(id)))

    def _take(
        self,
        request: Request,
        name: str,
        body: type[inputs.PopBody],
        take: Callable[..., Sequence[Item]],
        output: type[outputs.ItemOutput],
    ) -> Response:
        """Pop or lease: what the body asks for are the arguments of the service's method."""
        asked = parsing.checked(body, parsing.body(request))
        self.held.close()  # what is left of the body is small, and this may wait for long
        once, queue = parsing.once(request), self._queue(name, asked["wait"])
        still = functools.partial(is_open, request)
        found = take(queue, asked.pop("limit"), waits_while=still, once=once, **asked)
        return _answer({"items": outputs.items(queue, found, output)}, once)

    def _end(self, request: Request, name: str, done: str, one: _Ending, many: _Ending) -> Response:
        """End one lease or many: what the body says are the arguments of the service's method."""
        once, body = parsing.once(request), parsing.body(request)
        kind, end = many if parsing.has(body, "leases") else one
        asked = parsing.checked(kind, body)
        queue = self._queue(name)
        found = end(queue, **asked, once=once)
        if isinstance(found, Item):
            return _answer(outputs.item(queue, found, outputs.LeasedItemOutput), once)
        return _answer(outputs.held(done, found), once)

    def _begin(self, wait_seconds: float = 0) -> Catalog:
        """Begin the time that the engine has, all input being read, and return the queues."""
        return deadlines.begin(conf.api().timeout_seconds, wait_seconds)

    def _queue(self, name: str, wait_seconds: float = 0) -> Queue:
        """Begin the time that the engine has, and return a queue."""
        return self._begin(wait_seconds).queue(name)


def _answer(data: Any, once: Once | None, code: int = status.HTTP_200_OK) -> Response:
    """Return the answer to what has an effect, and say whether it had that before."""
    replayed = {"Idempotent-Replayed": "true"} if once is not None and once.replayed else {}
    return Response(data, status=code, headers=replayed)


def _may_view(user: Any) -> Callable[[str], bool]:
    """Return what tells whether a user may know of a queue."""
    if may_in_general(user, VIEW):
        return lambda _: True
    return functools.partial(may, user, VIEW)
