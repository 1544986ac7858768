"""New connections: a storm of browsers is let in within a few rounds of the web's event loop, for its rounds are long when it is busy."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import uvloop

from appliance.web import listeners

CLIENTS, ROUNDS = 64, 12


async def let_in(listening: list[socket.socket]) -> int:
    """How many connections that wait are accepted within the rounds."""
    accepted: list[asyncio.BaseTransport] = []

    class Accepting(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            accepted.append(transport)

    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(Accepting, sock=one, backlog=CLIENTS) for one in listening]
    for _ in range(ROUNDS):
        await asyncio.sleep(0)
    for transport in accepted:
        transport.close()
    for server in servers:
        server.close()
    return len(accepted)


@pytest.fixture
def stormed() -> Iterator[socket.socket]:
    """Where so many wait to be let in."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=CLIENTS))
        for _ in range(CLIENTS):
            stack.enter_context(socket.create_connection(listening.getsockname(), timeout=5))
        yield listening


def test_a_storm_of_connections_is_let_in_within_a_few_rounds(stormed: socket.socket) -> None:
    assert uvloop.run(let_in(listeners(stormed))) == CLIENTS


def test_the_loop_takes_one_a_round_from_one_socket(stormed: socket.socket) -> None:
    """Why there are many; if this fails, they are not needed any more."""
    assert uvloop.run(let_in([stormed])) <= ROUNDS
