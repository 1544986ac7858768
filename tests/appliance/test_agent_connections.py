"""Connections of the agents' port: deadlines, streams, and the socket of gRPC."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

from appliance.fleet import agent_port
from appliance.fleet.agent_port import AgentPort, listen
from appliance.runtime.connection_table import ConnectionLimits

LIMIT_SECONDS = 120.0
DEADLINE_CHECKS = 3
LOOP_ROUNDS = 100
"""Enough for all events of one connection."""
LIMITS = ConnectionLimits(total=64, anonymous=32, anonymous_per_address=16)


class Inside:
    """The socket on which gRPC accepts: sends back what it receives."""

    def __init__(self, path: str, backlog: int = 16) -> None:
        self.names: list[str] = []
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(path)
        self.listening.listen(backlog)
        self.listening.setblocking(False)

    async def accept(self) -> None:
        loop = asyncio.get_running_loop()
        echoes = set()
        try:
            while True:
                accepted, name = await loop.sock_accept(self.listening)
                if isinstance(name, bytes):  # bound
                    self.names.append("unix-abstract:" + name[1:].decode())
                echoes.add(asyncio.create_task(self.echo(accepted)))
        finally:
            for echo in echoes:
                echo.cancel()

    @staticmethod
    async def echo(accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with accepted, contextlib.suppress(OSError):
            while data := await loop.sock_recv(accepted, 100):
                await loop.sock_sendall(accepted, data)


Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Port:
    """An agent port whose deadline passes after three checks without a delay between them."""

    def __init__(self, folder: Path, backlog: int = 16) -> None:
        self.inside = Inside(str(folder / "grpc"), backlog)
        self.listening = listen("127.0.0.1", 0)
        self.port = AgentPort(self.listening, LIMITS)
        self.port.start(str(folder / "grpc"))

    async def connect(self) -> Client:
        return await asyncio.open_connection(*self.listening.getsockname())

    async def peer(self) -> tuple[Client, str]:
        """Connect and return gRPC's name of the connection as well."""
        client = await self.connect()
        assert await answers(client)
        return client, self.inside.names[-1]

    async def let_deadline_pass(self) -> None:
        for _ in range(DEADLINE_CHECKS):
            self.port.check_deadlines()
            await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def started(folder: Path) -> AsyncIterator[Port]:
    port = Port(folder)
    tasks = [asyncio.create_task(port.inside.accept()), asyncio.create_task(port.port.accept())]
    try:
        yield port
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        port.listening.close()
        port.inside.listening.close()


async def answers(client: Client) -> bool:
    """Return whether a byte comes back; False if the connection is closed."""
    reader, writer = client
    try:
        writer.write(b"x")
        return await asyncio.wait_for(reader.read(1), LIMIT_SECONDS) == b"x"
    except OSError:
        return False


def run(folder: Path, scenario: Callable[[Port], Awaitable[None]]) -> None:
    async def body() -> None:
        async with started(folder) as port:
            await scenario(port)

    uvloop.run(body())


@pytest.fixture(autouse=True)
def short_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = DEADLINE_CHECKS * agent_port.CHECK_INTERVAL_SECONDS
    monkeypatch.setattr(agent_port, "STREAM_SECONDS", seconds)


def test_connection_without_a_stream_is_closed_at_its_deadline(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        client, _ = await port.peer()
        await port.let_deadline_pass()
        assert not await answers(client)

    run(tmp_path, scenario)


def test_stream_keeps_its_connection_before_it_is_admitted(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        client, peer = await port.peer()
        port.port.begin_stream(peer)
        await port.let_deadline_pass()
        assert await answers(client)

    run(tmp_path, scenario)


def test_end_of_one_of_two_streams_keeps_the_connection(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        client, peer = await port.peer()
        port.port.begin_stream(peer)
        port.port.begin_stream(peer)
        port.port.end_stream(peer)
        await port.let_deadline_pass()
        assert await answers(client)
        port.port.end_stream(peer)
        await port.let_deadline_pass()
        assert not await answers(client)

    run(tmp_path, scenario)


def test_only_admitted_connections_survive_a_flood_of_their_address(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        refused, peer_of_refused = await port.peer()
        admitted, peer_of_admitted = await port.peer()
        for peer in (peer_of_refused, peer_of_admitted):
            port.port.begin_stream(peer)
        port.port.admit(peer_of_admitted)
        flood = [await port.connect() for _ in range(2 * LIMITS.anonymous_per_address)]
        assert await answers(flood[-1])
        assert await answers(admitted) and not await answers(refused)

    run(tmp_path, scenario)


def test_connection_waits_while_the_queue_of_grpc_is_full(tmp_path: Path) -> None:
    async def body() -> None:
        port = Port(tmp_path, backlog=0)
        with socket.socket(socket.AF_UNIX) as other:
            other.connect(str(tmp_path / "grpc"))  # fills the queue
            accepting = asyncio.create_task(port.port.accept())
            client = await port.connect()
            for _ in range(LOOP_ROUNDS):
                await asyncio.sleep(0)
            assert len(port.port.table) == 1
            inside = asyncio.create_task(port.inside.accept())
            assert await answers(client)
        for task in (inside, accepting):
            task.cancel()

    uvloop.run(body())


def test_client_is_disconnected_when_grpc_closes_while_it_is_connected(tmp_path: Path) -> None:
    async def body() -> None:
        port = Port(tmp_path)
        port.inside.listening.setblocking(True)
        accepting = asyncio.create_task(port.port.accept())
        client = await port.connect()
        accepted, _ = await asyncio.to_thread(port.inside.listening.accept)
        accepted.close()
        reader, _ = client
        assert await asyncio.wait_for(reader.read(), LIMIT_SECONDS) == b""
        assert not len(port.port.table)
        accepting.cancel()

    uvloop.run(body())
