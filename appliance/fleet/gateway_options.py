"""Command line of the gateway, in its own module so that the controller does not import gRPC."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass

PORT_TAKEN = 3
"""Exit status if the port is in use."""
GATEWAY_ENVIRONMENT = {
    "GRPC_SSL_CIPHER_SUITES": "ECDHE-PSK-CHACHA20-POLY1305",
    "GRPC_VERBOSITY": "ERROR",
}
"""Variables of the gateway process, which gRPC reads when it is imported.

The first one leaves TLS 1.3 only, for which gRPC has no option in Python: it lists the ciphers of
TLS 1.2, and this cipher needs a pre-shared key, which the server does not have. The second one
omits a log line for each failed handshake.
"""


@dataclass(frozen=True)
class Options:
    """Command line of the gateway process."""

    pipe: int
    """File descriptor."""
    samples_socket: str
    """Name, in hexadecimal, of the socket on which the HTTP server accepts samples."""
    address: str
    port: int
    certificate: str
    key: str
    """Files."""
    authority: str
    """File with the certificates of the CAs that sign those of the agents."""
    socket: str
    """Path of the Unix socket between the agent port and gRPC."""
    heartbeat_seconds: float
    max_connections: int
    max_anonymous_connections: int
    max_anonymous_connections_per_address: int

    def arguments(self) -> list[str]:
        return [sys.executable, "-m", "appliance.fleet.gateway", json.dumps(asdict(self))]
