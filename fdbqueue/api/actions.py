"""Declare the actions of the API: each is one method of the viewset, with all its facts.

    @Action(
        "POST",
        "Resume a queue",
        MANAGE,
        body=inputs.ResumeBody,
        answer=outputs.ResumedOutput,
        examples={"Always": {}},
    )
    def resume(self, _asked: Asked, name: str) -> Any:
        ...  # the docstring: what the schema says of it
        return {"resumed": self._queue(name).resume()}

From this alone follow the address and its route (``urls.py``), the permission that is asked for
(:class:`QueuePermission`), the rate that counts (``throttling.py``), the check of the body or the
query, and the operation of the schema (``schema.py``).

The method is called with the checked fields of the body or the query, by their names, and with the
parts of the address. It returns the JSON, or a response if its status is not 200. An action that
takes an ``Idempotency-Key`` has that among the fields, as ``once``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rest_framework.decorators import action
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer

from fdbqueue.access import may, may_some, refusal
from fdbqueue.api import requests
from fdbqueue.api.inputs import Input, NoParameters

#: The shape of an answer, or those that it may have.
Shapes = type[Serializer[Any]] | tuple[type[Serializer[Any]], ...]
#: What a router gives an address of its own.
_OF_ROUTERS = frozenset({"list", "retrieve"})


@dataclass(kw_only=True)
class Action:
    """What is declared of an action; it decorates the action's method.

    Attributes:
        method: GET, POST or DELETE.
        summary: What it does, in a few words.
        permission: What the user needs.
        answer: What it returns; its class has an example.
        found: What it returns with status 200 if it finds what it was to make; otherwise it makes
            that, with status 201. None for all others, which have the status 200.
        body: Its body.
        many: Its body for many items, which a key of its own tells from the other body.
        examples: Examples of its body, by what they do.
        query: Its query.
        is_keyed: Whether it takes an idempotency key.
        conflicts: Whether it may be 409 though it takes no idempotency key.
        path: The pattern of the last part of its address, if it is not the method's name.
        name: The name of the method.
        places: The parts of the address that the method takes: none, a queue's ``name``, or that
            and an item's ``id``.
    """

    method: Literal["GET", "POST", "DELETE"] = field(kw_only=False)
    summary: str = field(kw_only=False)
    permission: str = field(kw_only=False)
    answer: Shapes
    found: Shapes | None = None
    body: type[Input] | None = None
    many: type[Input] | None = None
    examples: Mapping[str, Any] = field(default_factory=dict)
    query: type[Input] = NoParameters
    is_keyed: bool = False
    conflicts: bool = False
    path: str = ""
    name: str = field(init=False)
    places: tuple[str, ...] = field(init=False)
    _only_many: frozenset[str] = field(init=False, repr=False, default=frozenset())

    def __call__(self, serve: Callable[..., Any]) -> Any:
        """Return the method as Django REST framework calls it."""
        self.name = serve.__name__
        self.path = self.path or self.name.replace("_", "-")
        parameters = inspect.signature(serve).parameters
        self.places = tuple(one for one in ("name", "id") if one in parameters)
        if self.many is not None and self.body is not None:
            one, many = self.body._declared_fields, self.many._declared_fields  # noqa: SLF001  # instances would copy them
            self._only_many = frozenset(many.keys() - one.keys())

        @functools.wraps(serve)
        def respond(view: Any, request: Request, **place: str) -> Response:
            asked = self._read(request)
            once = asked.get("once")
            found = serve(view, asked, **place)
            response = found if isinstance(found, Response) else Response(found)
            if once is not None and once.replayed:
                response.headers["Idempotent-Replayed"] = "true"
            return response

        respond.declared = self  # type: ignore[attr-defined]  # `declaration` finds it there
        if self.names_queues or self.name in _OF_ROUTERS or self.method == "DELETE":
            return respond
        return action(detail=True, methods=[self.method], url_path=self.path)(respond)

    @property
    def names_queues(self) -> bool:
        """Whether its body names the queues, so that it checks the permission of each itself."""
        return self.body is not None and not self.places

    def _read(self, request: Request) -> dict[str, Any]:
        """Return the checked fields of a request's body or query, and its idempotency key.

        Raises:
            APIException: Something is wrong with it.
        """
        if self.body is None:
            return requests.query(request, self.query)
        once = {"once": requests.once(request)} if self.is_keyed else {}
        data, kind = requests.body(request), self.body
        if self.many is not None and isinstance(data, dict) and self._only_many & data.keys():
            kind = self.many
        return {**requests.checked(kind, data), **once}


def declaration(view: Any, name: str | None) -> Action | None:
    """Return what is declared of an action of a view, None if there is no such action."""
    return getattr(getattr(view, name or "", None), "declared", None)


def declarations(viewset: Any) -> Iterator[Action]:
    """Yield what is declared in a class, in its order."""
    for one in vars(viewset).values():
        if hasattr(one, "declared"):
            yield one.declared


class QueuePermission(BasePermission):
    """Allow an action to users who have its permission; :mod:`fdbqueue.access` decides.

    An action that declares none is refused. OPTIONS needs the permission of the address. An action
    whose body names the queues is allowed to users who may have the permission for some queue: it
    checks the permission of each. Whether a queue exists is not checked here.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        """Tell whether the user may use the action."""
        user = request.user
        if not user or not user.is_authenticated:
            return False
        if view.action is None:  # no such method here: the answer will be 405
            return True
        one = view.purpose
        if one is None:
            return False
        name = view.kwargs.get(view.lookup_field)
        if one.names_queues:
            is_allowed = view.action == "metadata" or may_some(user, one.permission)
        else:
            is_allowed = may(user, one.permission, name)
        if not is_allowed:  # what DRF puts into the response
            every = "any queue" if one.names_queues else "all queues"
            place = (every,) if name is None else ("this queue", [name])
            self.message = refusal(user, one.permission, *place)
        return is_allowed
