"""The HTTPS port: our acceptor, and uvicorn for HTTP and WebSockets."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn

from appliance.activity.consumers import MAX_FRAME_BYTES
from appliance.fleet.certificate_files import CertificateFiles
from appliance.http.acceptor import Acceptor
from appliance.http.connection import IDLE_SECONDS, Http, WebSocket
from appliance.http.tls import server_context
from appliance.runtime import descriptors
from appliance.runtime.background import keep_running
from appliance.runtime.connection_table import ConnectionLimits, ConnectionTable
from appliance.runtime.live_settings import current
from appliance.runtime.setting_sections import ConnectionSettings

if TYPE_CHECKING:
    from appliance.http.application import TrackedApplication

log = logging.getLogger(__name__)

DRAIN_SECONDS = 8
TLS_END_SECONDS = 0.5
"""Time in which a client without a pending request may answer the end of TLS. Few do."""
CERTIFICATE_CHECK_SECONDS = 1.0


def connection_limits() -> ConnectionLimits:
    limits = current(ConnectionSettings)
    return ConnectionLimits(
        total=min(limits.max_connections, descriptors.limit() // 2),
        anonymous=limits.max_anonymous_connections,
        anonymous_per_address=limits.max_anonymous_connections_per_address,
    )


class HttpsPort:
    """Event loop only."""

    def __init__(
        self,
        application: TrackedApplication,
        listening: socket.socket,
        certificate: str,
        key: str,
        limits: ConnectionLimits,
    ) -> None:
        """Read the files `certificate` and `key`. `listening` is bound."""
        config = uvicorn.Config(
            application,
            http=Http,
            ws=WebSocket,
            ws_max_size=MAX_FRAME_BYTES,
            ws_per_message_deflate=False,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_keep_alive=int(IDLE_SECONDS),
            timeout_graceful_shutdown=DRAIN_SECONDS,
        )
        self.uvicorn = uvicorn.Server(config)
        self._certificate, self._key = certificate, key
        self._context = server_context(certificate, key)
        self.connections = ConnectionTable(limits)
        self._acceptor = Acceptor(listening, self._context, self.connections, self._make_protocol)

    async def start(self) -> None:
        self.serving = asyncio.create_task(self._serve())
        while not (self.uvicorn.started or self.serving.done()):
            await asyncio.sleep(0.01)
        if not self.serving.done():
            self._acceptor.start()

    async def follow_certificate(self) -> None:
        """Use a renewed certificate for new connections, until cancelled."""
        files = CertificateFiles(Path(self._certificate), Path(self._key))
        while True:
            await asyncio.sleep(CERTIFICATE_CHECK_SECONDS)
            try:
                if files.changed():
                    self._context.load_cert_chain(self._certificate, self._key)
                    log.info("http: serving the renewed certificate")
            except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
                log.error("http: the certificate cannot be read, trying again: %s", error)

    async def stop(self) -> None:
        """Stop accepting, and answer pending requests for at most DRAIN_SECONDS."""
        self._acceptor.close()
        self.uvicorn.should_exit = True
        await asyncio.wait([self.serving], timeout=TLS_END_SECONDS)
        # Connections have a deadline, unless a request on them is pending.
        self.connections.close_expired(sys.float_info.max)
        await asyncio.wait([self.serving], timeout=DRAIN_SECONDS)

    async def _serve(self) -> None:
        closing = asyncio.create_task(keep_running(self._acceptor.close_expired))
        try:
            await self.uvicorn.serve(sockets=[])
        finally:
            closing.cancel()

    def _make_protocol(self, state: dict[str, Any]) -> asyncio.Protocol:
        protocol: asyncio.Protocol = self.uvicorn.config.http_protocol_class(
            config=self.uvicorn.config,
            server_state=self.uvicorn.server_state,
            app_state=state,
            _loop=asyncio.get_running_loop(),
        )
        return protocol
