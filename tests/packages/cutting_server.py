"""An HTTPS server that closes the first connections in the middle of a file."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from appliance.fleet.certificates import load_authority, server_certificate


@dataclass
class CuttingServer:
    """Serves one content under each path."""

    content: bytes
    cuts: int
    ca_pem: str
    listening: socket.socket = field(repr=False)
    context: ssl.SSLContext = field(repr=False)
    requests: int = 0

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.listening.getsockname()[1]}"

    def serve(self) -> None:
        while True:
            try:
                accepted, _ = self.listening.accept()
            except OSError:
                return
            with suppress(OSError), self.context.wrap_socket(accepted, server_side=True) as client:
                self._respond(client)

    def _respond(self, client: ssl.SSLSocket) -> None:
        while b"\r\n\r\n" not in client.recv(65536):
            pass
        self.requests += 1
        sent = len(self.content) // 2 if self.requests <= self.cuts else len(self.content)
        head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(self.content)}\r\n\r\n"
        client.sendall(head.encode() + self.content[:sent])


@contextmanager
def cutting_server(folder: Path, content: bytes, cuts: int) -> Iterator[CuttingServer]:
    folder.mkdir()
    authority = load_authority(folder)
    certificate, key = server_certificate(authority, folder, ["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        found = CuttingServer(content, cuts, authority.pem.strip(), listening, context)
        threading.Thread(target=found.serve, daemon=True).start()
        yield found
