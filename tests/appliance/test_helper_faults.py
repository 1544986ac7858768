"""What the gateway does when the other end refuses: nothing a node said is lost."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from appliance import pipe
from appliance.fleet.gateway import Appliance, FleetServicer, Readings, Stream
from appliance.pipe import Frame, Kind
from nodes.protocol import fleet_pb2

PATIENCE_SECONDS = 20.0


async def reading_ends(refusal: bytes) -> bool:
    """Whether a node's stream ends when its inventory is refused so."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    appliance_reader, appliance_writer = await asyncio.open_connection(sock=theirs)
    gateway = Appliance(reader, writer, {}, Readings(b""))
    listening = asyncio.create_task(gateway.listen())
    held = asyncio.Event()

    async def said() -> AsyncIterator[fleet_pb2.AgentMessage]:
        yield fleet_pb2.AgentMessage(boot_id="b", sequence=1, inventory=fleet_pb2.Inventory())
        held.set()
        await asyncio.Event().wait()

    stream = Stream(bytes(16), "serial")
    reading = asyncio.create_task(FleetServicer(gateway, {}, 1.0)._read(stream, said()))
    question = await pipe.read_async(appliance_reader)
    assert question is not None and question.kind is Kind.INVENTORY
    appliance_writer.write(Frame(Kind.REFUSED, question.call, body=refusal).packed())
    await asyncio.wait(
        [reading, asyncio.create_task(held.wait())],
        return_when=asyncio.FIRST_COMPLETED,
        timeout=PATIENCE_SECONDS,
    )
    ended, refused_only = stream.ended, held.is_set()
    assert ended != refused_only
    for task in (reading, listening):
        task.cancel()
    writer.close()
    appliance_writer.close()
    return ended


@pytest.mark.parametrize(
    "refusal",
    [b"internal It failed here; the appliance's log says why.", b"busy Too many changes wait."],
)
def test_an_inventory_that_the_appliance_could_not_take_is_said_again(refusal: bytes) -> None:
    assert asyncio.run(reading_ends(refusal))


def test_an_inventory_that_is_wrong_does_not_end_the_stream() -> None:
    assert not asyncio.run(reading_ends(b"invalid A GPU has no id."))
