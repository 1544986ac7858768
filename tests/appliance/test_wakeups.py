"""Wake-ups are hints: when every one is lost, nodes learn of their generation all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from appliance.fleet import servicer
from appliance.fleet.models import NodeCertificate
from appliance.fleet.servicer import FleetServicer, Stream
from appliance.inventory import wakeups
from appliance.inventory.models import Node
from appliance.inventory.services import raise_generation
from appliance.writer import fleet_readers, off_loop, write

AddNode = Callable[..., Node]
PATIENCE_SECONDS = 10.0


async def noticed(node: Node, streams: FleetServicer, stream: Stream) -> bool:
    """Whether the stream is told to look after its node's generation rose."""
    comparing = asyncio.create_task(streams.compare())
    try:
        for raised in (False, True):  # the first look tells every stream
            if raised:
                await off_loop(lambda: write(lambda: raise_generation([node.pk])), fleet_readers)
            await asyncio.wait_for(stream.wake.wait(), PATIENCE_SECONDS)
            found, stream.look = stream.look, False
            stream.wake.clear()
        return found and not stream.ended
    finally:
        comparing.cancel()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("lost", [False, True], ids=["hints come", "hints are lost"])
def test_a_stream_looks_when_its_generation_rose(add_node: AddNode, monkeypatch: pytest.MonkeyPatch, lost: bool) -> None:
    node = add_node()
    NodeCertificate.objects.create(serial="s", node=node, purpose="agent", not_after=timezone.now() + timedelta(days=1))
    monkeypatch.setattr(servicer, "COMPARE_SECONDS", 0.05)
    if lost:
        monkeypatch.setattr(wakeups, "hint", lambda node_ids: None)
    streams = FleetServicer()
    stream = streams._streams[node.pk] = Stream(node.pk, "s")
    assert asyncio.run(noticed(node, streams, stream))


@pytest.mark.django_db(transaction=True)
def test_a_stream_whose_certificate_was_revoked_ends(add_node: AddNode, monkeypatch: pytest.MonkeyPatch) -> None:
    node = add_node()
    row = NodeCertificate.objects.create(serial="s", node=node, purpose="agent", not_after=timezone.now() + timedelta(days=1))
    monkeypatch.setattr(servicer, "COMPARE_SECONDS", 0.05)
    streams = FleetServicer()
    stream = streams._streams[node.pk] = Stream(node.pk, "s")

    async def until_ended() -> None:
        comparing = asyncio.create_task(streams.compare())
        while not stream.ended:
            await asyncio.wait_for(stream.wake.wait(), PATIENCE_SECONDS)
            stream.wake.clear()
            if not stream.ended:
                await off_loop(lambda: NodeCertificate.objects.filter(pk=row.pk).update(revoked_at=timezone.now()), fleet_readers)
        comparing.cancel()

    asyncio.run(until_ended())
    assert stream.revoked
