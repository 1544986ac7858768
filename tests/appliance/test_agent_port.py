"""The agents' port under a flood of anonymous connections, and the renewal of its certificate."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from deploy.supervisor import wait_for
from nodes.protocol import fleet_pb2
from tests.appliance.appliance_process import STRANGER, ApplianceProcess, started
from tests.appliance.live_agent import LiveAgent
from tests.tokens import create_token

PER_ADDRESS = 32
CERTIFICATE_SECONDS = 60
"""So short that the appliance looks every 5 s whether it is time for a renewal."""
LONGER_SECONDS = 3600
"""With this lifetime, less than a third is left of a certificate that had the shorter one."""


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApplianceProcess]:
    settings = {
        "BUSBAR_MAX_ANONYMOUS_CONNECTIONS_PER_ADDRESS": str(PER_ADDRESS),
        "BUSBAR_SERVER_CERTIFICATE_SECONDS": str(CERTIFICATE_SECONDS),
    }
    with started(tmp_path_factory.mktemp("appliance"), **settings) as running:
        yield running


@pytest.fixture(scope="module")
def agent(appliance: ApplianceProcess) -> LiveAgent:
    return LiveAgent(appliance)


def closed_by_peer(connection: socket.socket) -> bool:
    connection.setblocking(False)
    with contextlib.suppress(BlockingIOError, ConnectionResetError):
        return connection.recv(1) == b""
    return False


def wait_for_closed(appliance: ApplianceProcess, opened: list[socket.socket]) -> None:
    """Wait until the appliance has closed all connections beyond its limit."""

    def closed() -> bool:
        return sum(map(closed_by_peer, opened)) >= PER_ADDRESS

    wait_for("the end of connections", closed, appliance.log)


def flood(port: int, stop: threading.Event) -> int:
    """Open silent connections without a pause. Return how many were opened."""
    opened: list[socket.socket] = []
    count = 0
    while not stop.is_set():
        with contextlib.suppress(OSError):
            opened.append(socket.create_connection(("127.0.0.1", port), 5, (STRANGER, 0)))
            count += 1
        if len(opened) > 200:
            opened.pop(0).close()
    for connection in opened:
        connection.close()
    return count


def test_anonymous_connections_of_one_address_are_limited(appliance: ApplianceProcess) -> None:
    with contextlib.ExitStack() as stack:
        opened = [
            stack.enter_context(socket.create_connection(("127.0.0.1", appliance.fleet_port), 60))
            for _ in range(2 * PER_ADDRESS)
        ]
        wait_for_closed(appliance, opened)
        assert sum(map(closed_by_peer, opened)) == PER_ADDRESS
        assert not closed_by_peer(opened[-1]), "the newest stay"


def test_connections_of_an_agents_own_address_do_not_end_its_stream(
    appliance: ApplianceProcess, agent: LiveAgent
) -> None:
    """An admitted stream marks its connection; without it, its connection would be the oldest."""
    with agent.stream() as replies, contextlib.ExitStack() as stack:
        next(replies)
        opened = [
            stack.enter_context(socket.create_connection(("127.0.0.1", appliance.fleet_port), 60))
            for _ in range(2 * PER_ADDRESS)
        ]
        wait_for_closed(appliance, opened)
        assert isinstance(next(replies), fleet_pb2.ApplianceMessage)
        assert isinstance(next(replies), fleet_pb2.ApplianceMessage)


@pytest.mark.long
def test_flood_of_anonymous_connections_ends_no_stream(
    appliance: ApplianceProcess, agent: LiveAgent
) -> None:
    stop, gaps = threading.Event(), []
    newcomer = LiveAgent(appliance, "late")
    with agent.stream() as replies, ThreadPoolExecutor(1) as threads:
        next(replies)
        flooding = threads.submit(flood, appliance.fleet_port, stop)
        try:
            for _ in range(5):
                started_at = time.monotonic()
                next(replies)
                gaps.append(time.monotonic() - started_at)
            with newcomer.stream() as late:
                assert isinstance(next(late), fleet_pb2.ApplianceMessage), "a new agent gets in"
        finally:
            stop.set()
        print(f"{flooding.result()} connections, replies at most {max(gaps):.2f} s apart")
    assert max(gaps) < 5, gaps


def served_certificate(appliance: ApplianceProcess, port: int, agent: LiveAgent) -> str:
    """Return the digest of the certificate that the port serves now."""
    folder = appliance.data.parent
    pem = folder / "agent.pem"
    pem.write_bytes(agent.key + agent.enrolment["agent_pem"].encode())
    context = appliance.context
    context.load_cert_chain(pem)
    context.set_alpn_protocols(["h2", "http/1.1"])
    with (
        socket.create_connection(("127.0.0.1", port), 60) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
    ):
        served = secure.getpeercert(binary_form=True)
    assert served is not None
    return hashlib.sha256(served).hexdigest()


def set_lifetime(web: http.client.HTTPSConnection, token: str) -> None:
    """Give certificates a longer lifetime, so that they are renewed at the next look."""
    content = json.dumps({"appliance": {"server_certificate_seconds": LONGER_SECONDS}})
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    web.request("PATCH", "/api/v1/settings", content, headers)
    response = web.getresponse()
    assert response.status == 200, response.read()
    response.read()


def test_certificates_of_both_ports_are_renewed_while_connections_stay(
    appliance: ApplianceProcess, agent: LiveAgent
) -> None:
    ports = (appliance.https_port, appliance.fleet_port)
    token = create_token(appliance.data)
    first = [served_certificate(appliance, port, agent) for port in ports]
    web = http.client.HTTPSConnection(
        "127.0.0.1", appliance.https_port, context=appliance.context, timeout=60
    )
    with agent.stream() as replies, contextlib.closing(web):
        next(replies)
        set_lifetime(web, token)
        renewed = list(first)
        while any(now == before for now, before in zip(renewed, first, strict=True)):
            web.request("GET", "/healthz")
            assert web.getresponse().read() == b"ok\n"
            assert isinstance(next(replies), fleet_pb2.ApplianceMessage)
            renewed = [served_certificate(appliance, port, agent) for port in ports]
        connected = web.sock
        web.request("GET", "/healthz")
        assert web.getresponse().read() == b"ok\n" and web.sock is connected
        assert isinstance(next(replies), fleet_pb2.ApplianceMessage)
    assert appliance.is_ready()
