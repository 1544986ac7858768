"""The agents' port: accepts within limits and passes the bytes to gRPC on a Unix socket.

gRPC accepts without limits. A connection is anonymous until a stream on it has been admitted.
Anonymous connections have limits in total and by address. A connection without a stream has a
deadline; TLS ensures that only holders of a certificate begin one, so the time in which the
appliance decides about a stream does not count. TLS is between agent and gRPC: this port sees
encrypted bytes only. gRPC names a connection by the address to which its end of the Unix socket is
bound.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import socket
from typing import cast

from appliance.runtime.client_network import client_network
from appliance.runtime.connection_table import ConnectionLimits, ConnectionTable

log = logging.getLogger("appliance.gateway")

STREAM_SECONDS = 20.0
"""Time from the connection to its first stream, and from the end of the last one to the next."""
CHECK_INTERVAL_SECONDS = 1.0
QUEUE_RETRY_SECONDS = 0.2
"""Time between attempts to connect to gRPC while its queue is full."""
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
        connection = self.connection
        self.connection = self.other = self.transport = None
        if connection is not None:
            connection.close()


class AgentConnection:
    """A member of the connection table."""

    def __init__(self, port: AgentPort, network: str, name: str) -> None:
        self._port, self.network, self.name = port, network, name
        self.expires_at = math.inf
        self.streams = 0
        self._outside, self._inside = Side(self), Side(self)
        self._outside.other, self._inside.other = self._inside, self._outside
        self.opening: asyncio.Task[None] | None = None

    def abort(self) -> None:
        self._stop_opening()
        for side in (self._outside, self._inside):
            if side.transport is not None:
                side.transport.abort()

    def close(self) -> None:
        """Close both sides, after what was received has been passed on."""
        self._stop_opening()
        for side in (self._outside, self._inside):
            if side.transport is not None:
                side.transport.close()
        self._port.remove(self)

    def _stop_opening(self) -> None:
        if self.opening is not None:
            self.opening.cancel()

    async def open(self, accepted: socket.socket, path: str) -> None:
        """Connect the accepted socket with gRPC."""
        loop = asyncio.get_running_loop()
        try:
            inner = await connect_to_grpc(self.name, path)
            await loop.create_unix_connection(lambda: self._inside, sock=inner)
            await loop.connect_accepted_socket(lambda: self._outside, accepted)
        except (OSError, asyncio.CancelledError) as error:
            if isinstance(error, OSError):
                log.warning("gateway: a connection failed: %s", error)
            accepted.close()
            self.abort()
            self._port.remove(self)
        finally:
            self.opening = None


async def connect_to_grpc(name: str, path: str) -> socket.socket:
    """Return a socket bound to an abstract name and connected to a path.

    Waits while the queue of the other end is full. asyncio would take such a socket for connected.
    """
    inner = socket.socket(socket.AF_UNIX)
    try:
        inner.setblocking(False)
        inner.bind(b"\0" + name.encode())
        while True:
            try:
                inner.connect(path)
                return inner
            except BlockingIOError:
                await asyncio.sleep(QUEUE_RETRY_SECONDS)
    except BaseException:
        inner.close()
        raise


class AgentPort:
    """Event loop only."""

    def __init__(self, listening: socket.socket, limits: ConnectionLimits) -> None:
        self._listening, self._path = listening, ""
        self.table = ConnectionTable(limits)
        self._connections: dict[str, AgentConnection] = {}
        self._seconds = 0.0
        """Time in which this process ran. A process that gets no time closes no connection."""

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
                self.table.evict_oldest()
                await asyncio.sleep(CHECK_INTERVAL_SECONDS)
                continue
            self._add(accepted, address[0])

    def _add(self, accepted: socket.socket, address: str) -> None:
        accepted.setblocking(False)
        name = f"busbar-{secrets.token_hex(16)}"  # others cannot bind it before us
        connection = AgentConnection(self, client_network(address), name)
        connection.expires_at = self._seconds + STREAM_SECONDS
        if not self.table.add(connection):
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
            self.check_deadlines()

    def check_deadlines(self) -> None:
        self._seconds += CHECK_INTERVAL_SECONDS
        self.table.close_expired(self._seconds)

    def begin_stream(self, peer: str) -> None:
        """Record that a holder of a certificate began a stream. `peer` is gRPC's name of it."""
        if connection := self._connections.get(peer.removeprefix(PEER_PREFIX)):
            connection.streams += 1
            connection.expires_at = math.inf

    def admit(self, peer: str) -> None:
        """Record that a stream was admitted: the connection is not evicted any more."""
        if connection := self._connections.get(peer.removeprefix(PEER_PREFIX)):
            self.table.authenticate(connection)

    def end_stream(self, peer: str) -> None:
        """Record that a stream ended. After the last one the connection has a deadline again."""
        if connection := self._connections.get(peer.removeprefix(PEER_PREFIX)):
            connection.streams -= 1
            if connection.streams == 0:
                connection.expires_at = self._seconds + STREAM_SECONDS

    def remove(self, connection: AgentConnection) -> None:
        self.table.remove(connection)
        self._connections.pop(connection.name, None)


def listen(address: str, port: int, backlog: int = 4096) -> socket.socket:
    """Return a listening socket. Raises OSError if the port is in use."""
    listening = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((address, port))
    listening.listen(backlog)
    return listening
