"""uvicorn's connections, which leave nothing of themselves behind.

Parts of them hold each other. Such rings, with the memory of TLS that hangs on some, wait for the collector of cycles, which looks at what is old only once an
hour here (`garbage.py`); so they are cut where a connection ends.
"""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


class Http(HttpToolsProtocol):  # type: ignore[misc]  # mypy is told nothing of uvicorn
    def handle_websocket_upgrade(self) -> None:
        """From here on only the WebSocket hears how the connection ends."""
        super().handle_websocket_upgrade()
        self.parser = None


class WebSocket(WebSocketsSansIOProtocol):  # type: ignore[misc]
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.conn.parser.close()  # a generator whose frame holds `conn`
