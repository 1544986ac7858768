"""Connection to the appliance: mutual TLS, outgoing messages and retries."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator

import grpc

from nodes.credentials import Credentials
from nodes.protocol import fleet_pb2

MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.5, 15.0
STABLE_SECONDS = MAX_RETRY_SECONDS
"""A connection that worked so long ends the growth of the delays."""
OUTBOX_SIZE = 64


def with_jitter(seconds: float) -> float:
    """Return 80 to 120 % of the time, to spread the load of many agents."""
    return seconds * random.uniform(0.8, 1.2)  # noqa: S311 - not used for security


def open_channel(credentials: Credentials, address: str) -> grpc.aio.Channel:
    tls = grpc.ssl_channel_credentials(
        credentials.ca_pem.encode(), credentials.agent_key, credentials.agent_pem.encode()
    )
    options = [
        ("grpc.keepalive_time_ms", 20_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.enable_http_proxy", 0),
        ("grpc.max_receive_message_length", 16 << 20),
    ]
    return grpc.aio.secure_channel(address, tls, options)


class Outbox:
    """Numbered messages for the appliance. When it is full, the oldest message is dropped."""

    def __init__(self, boot_id: str) -> None:
        self._boot_id = boot_id
        self._sequence = 0
        self._queue: asyncio.Queue[fleet_pb2.AgentMessage] = asyncio.Queue(OUTBOX_SIZE)

    def put(self, message: fleet_pb2.AgentMessage) -> int:
        """Add a message and return its number."""
        self._sequence += 1
        message.boot_id, message.sequence = self._boot_id, self._sequence
        if self._queue.full():
            self._queue.get_nowait()
        self._queue.put_nowait(message)
        return self._sequence

    def clear(self) -> None:
        """Drop all messages. A new connection starts with the current state instead."""
        while not self._queue.empty():
            self._queue.get_nowait()

    async def messages(self) -> AsyncIterator[fleet_pb2.AgentMessage]:
        while True:
            yield await self._queue.get()


class RetryDelays:
    """Delays between attempts to connect, in seconds: they double, and each has jitter.

    They start again after a connection that worked for a while. One that ends at once, because the
    appliance refuses what this node sends, does not count.
    """

    def __init__(
        self, shortest: float = MIN_RETRY_SECONDS, longest: float = MAX_RETRY_SECONDS
    ) -> None:
        self._shortest, self._longest = shortest, longest
        self._delay = shortest
        self._working_since: float | None = None

    def received(self) -> None:
        """Note a message of the appliance."""
        if self._working_since is None:
            self._working_since = time.monotonic()

    def next(self) -> float:
        """Return the delay after the end of a connection or attempt, in seconds."""
        since, self._working_since = self._working_since, None
        if since is not None and time.monotonic() - since >= STABLE_SECONDS:
            self._delay = self._shortest
        delay, self._delay = self._delay, min(self._delay * 2, self._longest)
        return with_jitter(delay)
