"""Async views that work with a queue, and their addresses."""

from __future__ import annotations

import json

from django.http import HttpRequest, JsonResponse
from django.urls import path

import fdbqueue

#: What a block was left by, request by request.
left_by: list[str] = []


async def push(request: HttpRequest) -> JsonResponse:
    """Push the body."""
    item = await fdbqueue.queue("mail").apush(json.loads(request.body))
    return JsonResponse({"id": item.id}, status=201)


async def pop(request: HttpRequest) -> JsonResponse:
    """Take an item, and wait for one."""
    item = await fdbqueue.queue("mail").apop(wait=float(request.GET["wait"]))
    return JsonResponse({"value": item and item.value})


async def work(request: HttpRequest) -> JsonResponse:
    """Lease an item, and wait within the block until the client goes."""
    async with fdbqueue.queue("mail").aleased(wait=60) as item:
        try:
            await fdbqueue.queue("orders").apop(wait=60)
        except BaseException as error:
            left_by.append(type(error).__name__)
            raise
    return JsonResponse({"value": item and item.value})


async def everything(request: HttpRequest) -> JsonResponse:
    """Show all that is there."""
    queue = fdbqueue.queue("mail")
    return JsonResponse({"values": [i.value async for i in queue], "size": await queue.asize()})


urlpatterns = [
    path("push/", push),
    path("pop/", pop),
    path("toil/", work),
    path("everything/", everything),
]
