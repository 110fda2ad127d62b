"""The views: each reads its input, makes one call of the service, and shows the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from rest_framework import status
from rest_framework.decorators import action
from rest_framework.exceptions import ParseError, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSet

from fdbqueue import conf, service
from fdbqueue.api import errors, pushing, serializers
from fdbqueue.api.media import StrictJSONParser, StrictJSONRenderer
from fdbqueue.api.permissions import POP, PUSH, VIEW, QueuePermission
from fdbqueue.service import Item, Queue


class QueueViewSet(ViewSet):
    """Queues by name: list them, look into them, push and pop.

    How users authenticate, and throttling, are the host project's; what they may do is
    not: see :mod:`fdbqueue.api.permissions`.
    """

    parser_classes = (StrictJSONParser,)
    renderer_classes = (StrictJSONRenderer,)
    permission_classes = (QueuePermission,)
    required_permissions: ClassVar[Mapping[str, str]] = {
        "list": VIEW,
        "retrieve": VIEW,
        "peek": VIEW,
        "items": VIEW,
        "item": VIEW,
        "metadata": VIEW,  # OPTIONS
        "push": PUSH,
        "pop": POP,
    }
    lookup_field = "name"
    lookup_value_regex = "[^/]+"  # a name that is none gets our 404, not Django's

    def get_exception_handler(self) -> Callable[..., Response | None]:
        """Return ours, whatever ``EXCEPTION_HANDLER`` the host project has."""
        return errors.handle

    def list(self, request: Request) -> Response:
        """Show the queues there are, a page at a time."""
        asked = _query(request, serializers.QueuesQuery)
        queues = conf.catalog().queues(after=asked["after"], limit=asked["limit"] + 1)
        shown = queues[: asked["limit"]]
        following = shown[-1].name if len(queues) > len(shown) else None
        data = serializers.QueueOutput(shown, many=True).data
        return Response({"queues": data, "next": following})

    def retrieve(self, request: Request, name: str) -> Response:
        """Show a queue, and the items at its two ends."""
        _query(request, serializers.NoParameters)
        queue = conf.catalog().queue(name)
        first, last = service.run(queue.database, lambda tr: _ends(queue, tr))
        return Response({**serializers.QueueOutput(queue).data, "first": first, "last": last})

    @action(detail=True, methods=["post"])
    def push(self, request: Request, name: str) -> Response:
        """Push one item, or many in one transaction."""
        queue = conf.catalog().queue(name)
        body = _body(request)
        if isinstance(body, dict) and "items" in body:
            entries = _checked(serializers.PushManyBody, body)["items"]
            data: Any = {"pushed": pushing.push_all(queue, entries)}
        else:
            data = _shown(queue, pushing.push_one(queue, _checked(serializers.PushBody, body)))
        return Response(data, status=status.HTTP_201_CREATED)

    @action(detail=True, methods=["post"])
    def pop(self, request: Request, name: str) -> Response:
        """Take items from one end, in one transaction."""
        queue = conf.catalog().queue(name)
        asked = _checked(serializers.PopBody, _body(request))
        return _response(queue, queue.pop_many(asked["limit"], end=asked["end"]))

    @action(detail=True)
    def peek(self, request: Request, name: str) -> Response:
        """Show the items that a pop would take."""
        queue = conf.catalog().queue(name)
        asked = _query(request, serializers.PeekQuery)
        return _response(queue, queue.peek_many(asked["limit"], end=asked["end"]))

    @action(detail=True)
    def items(self, request: Request, name: str) -> Response:
        """Show a page of the items, in their order from one end."""
        queue = conf.catalog().queue(name)
        asked = _query(request, serializers.ItemsQuery)
        page = queue.page(after=asked.pop("cursor", None), **asked)
        return _response(queue, page.items, cursor=page.cursor)

    @action(detail=True, url_path="items/(?P<item_id>[^/]+)")
    def item(self, request: Request, name: str, item_id: str) -> Response:
        """Show one item."""
        _query(request, serializers.NoParameters)
        queue = conf.catalog().queue(name)
        return Response(_shown(queue, queue.get(item_id)))


def _body(request: Request) -> Any:
    """Return the body of a POST, which takes no query; none at all is an empty object.

    DRF does not read a body without Content-Length: a chunked one is refused, for a pop
    of the default end would be a bad guess.
    """
    _query(request, serializers.NoParameters)
    if request.stream is not None:
        return request.data
    if request.META.get("HTTP_TRANSFER_ENCODING"):
        raise ParseError("A body needs a Content-Length.")
    return {}


def _query(request: Request, kind: type[serializers.Input]) -> dict[str, Any]:
    """Return the checked query."""
    parameters = {}
    for name, values in request.query_params.lists():
        if len(values) > 1:
            raise ValidationError({name: ["It is given more than once."]})
        parameters[name] = values[0]
    return _checked(kind, parameters)


def _checked(kind: type[serializers.Input], data: Any) -> dict[str, Any]:
    checked: dict[str, Any] = kind().run_validation(data)
    return checked


def _ends(queue: Queue, tr: Any) -> tuple[Any, Any]:
    """Return the first and the last item, None where the queue is empty."""
    first = queue.page(end="min", limit=1, tr=tr).items
    last = queue.page(end="max", limit=1, tr=tr).items
    return _shown(queue, *first), _shown(queue, *last)


def _shown(queue: Queue, item: Item | None = None) -> Any:
    if item is None:
        return None
    return serializers.ItemOutput(item, context={"codec": queue.codec.name}).data


def _response(queue: Queue, items: Iterable[Item], **more: Any) -> Response:
    context = {"codec": queue.codec.name}
    shown = serializers.ItemOutput(list(items), many=True, context=context).data
    return Response({"items": shown, **more})
