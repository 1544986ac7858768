"""The HTTPS port inside a test's event loop, with raw clients."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from appliance.fleet.certificates import load_authority, server_certificate
from appliance.http.application import application
from appliance.http.https_port import HttpsPort
from appliance.runtime.connection_table import ConnectionLimits

LIMITS = ConnectionLimits(total=64, anonymous=48, anonymous_per_address=32)
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Port:
    def __init__(self, port: HttpsPort, address: tuple[str, int]) -> None:
        self.port, self.address = port, address
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE
        self.silent: list[socket.socket] = []

    async def connect(self, source: str = "127.0.0.1") -> Stream:
        """Open a connection and complete the TLS handshake."""
        return await asyncio.open_connection(
            *self.address, ssl=self.context, local_addr=(source, 0)
        )

    async def connect_silently(self, count: int, source: str = "127.0.0.1") -> None:
        """Open TCP connections on which the client sends nothing."""
        for _ in range(count):
            client = socket.socket()
            client.setblocking(False)
            client.bind((source, 0))
            await asyncio.get_running_loop().sock_connect(client, self.address)
            self.silent.append(client)

    async def request(self, stream: Stream, head: bytes = HEALTH) -> int:
        """Send a request and return the status of its response."""
        stream[1].write(head)
        return await read_status(stream)


async def read_status(stream: Stream) -> int:
    """Read a response with a content length and return its status; 0 if there is none."""
    try:
        head = (await stream[0].readuntil(b"\r\n\r\n")).lower()
    except (asyncio.IncompleteReadError, ConnectionError):
        return 0
    length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
    await stream[0].readexactly(length)
    return int(head.split()[1])


@asynccontextmanager
async def https_port(
    folder: Path, app: Any = application, limits: ConnectionLimits = LIMITS
) -> AsyncIterator[Port]:
    certificate, key = server_certificate(load_authority(folder), folder, ["127.0.0.1"])
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    port = HttpsPort(app, listening, str(certificate), str(key), limits)
    await port.start()
    made = Port(port, listening.getsockname())
    try:
        yield made
    finally:
        for client in made.silent:
            client.close()
        await port.stop()


async def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)
