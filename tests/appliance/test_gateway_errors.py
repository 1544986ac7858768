"""Error replies of the controller to the gateway: no inventory is lost."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from appliance.fleet.agent_port import AgentPort, listen
from appliance.fleet.connections import Controller, SampleClient, Stream
from appliance.fleet.servicer import FleetServicer
from appliance.ipc import frames
from appliance.ipc.frames import Frame, Kind
from appliance.runtime.connection_table import ConnectionLimits
from nodes.protocol import fleet_pb2

TIMEOUT_SECONDS = 120.0


def unused_port() -> AgentPort:
    return AgentPort(listen("127.0.0.1", 0), ConnectionLimits(16, 16, 16))


async def stream_ends(error: bytes) -> bool:
    """Return whether a node's stream ends when its inventory gets this error reply."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    controller_reader, controller_writer = await asyncio.open_connection(sock=theirs)
    controller = Controller(reader, writer, {}, SampleClient(b""))
    replies = asyncio.create_task(controller.read())
    processed = asyncio.Event()

    async def messages() -> AsyncIterator[fleet_pb2.AgentMessage]:
        yield fleet_pb2.AgentMessage(boot_id="b", sequence=1, inventory=fleet_pb2.Inventory())
        processed.set()
        await asyncio.Event().wait()

    stream = Stream(bytes(16), "serial")
    reading = asyncio.create_task(
        FleetServicer(controller, {}, 1.0, unused_port())._read(stream, messages())
    )
    request = await frames.read_frame_async(controller_reader)
    assert request is not None and request.kind is Kind.INVENTORY
    controller_writer.write(Frame(Kind.ERROR, request.call, body=error).encode())
    await asyncio.wait(
        [reading, asyncio.create_task(processed.wait())],
        return_when=asyncio.FIRST_COMPLETED,
        timeout=TIMEOUT_SECONDS,
    )
    ended, dropped = stream.ended, processed.is_set()
    assert ended != dropped
    for task in (reading, replies):
        task.cancel()
    writer.close()
    controller_writer.close()
    return ended


@pytest.mark.parametrize(
    "error",
    [b"internal The request failed.", b"busy Too many pending changes."],
)
def test_temporary_error_ends_the_stream_so_that_the_inventory_is_sent_again(error: bytes) -> None:
    assert asyncio.run(stream_ends(error))


def test_inventory_that_the_controller_refuses_ends_the_stream() -> None:
    assert asyncio.run(stream_ends(b"invalid A GPU has no id."))
