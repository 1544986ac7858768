"""Accepts connections on the HTTPS port: many in each round of the event loop, within limits.

asyncio's own servers on uvloop accept one connection per listening socket and round, and a round of
a busy process is long (ADR 42).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import ssl

from appliance.http.connection import Connection, MakeProtocol
from appliance.runtime.client_network import client_network
from appliance.runtime.connection_table import ConnectionTable

log = logging.getLogger(__name__)

ACCEPTS_PER_ROUND = 64
BACKLOG = 4096
HANDSHAKE_SECONDS = 10.0
CHECK_INTERVAL_SECONDS, PAUSE_SECONDS = 1.0, 0.2
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Acceptor:
    """Accepts from a bound socket after `start`. Event loop only."""

    def __init__(
        self,
        listening: socket.socket,
        context: ssl.SSLContext,
        table: ConnectionTable,
        make_protocol: MakeProtocol,
    ) -> None:
        self._listening, self._context = listening, context
        self._table, self._make_protocol = table, make_protocol
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        self._listening.setblocking(False)
        self._listening.listen(BACKLOG)
        self._resume()

    def close(self) -> None:
        """Stop accepting. Open connections continue."""
        self._loop.remove_reader(self._listening)
        self._listening.close()

    def _resume(self) -> None:
        if self._listening.fileno() >= 0:
            self._loop.add_reader(self._listening, self._accept)

    def _pause(self, error: OSError) -> None:
        """Wait until closed connections have returned their descriptors."""
        log.error("http: accepting failed, trying again in %.1f s: %s", PAUSE_SECONDS, error)
        self._table.evict_oldest()
        self._loop.remove_reader(self._listening)
        self._loop.call_later(PAUSE_SECONDS, self._resume)

    async def close_expired(self) -> None:
        """Close connections at their deadlines until cancelled."""
        evicted = 0
        while True:
            await asyncio.sleep(CHECK_INTERVAL_SECONDS)
            self._table.close_expired(self._loop.time())
            if self._table.evicted > evicted:
                count, evicted = self._table.evicted - evicted, self._table.evicted
                log.warning("http: closed %d anonymous connections to make room", count)

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_ROUND):
            try:
                accepted, address = self._listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in OUT_OF_DESCRIPTORS:
                    self._pause(error)
                    return
                continue  # the client has gone
            self._open(accepted, address[0])

    def _open(self, accepted: socket.socket, address: str) -> None:
        accepted.setblocking(False)
        connection = Connection(client_network(address), self._table, self._make_protocol)
        if not self._table.add(connection):
            accepted.close()
            return
        connection.opening = self._loop.create_task(self._handshake(connection, accepted))

    async def _handshake(self, connection: Connection, accepted: socket.socket) -> None:
        try:
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await self._loop.connect_accepted_socket(
                    lambda: connection,
                    accepted,
                    ssl=self._context,
                    ssl_handshake_timeout=HANDSHAKE_SECONDS,
                )
        finally:
            connection.opening = None
            if not connection.is_open:
                self._table.remove(connection)
