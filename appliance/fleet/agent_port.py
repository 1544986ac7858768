"""The agents' port: accepts within limits and passes the bytes to gRPC on a Unix socket.

gRPC accepts without limits. A connection is anonymous until a stream on it has been admitted.
Anonymous connections have limits in total and by address, and a deadline. TLS is between agent and
gRPC: this port sees encrypted bytes only. gRPC names a connection by the address to which its end
of the Unix socket is bound.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import secrets
import socket
from typing import cast

from appliance.runtime.client_network import client_network
from appliance.runtime.connection_table import ConnectionLimits, ConnectionTable

log = logging.getLogger("appliance.gateway")

ADMISSION_SECONDS = 20.0
"""Time from the connection to an admitted stream, and from the end of a stream to the next one."""
CHECK_INTERVAL_SECONDS = 1.0
PEER_PREFIX = "unix-abstract:"


class Side(asyncio.Protocol):
    """One end of a connection: passes what it receives to the other end."""

    def __init__(self, connection: AgentConnection) -> None:
        self.connection: AgentConnection | None = connection
        self.other: Side | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        connection, other = self.connection, self.other
        self.connection = self.other = self.transport = None
        if other is not None and other.transport is not None:
            other.transport.close()
        if connection is not None:
            connection.lost()


class AgentConnection:
    """A member of the connection table."""

    def __init__(self, port: AgentPort, network: str, name: str) -> None:
        self._port, self.network, self.name = port, network, name
        self.expires_at = math.inf
        self._outside, self._inside = Side(self), Side(self)
        self.opening: asyncio.Task[None] | None = None

    def abort(self) -> None:
        if self.opening is not None:
            self.opening.cancel()
        for side in (self._outside, self._inside):
            if side.transport is not None:
                side.transport.abort()

    def lost(self) -> None:
        self._port.remove(self)

    async def open(self, accepted: socket.socket, path: str) -> None:
        """Connect the accepted socket with gRPC."""
        loop = asyncio.get_running_loop()
        inner = socket.socket(socket.AF_UNIX)
        try:
            inner.setblocking(False)
            inner.bind(b"\0" + self.name.encode())
            await loop.sock_connect(inner, path)
            self._outside.other, self._inside.other = self._inside, self._outside
            await loop.create_unix_connection(lambda: self._inside, sock=inner)
            await loop.connect_accepted_socket(lambda: self._outside, accepted)
        except (OSError, asyncio.CancelledError) as error:
            if isinstance(error, OSError):
                log.warning("gateway: a connection failed: %s", error)
            inner.close()
            accepted.close()
            self.abort()
            self.lost()
        finally:
            self.opening = None


class AgentPort:
    """Event loop only."""

    def __init__(self, listening: socket.socket, limits: ConnectionLimits) -> None:
        self._listening, self._path = listening, ""
        self._table = ConnectionTable(limits)
        self._connections: dict[str, AgentConnection] = {}
        self._numbers, self._prefix = itertools.count(), f"busbar-{secrets.token_hex(8)}-"

    def start(self, path: str) -> None:
        """Set the path of gRPC's socket. Call before `accept`."""
        self._path = path

    async def accept(self) -> None:
        """Accept connections until cancelled."""
        loop = asyncio.get_running_loop()
        self._listening.setblocking(False)
        while True:
            try:
                accepted, address = await loop.sock_accept(self._listening)
            except OSError as error:
                log.error("gateway: accepting failed, trying again: %s", error)
                self._table.evict_oldest()
                await asyncio.sleep(CHECK_INTERVAL_SECONDS)
                continue
            self._add(accepted, address[0])

    def _add(self, accepted: socket.socket, address: str) -> None:
        accepted.setblocking(False)
        name = f"{self._prefix}{next(self._numbers)}"
        connection = AgentConnection(self, client_network(address), name)
        connection.expires_at = asyncio.get_running_loop().time() + ADMISSION_SECONDS
        if not self._table.add(connection):
            accepted.close()
            return
        self._connections[name] = connection
        connection.opening = asyncio.get_running_loop().create_task(
            connection.open(accepted, self._path)
        )

    async def close_expired(self) -> None:
        """Close connections without a stream at their deadlines, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_INTERVAL_SECONDS)
            self._table.close_expired(asyncio.get_running_loop().time())

    def admit(self, peer: str) -> None:
        """Record that a stream of this connection was admitted. `peer` is gRPC's name of it."""
        if connection := self._connections.get(peer.removeprefix(PEER_PREFIX)):
            self._table.authenticate(connection)
            connection.expires_at = math.inf

    def end_stream(self, peer: str) -> None:
        """Record that the stream ended. The agent closes the connection or begins another one."""
        if connection := self._connections.get(peer.removeprefix(PEER_PREFIX)):
            connection.expires_at = asyncio.get_running_loop().time() + ADMISSION_SECONDS

    def remove(self, connection: AgentConnection) -> None:
        self._table.remove(connection)
        self._connections.pop(connection.name, None)


def listen(address: str, port: int, backlog: int = 4096) -> socket.socket:
    """Return a listening socket. Raises OSError if the port is in use."""
    listening = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((address, port))
    listening.listen(backlog)
    return listening
