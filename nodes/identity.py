"""Identity of the node: its id, its name and the addresses of its appliance."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Identity:
    node_id: str
    node_name: str
    fleet_address: str
    """HOST:PORT of the appliance's fleet service."""
    appliance_url: str
    """URL of the appliance's REST API, where certificates are renewed."""
