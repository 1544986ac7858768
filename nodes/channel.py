"""The stream to the appliance: mTLS, one at a time, endless retries with jitter, one stop event."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timezone
from pathlib import Path

import grpc
from cryptography import x509

from nodes.checkpoint import write_atomically
from nodes.enrolment import new_key_and_csr, store_certificates
from nodes.protocol import fleet_pb2, fleet_pb2_grpc

log = logging.getLogger(__name__)

FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 0.5, 15.0


def jittered(seconds: float) -> float:
    return seconds * random.uniform(0.8, 1.2)  # noqa: S311 - spreads load, guards nothing


def open_channel(folder: Path, address: str) -> grpc.aio.Channel:
    credentials = grpc.ssl_channel_credentials(
        (folder / "ca.pem").read_bytes(),
        (folder / "agent.key").read_bytes(),
        (folder / "agent.pem").read_bytes(),
    )
    options = [
        ("grpc.keepalive_time_ms", 20_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.enable_http_proxy", 0),
        ("grpc.max_receive_message_length", 16 << 20),
    ]
    return grpc.aio.secure_channel(address, credentials, options)


def renewal_due(folder: Path) -> bool:
    """At two thirds of the certificate's life."""
    certificate = x509.load_pem_x509_certificate((folder / "agent.pem").read_bytes())
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return datetime.now(timezone.utc) > begin + (end - begin) * 2 / 3


async def renew(folder: Path, channel: grpc.aio.Channel) -> None:
    """New keys, new certificates; the old ones serve until both are on disk."""
    agent_key, agent_csr = new_key_and_csr()
    launcher_key, launcher_csr = new_key_and_csr()
    reply = await fleet_pb2_grpc.FleetStub(channel).RenewCertificates(
        fleet_pb2.RenewRequest(agent_csr=agent_csr, launcher_csr=launcher_csr), timeout=30
    )
    write_atomically(folder / "agent.key", agent_key)
    write_atomically(folder / "launcher.key", launcher_key)
    store_certificates(
        folder,
        {"ca_pem": reply.ca_pem, "agent_pem": reply.agent_pem, "launcher_pem": reply.launcher_pem},
    )
    log.info("certificates renewed")


class Outbox:
    """Messages for the appliance, numbered. Only the newest matter, so a reconnect starts with an empty one."""

    def __init__(self, boot_id: str) -> None:
        self._boot_id = boot_id
        self._sequence = 0
        self._queue: asyncio.Queue[fleet_pb2.AgentMessage] = asyncio.Queue(64)

    def put(self, message: fleet_pb2.AgentMessage) -> None:
        self._sequence += 1
        message.boot_id, message.sequence = self._boot_id, self._sequence
        if self._queue.full():
            self._queue.get_nowait()
        self._queue.put_nowait(message)

    def clear(self) -> None:
        while not self._queue.empty():
            self._queue.get_nowait()

    async def messages(self) -> AsyncIterator[fleet_pb2.AgentMessage]:
        while True:
            yield await self._queue.get()


def retry_delays() -> Iterator[float]:
    """0.5 s, doubling to 15 s."""
    delay = FIRST_RETRY_SECONDS
    while True:
        yield jittered(delay)
        delay = min(delay * 2, LAST_RETRY_SECONDS)
