"""The latest connection of a node to the gateway."""

from __future__ import annotations

import asyncio

import grpc

from nodes.protocol import fleet_pb2


class Stream:
    """The latest connection of a node."""

    def __init__(self, node: bytes, serial: str) -> None:
        self.node, self.serial = node, serial
        self.wake = asyncio.Event()
        self.ended = False
        self.error: tuple[grpc.StatusCode, str] | None = None
        """Status that the agent gets."""
        self.state: fleet_pb2.DesiredState | None = None
        """The newest desired state, until it is sent to the agent."""
        self.boot_id = ""
        self.last_sequence = -1
        self.stored_sequence = self.acknowledged = 0
        self.last_report = b""

    async def wait(self, seconds: float) -> None:
        """Wait for a wake-up or a timeout, without the extra task of asyncio.wait_for()."""
        timer = asyncio.get_running_loop().call_later(seconds, self.wake.set)
        try:
            await self.wake.wait()
        finally:
            timer.cancel()

    def end(self, error: tuple[grpc.StatusCode, str] | None = None) -> None:
        self.ended, self.error = True, self.error or error
        self.wake.set()
