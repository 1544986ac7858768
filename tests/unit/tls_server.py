"""A server at the place of the appliance, for answers that no appliance gives at will."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from appliance.fleet.certificates import load_authority, server_certificate
from remoting.cli.api import Context


@contextmanager
def tls_server(folder: Path, handler: type[BaseHTTPRequestHandler]) -> Iterator[Context]:
    """Serve with a certificate for 127.0.0.1, and yield credentials for the server."""
    authority = load_authority(folder)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*server_certificate(authority, folder, ["127.0.0.1"]))
    with HTTPServer(("", 0), handler) as server:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield Context(f"https://127.0.0.1:{server.server_port}", "t", authority.pem)
        finally:
            server.shutdown()
            thread.join()
