"""One accepted connection: the deadline of its next request, around uvicorn's protocols.

uvicorn limits how long a connection may be idle between requests. The deadline also covers the time
before the first request and requests whose head arrives slowly. The ASGI application calls the
methods of the `connection` in the state of its scope. The protocols have bounds on what they keep
of one client.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from appliance.runtime.connection_table import ConnectionTable

HEAD_SECONDS = 10.0
"""Timeout of a complete request head, from the TLS handshake on."""
IDLE_SECONDS = 5.0
"""Time between requests, after which uvicorn closes the connection."""
MAX_HEAD_BYTES = 64 << 10
"""Of a request head, and of the trailers after a body, beyond which the connection is closed."""
MAX_FRAGMENTS = 1024
"""Frames of one WebSocket message; those without content count for no other limit."""

MakeProtocol = Callable[[dict[str, Any]], asyncio.Protocol]
"""Returns the protocol of uvicorn for the given ASGI state."""


class Connection(asyncio.Protocol):
    def __init__(self, network: str, table: ConnectionTable, make_protocol: MakeProtocol) -> None:
        self.network = network
        self.expires_at = math.inf
        self.opening: asyncio.Task[None] | None = None
        """Performs the TLS handshake."""
        self._table = table
        self._make_protocol = make_protocol
        self._protocol: asyncio.Protocol | None = None
        self._transport: asyncio.Transport | None = None

    @property
    def is_open(self) -> bool:
        """Return whether the handshake is complete and the connection has not been lost."""
        return self._transport is not None

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        elif self.opening is not None:
            self.opening.cancel()

    def authenticate(self, account: str) -> None:
        """Record that a valid token of this account was presented on this connection."""
        self._table.authenticate(self, account)

    def begin_request(self) -> None:
        self.expires_at = math.inf

    def end_request(self) -> None:
        self.expires_at = asyncio.get_running_loop().time() + IDLE_SECONDS + HEAD_SECONDS

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.expires_at = asyncio.get_running_loop().time() + HEAD_SECONDS
        self._transport = cast(asyncio.Transport, transport)
        self._protocol = self._make_protocol({"connection": self})
        self._protocol.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        assert self._protocol is not None and self._transport is not None
        self._protocol.data_received(data)
        current = self._transport.get_protocol()
        if current is not self:
            self._follow_upgrade(cast(asyncio.Protocol, current))

    def _follow_upgrade(self, websocket: asyncio.Protocol) -> None:
        """Continue with the WebSocket protocol to which uvicorn has handed the connection."""
        assert self._protocol is not None and self._transport is not None
        # The HTTP protocol and its parser refer to each other until the connection is lost.
        self._protocol.connection_lost(ConnectionAbortedError("upgraded to a WebSocket"))
        self._protocol = websocket
        self._transport.set_protocol(self)

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received() if self._protocol is not None else None

    def connection_lost(self, exc: Exception | None) -> None:
        self._table.remove(self)
        protocol, self._protocol, self._transport = self._protocol, None, None
        if protocol is not None:
            protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.resume_writing()


class Http(HttpToolsProtocol):  # type: ignore[misc]  # uvicorn has no types
    """HTTP protocol with a limit of the head. uvicorn and its parser keep a head of any length."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._pending_bytes = 0
        """Received since the last complete head or part of a body."""

    def data_received(self, data: bytes) -> None:
        self._pending_bytes += len(data)
        super().data_received(data)
        if self._pending_bytes > MAX_HEAD_BYTES:
            self.transport.abort()

    def on_headers_complete(self) -> None:
        self._pending_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._pending_bytes = 0
        super().on_body(body)


class WebSocket(WebSocketsSansIOProtocol):  # type: ignore[misc]  # uvicorn has no types
    """WebSocket protocol with bounds on pongs and fragments, and without a reference cycle.

    The cycle would keep the memory of closed connections until the next full garbage collection,
    which runs once an hour (ADR 12).
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._late_pongs = b""
        """Pongs of the latest pings; the client does not read at present."""

    def handle_ping(self) -> None:
        """Reply, but keep only the latest pongs for a client that does not read (RFC 6455, 5.5.3).

        uvicorn would keep the pongs of all pings in the transport.
        """
        pongs = b"".join(self.conn.data_to_send())
        if self.writable.is_set():
            self.transport.write(pongs)
        elif pongs:
            self._late_pongs = pongs

    def resume_writing(self) -> None:
        super().resume_writing()
        pongs, self._late_pongs = self._late_pongs, b""
        if pongs:
            self.transport.write(pongs)

    def handle_cont(self, event: Frame) -> None:
        super().handle_cont(event)
        if len(self.frames) > MAX_FRAGMENTS:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.conn.parser.close()  # the frame of this generator refers to `conn`
