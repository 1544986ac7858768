"""Closed feed sockets free their objects without the garbage collector."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvloop
import websockets
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.server import ServerProtocol

from appliance.activity import consumers
from appliance.activity.feed import Scope, Subscriber, hub
from appliance.fleet.certificates import load_authority, server_certificate
from appliance.http.application import application
from appliance.http.connection import Connection
from appliance.http.https_port import HttpsPort, connection_limits

SOCKETS = 8
RELEASE_SECONDS = 60.0
SOCKET_TYPES = (
    Connection,
    HttpToolsProtocol,
    WebSocketsSansIOProtocol,
    ServerProtocol,
    consumers.FeedConsumer,
    Subscriber,
)
HELLO = json.dumps({"type": "hello", "token": "valid"})
LARGE_SAMPLE = " " * (8 << 20)
"""More than the socket buffers of the kernel."""


class User:
    """Authenticated user."""

    pk = 1


@dataclass
class Appliance:
    certificate: str
    key: str
    listening: socket.socket
    authentication_allowed: threading.Event = field(default_factory=threading.Event)
    """Authentication blocks until this is set."""

    async def start(self) -> None:
        self.port = HttpsPort(
            application, self.listening, self.certificate, self.key, connection_limits()
        )
        await self.port.start()

    @property
    def connections(self) -> set[Any]:
        found: set[Any] = self.port.uvicorn.server_state.connections
        return found

    async def open(self) -> list[websockets.ClientConnection]:
        """Open sockets and send a hello on each."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        url = f"wss://127.0.0.1:{self.listening.getsockname()[1]}/api/v1/feed"
        sockets = [
            await websockets.connect(url, ssl=context, compression=None, max_size=None)
            for _ in range(SOCKETS)
        ]
        for client in sockets:
            await client.send(HELLO)
        return sockets

    async def open_authenticated(self) -> list[websockets.ClientConnection]:
        self.authentication_allowed.set()
        sockets = await self.open()
        for client in sockets:
            assert json.loads(await client.recv())["type"] == "hello"
        return sockets


async def wait_until(
    condition: Callable[[], bool], meanwhile: Callable[[], None] = lambda: None
) -> None:
    while not condition():
        meanwhile()
        await asyncio.sleep(0.01)


async def close(appliance: Appliance) -> None:
    sockets = await appliance.open_authenticated()
    assert (
        remaining_objects().count("FeedConsumer")
        == remaining_objects().count("Subscriber")
        == SOCKETS
    ), "the objects counted below must exist while sockets are open"
    for client in sockets:
        await client.close()


async def abort(appliance: Appliance) -> None:
    for client in await appliance.open_authenticated():
        client.transport.abort()


async def abort_before_authentication(appliance: Appliance) -> None:
    """Abort the connections during authentication."""
    for client in await appliance.open():
        client.transport.abort()
    await wait_until(lambda: not appliance.connections)
    appliance.authentication_allowed.set()


async def abort_while_sending(appliance: Appliance) -> None:
    """Abort connections of clients that do not read, while samples are pending."""
    sockets, subscribers, connections = (
        await appliance.open_authenticated(),
        hub._subscribers.copy(),
        appliance.connections,
    )

    def offer_samples() -> None:
        for subscriber in subscribers:
            subscriber.offer_samples({"gpu": LARGE_SAMPLE})

    for client in sockets:
        client.transport.pause_reading()
    await wait_until(lambda: not any(c.writable.is_set() for c in connections), offer_samples)
    offer_samples()
    await wait_until(lambda: not any(s.samples for s in subscribers))
    for client in sockets:
        client.transport.abort()


def remaining_objects() -> list[str]:
    """Return type names. isinstance() fails for lazy proxies of Django."""
    return sorted(type(o).__name__ for o in gc.get_objects() if issubclass(type(o), SOCKET_TYPES))


async def remaining_after(
    appliance: Appliance, end: Callable[[Appliance], Awaitable[None]]
) -> list[str]:
    """Return the objects that remain after all tasks of these sockets have ended.

    Tasks of Channels and their frames can end after those of the server, so the objects get
    RELEASE_SECONDS. Objects in reference cycles stay, because garbage collection is disabled.
    """
    await appliance.start()
    await end(appliance)
    tasks = appliance.port.uvicorn.server_state.tasks
    await wait_until(lambda: not appliance.connections and not tasks)
    assert len(appliance.port.connections) == 0
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(wait_until(lambda: not remaining_objects()), RELEASE_SECONDS)
    found = remaining_objects()
    await appliance.port.stop()
    return found


@pytest.fixture
def appliance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Appliance]:
    """HTTP server that accepts every token, with the garbage collector disabled."""
    certificate, key = server_certificate(load_authority(tmp_path), tmp_path, ["127.0.0.1"])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        running = Appliance(str(certificate), str(key), listening)
        empty = consumers.shared(Scope(frozenset(), {}))
        monkeypatch.setattr(
            consumers,
            "identify",
            lambda *_: (User(), None, empty) if running.authentication_allowed.wait(120) else None,
        )
        monkeypatch.setattr(consumers, "FRAME_SECONDS", 0)
        gc.collect()
        gc.disable()
        yield running
        gc.enable()


@pytest.mark.parametrize(
    "end",
    [close, abort, abort_before_authentication, abort_while_sending],
    ids=lambda end: end.__name__,
)
def test_closed_sockets_leave_no_objects(
    appliance: Appliance, end: Callable[[Appliance], Awaitable[None]]
) -> None:
    assert uvloop.run(asyncio.wait_for(remaining_after(appliance, end), 120)) == []
    assert not hub._subscribers and not consumers.authorization_checker
