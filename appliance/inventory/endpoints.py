"""A node's data plane may be reached by several addresses: which of them a client is to try first, and which of them answer."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from appliance.errors import ApplianceError, Code
from appliance.inventory.models import Endpoint, Node

ANSWER_SECONDS = 2.0


class Way(NamedTuple):
    address: str
    port: int
    network: str


def in_order(ways: Iterable[Way], *, network: str, client_address: str) -> list[Way]:
    """Those of the pool's network first; of them the nearest to the client, with the most leading bits in common; then as the node has them."""
    return sorted(
        ways,
        key=lambda w: (network not in ("", w.network), -common_bits(w.address, client_address)),
    )


def common_bits(one: str, other: str) -> int:
    """0 for names, and for addresses of different families."""
    try:
        a, b = ipaddress.ip_address(one), ipaddress.ip_address(other)
    except ValueError:
        return 0
    return a.max_prefixlen - (int(a) ^ int(b)).bit_length() if a.version == b.version else 0


def label(node_id: UUID, networks: dict[str, str]) -> bool:
    """Address to the name of its network. True when something changed. Inside a transaction."""
    known = {e.address: e for e in Endpoint.objects.filter(node_id=node_id)}
    if unknown := networks.keys() - known.keys():
        raise ApplianceError(
            Code.INVALID,
            f"The node has no address {sorted(unknown)[0][:80]}; it has {', '.join(sorted(known)) or 'none'}.",
        )
    changed = [a for a, network in networks.items() if known[a].network != network]
    for address in changed:
        Endpoint.objects.filter(node_id=node_id, address=address).update(network=networks[address])
    return bool(changed)


def silent(node: Node) -> list[str]:
    """The addresses at which nobody takes a connection from here. Blocks."""
    found = []
    for e in node.endpoints.order_by("position"):
        try:
            socket.create_connection((e.address, e.port), ANSWER_SECONDS).close()
        except OSError:
            found.append(f"{e.address}:{e.port}")
    return found
