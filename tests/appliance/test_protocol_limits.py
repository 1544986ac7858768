"""Bounds on what the HTTPS port keeps of one client that sends without end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop
from websockets.frames import Frame, Opcode

from appliance.http.application import application
from appliance.http.connection import MAX_FRAGMENTS, MAX_HEAD_BYTES
from tests.appliance.https_port_in_process import HEALTH, Port, Stream, https_port, wait_until

pytestmark = pytest.mark.django_db
"""The threads of the application may hold connections of earlier tests, which it checks."""

MIB = 1 << 20
UPGRADE = (
    b"GET /api/v1/feed HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def run(folder: Path, test: Callable[[Port], Awaitable[None]]) -> None:
    async def with_port() -> None:
        async with https_port(folder, application) as port:
            await asyncio.wait_for(test(port), 30)

    uvloop.run(with_port())


def protocol_of(port: Port) -> Any:
    """Return uvicorn's protocol of the only connection."""
    (found,) = port.port.uvicorn.server_state.connections
    return found


async def upgraded(port: Port) -> Stream:
    stream = await port.connect()
    stream[1].write(UPGRADE)
    assert b" 101 " in await stream[0].readuntil(b"\r\n\r\n")
    return stream


async def sent_until_closed(stream: Stream, part: bytes, most: int) -> int:
    """Send parts until the server closes the connection. Return the sent bytes."""
    sent = 0
    while sent < most and not stream[0].at_eof():
        try:
            stream[1].write(part)
            await stream[1].drain()
            await asyncio.sleep(0)
        except ConnectionError:
            break
        sent += len(part)
    return sent


HEAD = b"POST /api/v1/login HTTP/1.1\r\nHost: a\r\n"
ENDLESS = {
    "header": (HEAD + b"X: ", b"y" * 4096),
    "headers": (HEAD, b"X: y\r\n" * 700),
    "target": (b"GET /", b"y" * 4096),
    "trailers": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n" * 700),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_connection_with_an_endless_head_is_closed(tmp_path: Path, name: str) -> None:
    begin, part = ENDLESS[name]

    async def test(port: Port) -> None:
        stream = await port.connect()
        stream[1].write(begin)
        assert await sent_until_closed(stream, part, 64 * MIB) < 16 * MIB
        await wait_until(lambda: len(port.port.connections) == 0)
        assert await port.request(await port.connect()) == 200

    run(tmp_path, test)


def test_long_body_is_not_taken_for_a_head(tmp_path: Path) -> None:
    """A body of many parts, and many requests on one connection, have no limit of the head."""
    size = 60 << 10
    body = b"".join(b"1000\r\n" + b" " * 4096 + b"\r\n" for _ in range(size // 4096))

    async def test(port: Port) -> None:
        stream = await port.connect()
        head = HEAD + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        for _ in range(3):
            assert await port.request(stream, head + body + b"0\r\n\r\n") != 0
        for _ in range(2 * MAX_HEAD_BYTES // len(HEALTH)):
            assert await port.request(stream) == 200

    run(tmp_path, test)


def frame(opcode: Opcode, data: bytes, fin: bool = True) -> bytes:
    return Frame(opcode, data, fin).serialize(mask=True)


def test_pongs_for_a_client_that_does_not_read_are_bounded(tmp_path: Path) -> None:
    pings = frame(Opcode.PING, b"p" * 125) * 1000

    async def test(port: Port) -> None:
        stream = await upgraded(port)
        stream[1].transport.pause_reading()  # type: ignore[attr-defined]
        server, most = protocol_of(port), 0
        for _ in range(24 * MIB // len(pings)):
            stream[1].write(pings)
            await stream[1].drain()
            await asyncio.sleep(0)
            most = max(most, server.transport.get_write_buffer_size())
        assert 0 < most < 4 * MIB and not server.writable.is_set()
        stream[1].transport.resume_reading()  # type: ignore[attr-defined]
        reading = asyncio.create_task(stream[0].read())
        await wait_until(server.writable.is_set)
        stream[1].transport.abort()
        with contextlib.suppress(ConnectionError):
            await reading

    run(tmp_path, test)


def test_message_of_endless_fragments_is_ended(tmp_path: Path) -> None:
    async def test(port: Port) -> None:
        stream = await upgraded(port)
        stream[1].write(frame(Opcode.TEXT, b"{", fin=False))
        part = frame(Opcode.CONT, b"", fin=False) * MAX_FRAGMENTS
        assert await sent_until_closed(stream, part, MIB) < MIB
        await wait_until(lambda: len(port.port.connections) == 0)

    run(tmp_path, test)


NONSENSE = {
    "no request": b"\0\1\2\r\n\r\n",
    "target outside of ASCII": b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
    "other upgrade": HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"),
    "unknown socket": UPGRADE.replace(b"/api/v1/feed", b"/x%0aINFO"),
    "socket with many headers": UPGRADE.replace(b"Host: a\r\n", b"Host: a\r\n" + b"X: y\r\n" * 300),
    "no text": UPGRADE + frame(Opcode.TEXT, b"\xff"),
    "no frame": UPGRADE + b"\xff" * 16,
    "no JSON": UPGRADE + frame(Opcode.TEXT, b"[" * 60_000),
    "infinite number": UPGRADE + frame(Opcode.TEXT, b'{"type": "hello", "sequence": 1e999}'),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_makes_no_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """Otherwise anybody who reaches the port could fill the log."""
    caplog.set_level(logging.INFO, "root")

    async def test(port: Port) -> None:
        stream = await port.connect()
        head, end, rest = NONSENSE[name].partition(b"\r\n\r\n")
        stream[1].write(head + end)
        if rest:
            await stream[0].readuntil(b"\r\n\r\n")
            stream[1].write(rest)
        with contextlib.suppress(TimeoutError):  # after a close frame the server waits for ours
            await asyncio.wait_for(stream[0].read(), 1)

    run(tmp_path, test)
    assert [r.getMessage() for r in caplog.records if "appliance" not in r.name] == []
