"""The agent of a simulated node: the real protocol and certificates, without a machine."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import grpc

from nodes.channel import Outbox, RetryDelays
from nodes.protocol import fleet_pb2, fleet_pb2_grpc

CHANNEL_OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
"""Without a pool of its own, agents of one process would share one connection."""


class SimulatedAgent:
    """One node's stream to the appliance. Subclasses say what it reports.

    All methods run on the event loop.
    """

    def __init__(self, boot_id: str, address: str) -> None:
        self.address = address
        self.outbox = Outbox(boot_id)
        self.retry_delays = RetryDelays()
        self.online = False
        """The appliance has answered on the current stream."""

    def credentials(self) -> grpc.ChannelCredentials:
        raise NotImplementedError

    def inventory(self) -> fleet_pb2.Inventory:
        raise NotImplementedError

    def apply(self, state: fleet_pb2.DesiredState) -> None:
        """Take over the desired state, before it is reported as applied."""

    def report(self, generation: int) -> fleet_pb2.Report:
        """Return the report after a desired state was applied."""
        return fleet_pb2.Report(generation=generation)

    def put(self, **body: Any) -> int:
        """Send a message with this body, and return its number."""
        return self.outbox.put(fleet_pb2.AgentMessage(**body))

    def received(self, message: fleet_pb2.ApplianceMessage) -> None:
        """Note a message of the appliance, after its desired state."""

    def disconnected(self) -> None:
        """Note the end of a stream, before the next attempt."""

    async def run(self) -> None:
        """Keep a stream to the appliance until cancelled."""
        while True:
            with contextlib.suppress(grpc.aio.AioRpcError):
                await self.communicate()
            self.online = False
            self.disconnected()
            await asyncio.sleep(self.retry_delays.next())

    async def communicate(self) -> None:
        """Connect and exchange messages until the stream ends."""
        async with grpc.aio.secure_channel(
            self.address, self.credentials(), CHANNEL_OPTIONS
        ) as channel:
            self.outbox.clear()
            self.put(inventory=self.inventory())
            stream = fleet_pb2_grpc.FleetStub(channel).Connect(self.outbox.messages())
            async for message in stream:
                self.online = True
                self.retry_delays.received()
                if message.HasField("desired_state"):
                    self.apply(message.desired_state)
                    self.put(report=self.report(message.desired_state.generation))
                self.received(message)
