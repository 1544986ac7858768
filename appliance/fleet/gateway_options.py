"""What the appliance tells its gateway. Apart from it, so that whoever starts it need not load what it serves with."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass

PORT_TAKEN = 3
"""Its exit status."""


@dataclass(frozen=True)
class Options:
    """On its command line."""

    pipe: int
    """File descriptor."""
    readings: str
    """Name, in hexadecimal, of the socket on which the web's process takes samples."""
    address: str
    port: int
    certificate: str
    key: str
    """Files."""
    authority_pem: str
    heartbeat_seconds: float

    def arguments(self) -> list[str]:
        return [sys.executable, "-m", "appliance.fleet.gateway", json.dumps(asdict(self))]
