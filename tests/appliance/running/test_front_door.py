"""Silent connections and old TLS versions at the ports of a running appliance."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import ssl
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from appliance.fleet.certificates import load_authority, sign_node_certificate
from nodes.enrolment import new_key_and_csr
from tests.appliance.appliance_process import ApplianceProcess

SILENT_CONNECTIONS = 970
"""Nearly all descriptors of a process with the usual limit of 1,024."""


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("says_hello", [False, True], ids=["nothing sent", "handshake begun"])
def test_rest_is_available_beside_silent_connections(
    appliance: ApplianceProcess, token: str, many_descriptors: None, says_hello: bool
) -> None:
    headers = {"Authorization": f"Bearer {token}"}

    async def use_rest() -> None:
        for _ in range(20):
            client = appliance.client()
            status = await client.request("GET", "/api/v1/appliance", headers=headers)
            assert status["descriptors"] < status["descriptor_limit"] > 4096
            for _, writer in client.idle:
                writer.close()

    with ExitStack() as connections:
        for _ in range(SILENT_CONNECTIONS):
            silent = connections.enter_context(
                socket.create_connection(("127.0.0.1", appliance.https_port), 60)
            )
            if says_hello:
                silent.sendall(b"\x16\x03\x01\x02")
        asyncio.run(use_rest())


def test_silent_connections_do_not_use_up_the_agents_port(
    appliance: ApplianceProcess, many_descriptors: None, tmp_path: Path
) -> None:
    context = agent_context(appliance, tmp_path)
    with ExitStack() as connections:
        for _ in range(SILENT_CONNECTIONS + 100):
            connections.enter_context(
                socket.create_connection(("127.0.0.1", appliance.fleet_port), 60)
            )
        for _ in range(5):
            assert negotiated_version(appliance.fleet_port, context) == "TLSv1.3"


def agent_context(appliance: ApplianceProcess, folder: Path) -> ssl.SSLContext:
    """Return a TLS context with the certificate of an agent."""
    key, csr = new_key_and_csr()
    certificate = sign_node_certificate(load_authority(appliance.data), csr, uuid.uuid4(), "agent")
    pem = folder / "agent.pem"
    pem.write_bytes(key + certificate.public_bytes(Encoding.PEM))
    context = appliance.context
    context.load_cert_chain(pem)
    context.set_alpn_protocols(["h2"])
    return context


def negotiated_version(port: int, context: ssl.SSLContext) -> str | None:
    """Return the TLS version of a connection; None if the server refuses it."""
    with (
        socket.create_connection(("127.0.0.1", port), 60) as plain,
        contextlib.suppress(ssl.SSLError, ConnectionError),
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        return secure.version()
    return None


@pytest.mark.parametrize("port", ["https_port", "fleet_port"])
def test_ports_accept_tls_1_3_only(appliance: ApplianceProcess, tmp_path: Path, port: str) -> None:
    context = agent_context(appliance, tmp_path)
    assert negotiated_version(getattr(appliance, port), context) == "TLSv1.3"
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert negotiated_version(getattr(appliance, port), context) is None
