"""The key of limits by address."""

from __future__ import annotations

import ipaddress

IPV6_CLIENT_BITS = 64
"""One client commonly has a whole IPv6 network of this size."""


def client_network(address: str) -> str:
    """Return the address, or the network of an IPv6 client."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, IPV6_CLIENT_BITS), strict=False))
    return address
