"""TLS of the HTTPS port: version 1.3 only."""

from __future__ import annotations

import ssl


def server_context(certificate: str, key: str) -> ssl.SSLContext:
    """Return the context of the server from files in PEM format."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(certificate, key)
    return context
