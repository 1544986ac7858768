"""Networks in which the appliance connects to SSH servers.

An operator names the address of a machine. Without a limit the appliance would connect to itself,
to the metadata service of a cloud, or to any other service that it can reach.
"""

from __future__ import annotations

import ipaddress
import socket
import time

from appliance.api.errors import ApplianceError, Code

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def is_allowed(address: Address, networks: tuple[Network, ...]) -> bool:
    """Return whether the appliance may connect to the address.

    Without networks every address is allowed that a server in a data centre can have: not
    loopback, link-local (metadata services of clouds), multicast, unspecified or reserved ones.
    """
    address = getattr(address, "ipv4_mapped", None) or address
    if networks:
        return any(address in network for network in networks)
    return not (
        address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or address.is_reserved
    )


def allowed_addresses(name: str, port: int, networks: tuple[Network, ...]) -> list[str]:
    """Resolve a name or address and return its addresses that are allowed. Blocks for the resolver.

    Raises ApplianceError with HOST_UNREACHABLE for an unknown name, ADDRESS_NOT_ALLOWED if none
    of its addresses is allowed.
    """
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ApplianceError(
            Code.HOST_UNREACHABLE, f"The name {name} has no address: {error}. Check the name."
        ) from None
    resolved = list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
    allowed = [a for a in resolved if is_allowed(ipaddress.ip_address(a), networks)]
    if not allowed:
        raise ApplianceError(
            Code.ADDRESS_NOT_ALLOWED,
            f"The appliance does not connect to {name} ({', '.join(resolved)}) over SSH. An"
            " administrator can allow its network with BUSBAR_SSH_NETWORKS.",
        )
    return allowed


def connect(name: str, port: int, seconds: float, networks: tuple[Network, ...]) -> socket.socket:
    """Connect to an allowed address of a machine within `seconds`.

    Connects to the addresses that were checked; the name is not resolved a second time, so its
    owner cannot replace them in between. Raises ApplianceError as `allowed_addresses`, and with
    HOST_UNREACHABLE if no address accepts the connection.
    """
    end = time.monotonic() + seconds
    failure: OSError = TimeoutError("timed out")
    for address in allowed_addresses(name, port, networks):
        try:
            return socket.create_connection((address, port), max(0.1, end - time.monotonic()))
        except OSError as error:
            failure = error
    raise ApplianceError(
        Code.HOST_UNREACHABLE,
        f"Cannot connect to {name} on TCP {port}: {failure}. Check address, port and firewall.",
    )
