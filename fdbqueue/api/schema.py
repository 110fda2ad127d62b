"""The OpenAPI schema, if the project has installed drf-spectacular.

What the schema says beyond the serializers is here, so the API itself does not need that package.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from drf_spectacular.extensions import OpenApiViewExtension
from drf_spectacular.utils import (
    PolymorphicProxySerializer,
    extend_schema_serializer,
    extend_schema_view,
)

from fdbqueue.api import inputs, outputs, results
from fdbqueue.api.schema_answers import ID, NAME, changes, reads, removes

importlib.import_module("fdbqueue.api.schema_fields")  # its classes register themselves
extend_schema_serializer(many=False)(outputs.QueuePageOutput)

_PUSH = PolymorphicProxySerializer(
    component_name="Push",
    serializers=[inputs.PushBody, inputs.PushManyBody],
    resource_type_field_name=None,
)
_PUSHED = PolymorphicProxySerializer(
    component_name="Pushed",
    serializers=[outputs.PushedItemOutput, results.PushedOutput],
    resource_type_field_name=None,
)
_EXISTING = PolymorphicProxySerializer(
    component_name="Existing",
    serializers=[outputs.PushedItemOutput, outputs.ExistingOutput],
    resource_type_field_name=None,
)
_ACK = PolymorphicProxySerializer(
    component_name="Ack",
    serializers=[inputs.AckBody, inputs.AckManyBody],
    resource_type_field_name=None,
)
_NACK = PolymorphicProxySerializer(
    component_name="Nack",
    serializers=[inputs.NackBody, inputs.NackManyBody],
    resource_type_field_name=None,
)
_EXTEND = PolymorphicProxySerializer(
    component_name="Extend",
    serializers=[inputs.ExtendBody, inputs.ExtendManyBody],
    resource_type_field_name=None,
)
_EXTENDED = PolymorphicProxySerializer(
    component_name="Extended",
    serializers=[outputs.LeasedItemOutput, results.ExtendedOutput],
    resource_type_field_name=None,
)


def _copied(method: Any) -> Any:
    """Return a copy of a method, so that its description does not become the method's own."""

    @functools.wraps(method)
    def copied(*args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs)

    return copied


def _seen(method: Any) -> Any:
    """Return a method that no router routes, as one that drf-spectacular describes all the same."""
    seen = _copied(method)
    seen.mapping = {}  # what it tells actions by
    return seen


class QueueViewSetSchema(OpenApiViewExtension):
    """The schema of the viewset."""

    target_class = "fdbqueue.api.viewsets.QueueViewSet"

    def view_replacement(self) -> Any:
        """Return the viewset with its descriptions."""
        viewset: Any = self.target_class
        routed = {name: _seen(getattr(viewset, name)) for name in viewset.named_in_body}
        # extend_schema_view knows no method that shares its address with another.
        describe = removes("queues_remove", results.RemovedOutput)
        routed["remove"] = describe(_copied(viewset.remove))
        documented = type("QueueViewSet", (viewset,), {"__doc__": viewset.__doc__, **routed})
        return extend_schema_view(
            list=reads("queues_list", outputs.QueuePageOutput, parameters=[inputs.QueuesQuery]),
            retrieve=reads("queues_retrieve", outputs.QueueDetailOutput, 404, parameters=[NAME]),
            pause=changes("queues_pause", inputs.PauseBody, outputs.PausedOutput, keyed=False),
            resume=changes("queues_resume", inputs.ResumeBody, results.ResumedOutput, keyed=False),
            peek=reads(
                "queues_peek",
                outputs.ItemsOutput,
                404,
                409,
                parameters=[NAME, inputs.PeekQuery],
            ),
            items=reads(
                "queues_items",
                outputs.ItemPageOutput,
                404,
                parameters=[NAME, inputs.ItemsQuery],
            ),
            item=reads("queues_item", outputs.ItemOutput, 404, parameters=[NAME, ID]),
            push=changes("queues_push", _PUSH, _PUSHED, existing=_EXISTING),
            pop=changes("queues_pop", inputs.PopBody, outputs.ItemsOutput),
            lease=changes("queues_lease", inputs.LeaseBody, outputs.LeasedItemsOutput),
            pop_from=changes(
                "queues_pop_from", inputs.PopFromBody, outputs.PoppedFromOutput, is_named=False
            ),
            lease_from=changes(
                "queues_lease_from", inputs.LeaseFromBody, outputs.LeasedFromOutput, is_named=False
            ),
            ack=changes("queues_ack", _ACK, results.AckedOutput),
            nack=changes("queues_nack", _NACK, results.NackedOutput),
            extend=changes("queues_extend", _EXTEND, _EXTENDED),
            dead_reasons=reads(
                "queues_dead_reasons",
                outputs.DeadReasonsOutput,
                404,
                parameters=[NAME, inputs.ReasonsQuery],
            ),
            bury=changes("queues_bury", inputs.BuryBody, results.BuriedOutput, keyed=False),
            redrive=changes(
                "queues_redrive", inputs.RedriveBody, results.RedrivenOutput, keyed=False
            ),
            purge=changes("queues_purge", inputs.PurgeBody, results.PurgedOutput, keyed=False),
        )(documented)
