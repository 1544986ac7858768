"""Endpoints of nodes: their networks, their order for a client, and whether they are open."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from appliance.api.errors import ApplianceError, Code
from appliance.inventory.models import Endpoint, Node

CONNECT_TIMEOUT_SECONDS = 2.0


class EndpointAddress(NamedTuple):
    """Columns of an endpoint that clients use."""

    address: str
    port: int
    network: str


def sort_endpoints(
    endpoints: Iterable[EndpointAddress], *, network: str, client_address: str
) -> list[EndpointAddress]:
    """Order endpoints for a client.

    Endpoints of the given network come first, then those with the longest address prefix in
    common with the client. Ties keep the order of the node.
    """
    return sorted(
        endpoints,
        key=lambda e: (network not in ("", e.network), -common_bits(e.address, client_address)),
    )


def common_bits(one: str, other: str) -> int:
    """Return the length of the common prefix; 0 for names and for different address families."""
    try:
        a, b = ipaddress.ip_address(one), ipaddress.ip_address(other)
    except ValueError:
        return 0
    return a.max_prefixlen - (int(a) ^ int(b)).bit_length() if a.version == b.version else 0


def set_networks(node_id: UUID, networks: dict[str, str]) -> bool:
    """Set the network of addresses of a node. Return whether anything changed.

    Must be called inside a transaction. Raises ApplianceError INVALID for unknown addresses.
    """
    known = {e.address: e for e in Endpoint.objects.filter(node_id=node_id)}
    if unknown := networks.keys() - known.keys():
        raise ApplianceError(
            Code.INVALID,
            f"The node has no address {sorted(unknown)[0][:80]}. "
            f"Its addresses: {', '.join(sorted(known)) or 'none'}.",
        )
    changed = [a for a, network in networks.items() if known[a].network != network]
    for address in changed:
        Endpoint.objects.filter(node_id=node_id, address=address).update(network=networks[address])
    return bool(changed)


def closed_endpoints(node: Node) -> list[str]:
    """Return the endpoints that refuse connections from the appliance.

    Blocks for up to CONNECT_TIMEOUT_SECONDS for each endpoint.
    """
    found = []
    for e in node.endpoints.order_by("position"):
        try:
            socket.create_connection((e.address, e.port), CONNECT_TIMEOUT_SECONDS).close()
        except OSError:
            found.append(f"{e.address}:{e.port}")
    return found
