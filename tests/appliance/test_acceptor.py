"""Accept rate, limits and deadlines of connections on the HTTPS port."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from appliance.api.client_connection import connection_of
from appliance.http import acceptor, connection
from appliance.http import request as http_request
from appliance.http.acceptor import Acceptor
from appliance.http.application import application
from appliance.runtime.connection_table import ConnectionLimits, ConnectionTable
from tests.appliance.https_port_in_process import (
    HEALTH,
    LIMITS,
    Port,
    https_port,
    read_status,
    wait_until,
)

CLIENTS, ITERATIONS = 64, 12
STRANGER = "127.0.0.2"


def run(
    folder: Path,
    test: Callable[[Port], Awaitable[None]],
    app: Any = None,
    limits: ConnectionLimits = LIMITS,
) -> None:
    """Run a test against the HTTPS port of an application, by default of one that replies 200."""

    async def with_port() -> None:
        async with https_port(folder, app or respond, limits) as port:
            await asyncio.wait_for(test(port), 120)

    uvloop.run(with_port())


async def respond(scope: Any, receive: Any, send: Any) -> None:
    """ASGI application that takes the Authorization header for the name of an account."""
    found = connection_of(scope)
    found.begin_request()
    for name, value in scope["headers"]:
        if name == b"authorization":
            found.authenticate(value.decode())
    headers = [(b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
    found.end_request()


def request_of(account: str) -> bytes:
    return HEALTH.replace(b"\r\n\r\n", f"\r\nAuthorization: {account}\r\n\r\n".encode())


AUTHENTICATED = request_of("a")


def test_pending_connections_are_accepted_within_a_few_iterations() -> None:
    async def count_accepted(listening: socket.socket) -> int:
        table = ConnectionTable(ConnectionLimits(CLIENTS, CLIENTS, CLIENTS))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        accepting = Acceptor(listening, context, table, lambda state: asyncio.Protocol())
        accepting.start()
        for _ in range(ITERATIONS):
            await asyncio.sleep(0)
        accepted = len(table)
        accepting.close()
        return accepted

    with socket.create_server(("127.0.0.1", 0), backlog=CLIENTS) as listening:
        clients = [socket.create_connection(listening.getsockname()) for _ in range(CLIENTS)]
        assert uvloop.run(count_accepted(listening.dup())) == CLIENTS
        for client in clients:
            client.close()


@pytest.mark.parametrize("source", ["127.0.0.1", STRANGER])
def test_silent_connections_make_room_for_new_ones(tmp_path: Path, source: str) -> None:
    async def test(port: Port) -> None:
        await port.connect_silently(3 * LIMITS.total, STRANGER)
        for _ in range(LIMITS.anonymous_per_address):
            assert await port.request(await port.connect(source)) == 200
        assert len(port.port.connections) <= LIMITS.anonymous

    run(tmp_path, test)


def test_authenticated_connection_is_not_evicted(tmp_path: Path) -> None:
    async def test(port: Port) -> None:
        authenticated, anonymous = await port.connect(), await port.connect()
        assert await port.request(authenticated, AUTHENTICATED) == 200
        assert await port.request(anonymous) == 200
        await port.connect_silently(2 * LIMITS.total)
        await wait_until(lambda: port.port.connections.evicted > LIMITS.anonymous)
        assert await port.request(authenticated) == 200
        assert await port.request(anonymous) == 0

    run(tmp_path, test)


def test_connection_beyond_the_total_is_closed_if_all_others_have_accounts_of_their_own(
    tmp_path: Path,
) -> None:
    async def test(port: Port) -> None:
        streams = []
        for _ in range(LIMITS.total):
            streams.append(await port.connect())
            assert await port.request(streams[-1], request_of(str(len(streams)))) == 200
        with pytest.raises(OSError):
            await port.connect()
        assert await port.request(streams[0]) == 200

    run(tmp_path, test)


def test_account_with_the_most_connections_makes_room_for_others(tmp_path: Path) -> None:
    async def test(port: Port) -> None:
        other = await port.connect()
        assert await port.request(other, request_of("other")) == 200
        held = [await port.connect() for _ in range(7)]
        for stream in held:
            assert await port.request(stream, request_of("greedy")) == 200
        late = await port.connect()
        assert await port.request(late, request_of("late")) == 200
        assert await port.request(other) == 200
        assert [await port.request(stream) for stream in held] == [0] + [200] * 6

    run(tmp_path, test, limits=ConnectionLimits(8, 8, 8))


def test_silent_connection_is_closed_after_the_handshake_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor, "HANDSHAKE_SECONDS", 0.2)

    async def test(port: Port) -> None:
        await port.connect_silently(4)
        await wait_until(lambda: len(port.port.connections) == 4)
        await wait_until(lambda: len(port.port.connections) == 0)

    run(tmp_path, test)


@pytest.mark.parametrize("requests_before", [0, 1])
def test_connection_whose_request_head_arrives_slowly_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requests_before: int
) -> None:
    monkeypatch.setattr(connection, "HEAD_SECONDS", 1.0)
    monkeypatch.setattr(connection, "IDLE_SECONDS", 0.0)
    monkeypatch.setattr(acceptor, "CHECK_INTERVAL_SECONDS", 0.1)

    async def drip(port: Port) -> None:
        stream = await port.connect()
        for _ in range(requests_before):
            assert await port.request(stream) == 200
        ended = asyncio.create_task(stream[0].read())
        for byte in HEALTH[:-1]:
            stream[1].write(bytes([byte]))
            await asyncio.wait([ended], timeout=0.1)
            if ended.done():
                return
        raise AssertionError("the connection stayed open")

    async def test(port: Port) -> None:
        await drip(port)
        await wait_until(lambda: len(port.port.connections) == 0)

    run(tmp_path, test)


def test_long_request_is_not_closed(tmp_path: Path) -> None:
    ports: list[Port] = []

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        connection_of(scope).begin_request()
        ports[0].port.connections.close_expired(sys.float_info.max)  # at the end of all time
        await respond(scope, receive, send)

    async def test(port: Port) -> None:
        ports.append(port)
        assert await port.request(await port.connect()) == 200

    run(tmp_path, test, slow)


def test_request_whose_body_arrives_slowly_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_request, "BODY_SECONDS", 0.3)
    head = b"POST /api/v1/enrol HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n"

    async def drip(port: Port) -> None:
        stream = await port.connect()
        stream[1].write(head)
        status = asyncio.create_task(read_status(stream))
        for _ in range(99):
            stream[1].write(b" ")
            await asyncio.wait([status], timeout=0.05)
            if status.done():
                break
        assert await status == 408
        assert await stream[0].read() == b""

    async def test(port: Port) -> None:
        await drip(port)

    run(tmp_path, test, application)


def request_and_say_no_more(port: Port) -> ssl.SSLSocket:
    """Return a connection that has had a response, and answers nothing from now on."""
    client = port.context.wrap_socket(socket.create_connection(port.address))
    client.sendall(HEALTH)
    assert client.recv(1024).startswith(b"HTTP/1.1 200")
    return client


def test_stop_does_not_wait_for_clients_without_a_request(tmp_path: Path) -> None:
    """A client's answer to the end of TLS would be awaited for DRAIN_SECONDS."""

    async def test() -> int:
        async with https_port(tmp_path, respond) as port:
            client = await asyncio.to_thread(request_and_say_no_more, port)
        client.close()
        return len(port.port.connections)

    assert uvloop.run(test()) == 0


def test_pipelined_requests_are_answered(tmp_path: Path) -> None:
    async def test(port: Port) -> None:
        stream = await port.connect()
        stream[1].write(HEALTH * 3)
        assert [await read_status(stream) for _ in range(3)] == [200] * 3

    run(tmp_path, test)


def test_failed_handshakes_leave_no_connection(tmp_path: Path) -> None:
    async def test(port: Port) -> None:
        await port.connect_silently(8)
        loop = asyncio.get_running_loop()
        for number, client in enumerate(port.silent):
            await loop.sock_sendall(client, b"GET / HTTP/1.1\r\n\r\n" if number % 2 else b"\x16")
            if number % 4 == 0:
                client.close()
        for client in port.silent[1::2]:
            await loop.sock_recv(client, 4096)
            client.close()
        port.silent[2].close()
        port.silent[6].close()
        await wait_until(lambda: len(port.port.connections) == 0)

    run(tmp_path, test)
