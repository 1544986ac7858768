"""The gateway passes desired states from the controller to an agent."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from appliance.fleet.agent_port import AgentPort, listen
from appliance.fleet.connections import Controller, SampleClient, Stream
from appliance.fleet.servicer import FleetServicer
from appliance.ipc import frames
from appliance.ipc.frames import Frame, Kind
from appliance.runtime.connection_table import ConnectionLimits
from nodes.protocol import fleet_pb2

TIMEOUT_SECONDS = 120.0
NODE, OTHER = b"a node's 16 byte", b"another of these"


@dataclass
class Connected:
    """A gateway with one stream, and the controller's end of its connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    gateway_writer: asyncio.StreamWriter
    """The gateway's end."""
    reading: asyncio.Task[None]
    """Ends when all frames of the controller are applied and it has closed the connection."""
    messages: AsyncIterator[fleet_pb2.ApplianceMessage]

    async def next_message(self) -> fleet_pb2.ApplianceMessage:
        return await asyncio.wait_for(anext(self.messages), TIMEOUT_SECONDS)

    def send(self, generation: int, node: bytes = NODE) -> None:
        state = fleet_pb2.DesiredState(generation=generation)
        self.writer.write(
            Frame(Kind.DESIRED_STATE, node=node, body=state.SerializeToString()).encode()
        )


@asynccontextmanager
async def connected(heartbeat_seconds: float) -> AsyncIterator[Connected]:
    theirs, ours = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=theirs)
    stream = Stream(NODE, "serial")
    streams = {NODE: stream}
    ends = await asyncio.open_connection(sock=ours)
    controller = Controller(*ends, streams, SampleClient(b""))
    port = AgentPort(listen("127.0.0.1", 0), ConnectionLimits(16, 16, 16))
    messages = FleetServicer(controller, streams, heartbeat_seconds, port)._messages(stream)
    reading = asyncio.create_task(controller.read())
    yield Connected(reader, writer, ends[1], reading, messages)
    writer.close()
    await asyncio.wait_for(reading, TIMEOUT_SECONDS)


def test_stream_asks_once_and_its_first_message_has_the_desired_state() -> None:
    async def run() -> None:
        async with connected(TIMEOUT_SECONDS) as gateway:
            first = asyncio.create_task(gateway.next_message())
            assert await frames.read_frame_async(gateway.reader) == Frame(
                Kind.DESIRED_STATE, node=NODE
            )
            gateway.send(9, OTHER)
            gateway.send(3)
            assert (await first).desired_state.generation == 3
            gateway.send(4)
            assert (await gateway.next_message()).desired_state.generation == 4
            gateway.gateway_writer.close()
            assert await frames.read_frame_async(gateway.reader) is None, "a second request"

    asyncio.run(run())


@pytest.mark.parametrize("generations", [(1, 2), (2, 1)], ids=["higher", "lower"])
def test_agent_gets_only_the_last_of_several_desired_states(generations: tuple[int, int]) -> None:
    """Its generation is lower when the database has lost commits."""

    async def run() -> None:
        async with connected(TIMEOUT_SECONDS) as gateway:
            for generation in generations:
                gateway.send(generation)
            gateway.writer.close()
            await asyncio.wait_for(gateway.reading, TIMEOUT_SECONDS)
            message = await gateway.next_message()
            assert message.desired_state.generation == generations[-1]

    asyncio.run(run())


def test_desired_state_is_in_one_message() -> None:
    async def run() -> None:
        async with connected(0.01) as gateway:
            gateway.send(3)
            while not (await gateway.next_message()).HasField("desired_state"):
                pass  # a heartbeat
            assert not (await gateway.next_message()).HasField("desired_state")

    asyncio.run(run())
