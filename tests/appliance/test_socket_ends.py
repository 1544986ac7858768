"""Browsers' sockets that come and go leave nothing behind, however they end, though the collector of cycles looks at what is old only once an hour."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import uvloop
import websockets
from uvicorn import Server
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.server import ServerProtocol

from appliance import web
from appliance.activity import consumers
from appliance.activity.feed import Scope, Subscriber, hub
from appliance.fleet.certificates import load_authority, server_certificate

SOCKETS = 8
OF_A_SOCKET = (
    HttpToolsProtocol,
    WebSocketsSansIOProtocol,
    ServerProtocol,
    consumers.FeedConsumer,
    Subscriber,
)
HELLO = json.dumps({"type": "hello", "token": "of somebody"})
LONG = " " * (8 << 20)
"""More than the kernel keeps for a client that does not read."""


class User:
    """Somebody."""


@dataclass
class Appliance:
    people: Server
    listening: socket.socket
    answers: threading.Event = field(default_factory=threading.Event)
    """Says who somebody is only when this is set."""

    async def opened(self) -> list[websockets.ClientConnection]:
        """All said hello."""
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        url = f"wss://127.0.0.1:{self.listening.getsockname()[1]}/api/v1/feed"
        there = [
            await websockets.connect(url, ssl=trusting, compression=None, max_size=None)
            for _ in range(SOCKETS)
        ]
        for each in there:
            await each.send(HELLO)
        return there

    async def answered(self) -> list[websockets.ClientConnection]:
        self.answers.set()
        there = await self.opened()
        for each in there:
            assert json.loads(await each.recv())["type"] == "hello"
        return there


async def until(true: Callable[[], bool], meanwhile: Callable[[], None] = lambda: None) -> None:
    while not true():
        meanwhile()
        await asyncio.sleep(0.01)


async def close(appliance: Appliance) -> None:
    there = await appliance.answered()
    assert left().count("FeedConsumer") == left().count("Subscriber") == SOCKETS, (
        "or what is counted below is not there anyway"
    )
    for each in there:
        await each.close()


async def abort(appliance: Appliance) -> None:
    for each in await appliance.answered():
        each.transport.abort()


async def abort_unanswered(appliance: Appliance) -> None:
    """They go while the appliance looks who they are."""
    for each in await appliance.opened():
        each.transport.abort()
    await until(lambda: not appliance.people.server_state.connections)
    appliance.answers.set()


async def abort_while_told(appliance: Appliance) -> None:
    """They do not read what they are told, and more waits to be sent."""
    there, told, connections = (
        await appliance.answered(),
        hub._subscribers.copy(),
        appliance.people.server_state.connections,
    )

    def tell() -> None:
        for subscriber in told:
            subscriber.offer_samples({"gpu": LONG})

    for each in there:
        each.transport.pause_reading()
    await until(lambda: not any(c.writable.is_set() for c in connections), tell)
    tell()
    await until(lambda: not any(s.samples for s in told))
    for each in there:
        each.transport.abort()


def left() -> list[str]:
    """By type, for a proxy of Django's says that it is an instance of nothing."""
    return sorted(type(o).__name__ for o in gc.get_objects() if issubclass(type(o), OF_A_SOCKET))


async def left_after(
    appliance: Appliance, end: Callable[[Appliance], Awaitable[None]]
) -> list[str]:
    """What is still there when all tasks of these sockets have ended."""
    people = appliance.people
    running = asyncio.create_task(people._serve([appliance.listening]))
    await until(lambda: people.started)
    await end(appliance)
    await until(lambda: not people.server_state.connections and not people.server_state.tasks)
    await asyncio.sleep(0)
    found = left()
    people.should_exit = True
    await running
    return found


@pytest.fixture
def appliance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Appliance]:
    """The web's server, to which everybody is somebody. Without a collector."""
    certificate, key = server_certificate(load_authority(tmp_path), tmp_path, ["127.0.0.1"])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        made = Appliance(web.server(web.Options(-1, -1, -1, str(certificate), str(key))), listening)
        nothing = consumers.shared(Scope(frozenset(), {}))
        monkeypatch.setattr(
            consumers,
            "identify",
            lambda token: (User(), None, nothing) if made.answers.wait(30) else None,
        )
        monkeypatch.setattr(consumers, "FRAME_SECONDS", 0)
        gc.collect()
        gc.disable()
        yield made
        gc.enable()


@pytest.mark.parametrize(
    "end", [close, abort, abort_unanswered, abort_while_told], ids=lambda end: end.__name__
)
def test_sockets_that_went_leave_nothing_behind(
    appliance: Appliance, end: Callable[[Appliance], Awaitable[None]]
) -> None:
    assert uvloop.run(asyncio.wait_for(left_after(appliance, end), 30)) == []
    assert not hub._subscribers and not consumers.rechecking
