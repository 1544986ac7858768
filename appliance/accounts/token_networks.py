"""Networks from which an API token is valid."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from functools import lru_cache

from appliance.api.errors import ApplianceError, Code

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
REFUSED = (
    "The token is not valid from your address. Use it from one of its networks, or create a token "
    "for yours."
)


def normalized(text: str) -> str:
    """Return the network in its usual form; an address is a network of one.

    Raises ValueError for anything else, also for an address with bits beyond the prefix.
    """
    network = ipaddress.ip_network(text)
    if isinstance(network, ipaddress.IPv6Network) and network.network_address.scope_id:
        raise ValueError(text)
    return str(network)


@lru_cache(4096)
def _parse(text: str) -> Network:
    return ipaddress.ip_network(text)


def includes(networks: Sequence[str], address: str) -> bool:
    """Return whether one of the networks has this address, or there are none.

    An IPv4 address that a socket for IPv6 shows as `::ffff:10.0.0.1` is an address of IPv4.
    """
    if not networks:
        return True
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return any((mapped or parsed) in _parse(text) for text in networks)


def require(networks: Sequence[str], address: str) -> None:
    """Raise ApplianceError TOKEN_NETWORK if a token of these networks is not valid from here."""
    if not includes(networks, address):
        raise ApplianceError(Code.TOKEN_NETWORK, REFUSED)


def covers(outer: Sequence[str], inner: Iterable[str]) -> bool:
    """Return whether each of the inner networks lies in one of the outer ones."""
    return not outer or all(any(_is_part(n, o) for o in outer) for n in inner)


def _is_part(inner: str, outer: str) -> bool:
    a, b = _parse(inner), _parse(outer)
    if isinstance(a, ipaddress.IPv4Network) and isinstance(b, ipaddress.IPv4Network):
        return a.subnet_of(b)
    if isinstance(a, ipaddress.IPv6Network) and isinstance(b, ipaddress.IPv6Network):
        return a.subnet_of(b)
    return False
