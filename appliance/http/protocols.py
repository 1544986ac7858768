"""uvicorn's protocols, with bounds on what they keep of one client."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

MAX_HEAD_BYTES = 64 << 10
"""Of a request head, and of the trailers after a body, beyond which the connection is closed."""
MAX_FRAGMENTS = 1024
"""Frames of one WebSocket message; those without content count for no other limit."""


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
