"""Webhooks: signed requests to addresses that were checked.

The name of the URL is resolved once, and the connection goes to an address that was checked, so
that the owner of the name cannot direct the appliance to itself or to a metadata service.
Redirects are not followed.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import ipaddress
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import SplitResult, urlsplit

from appliance.alarms.action_errors import ActionError, ActionRefusedError
from appliance.fleet.ssh_networks import Address, Network, is_allowed

SIGNATURE = "Busbar-Signature"
TIMEOUT_SECONDS = 10.0
TOTAL_SECONDS = 30.0
"""Of a request. A server that sends a byte now and then keeps to the timeouts for ever."""
MAX_RESPONSE = 4096
SCHEMES = {"http": 80, "https": 443}
METADATA = frozenset(
    map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192"))
)
"""Metadata services of clouds whose addresses are not link-local."""
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def parse_url(url: str) -> SplitResult:
    """Return the parts of a URL that a webhook can have. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise ValueError("webhook_url must be an http or https URL with a host.")
    if parts.username or parts.password or parts.fragment:
        raise ValueError("webhook_url must have neither a user, a password nor a fragment.")
    if parts.port == 0:
        raise ValueError("webhook_url must have a port from 1 to 65535.")
    if not re.fullmatch(r"[!-~]*", parts.path + parts.query):
        raise ValueError("webhook_url must have ASCII characters only behind the host.")
    return parts


def send(url: str, secret: str, content: Mapping[str, Any], networks: Sequence[Network]) -> None:
    """Post the content as JSON. Blocks for the resolver and for TOTAL_SECONDS at most.

    Raises ActionRefusedError for an address that is not allowed, and ActionError if the server
    does not accept the request.
    """
    parts = parse_url(url)
    body = json.dumps(content, separators=(",", ":")).encode()
    headers = headers_of(content, secret, body)
    host, port = parts.hostname or "", parts.port or SCHEMES[parts.scheme]
    end = time.monotonic() + TOTAL_SECONDS
    with open_socket(host, port, networks, end) as stream, shut_down_at(stream, end):
        status = post(connect(parts, stream), parts, body, headers)
    if time.monotonic() >= end:  # then the response was cut off, and may look complete
        raise ActionError(f"{host} did not respond within {TOTAL_SECONDS:g} s")
    if not 200 <= status < 300:
        raise ActionError(f"{host} responded with status {status}")


def post(
    connection: http.client.HTTPConnection,
    parts: SplitResult,
    body: bytes,
    headers: Mapping[str, str],
) -> int:
    """Return the status of the response. Raises ActionError if there is none."""
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("POST", target, body, headers)
        response = connection.getresponse()
        response.read(MAX_RESPONSE)
    except (OSError, http.client.HTTPException) as error:
        raise ActionError(f"{parts.hostname}: {error or type(error).__name__}") from error
    finally:
        connection.close()
    return response.status


@contextmanager
def shut_down_at(stream: socket.socket, end: float) -> Iterator[None]:
    """Shut the connection down if it still exists at a time of the monotonic clock."""
    other = stream.dup()  # TLS takes over the descriptor of the first

    def shut_down() -> None:
        with suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(max(0.0, end - time.monotonic()), shut_down)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        other.close()


def headers_of(content: Mapping[str, Any], secret: str, body: bytes) -> dict[str, str]:
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "busbar",
        "Busbar-Delivery": str(content.get("id", "")),
    }
    if secret:
        headers[SIGNATURE] = sign(secret, int(time.time()), body)
    return headers


def sign(secret: str, seconds: int, body: bytes) -> str:
    """Return `t=SECONDS,v1=HEX`: an HMAC with SHA-256 of the time, a dot and the body."""
    signed = hmac.new(secret.encode(), b"%d." % seconds + body, hashlib.sha256)
    return f"t={seconds},v1={signed.hexdigest()}"


def connect(parts: SplitResult, stream: socket.socket) -> http.client.HTTPConnection:
    """Return a connection over an open socket; TLS verifies the name of the URL."""
    host = parts.hostname or ""
    connection = http.client.HTTPConnection(
        host, parts.port or SCHEMES[parts.scheme], timeout=TIMEOUT_SECONDS
    )
    try:
        if parts.scheme == "https":
            context = ssl.create_default_context()
            stream = context.wrap_socket(stream, server_hostname=host)
    except (OSError, ValueError) as error:
        raise ActionError(f"{host}: {error}") from error
    connection.sock = stream
    return connection


def open_socket(host: str, port: int, networks: Sequence[Network], end: float) -> socket.socket:
    """Connect to an allowed address until `end`, whatever their number."""
    failure: OSError = TimeoutError("timed out")
    for address in allowed_addresses(host, port, networks):
        left = end - time.monotonic()
        if left <= 0:
            break
        try:
            return socket.create_connection((address, port), min(TIMEOUT_SECONDS, left))
        except OSError as error:
            failure = error
    raise ActionError(f"{host}: {failure}")


def allowed_addresses(host: str, port: int, networks: Sequence[Network]) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ActionError(f"the name {host} has no address: {error}") from error
    resolved = list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
    allowed = [a for a in resolved if may_connect(ipaddress.ip_address(a), networks)]
    if not allowed:
        raise ActionRefusedError(
            f"the appliance does not connect to {host} ({', '.join(resolved)}); the setting "
            "alarms.webhook_networks can allow its network"
        )
    return allowed


def may_connect(address: Address, networks: Sequence[Network]) -> bool:
    """Return whether webhooks may go there: in one of the networks, or not a local address."""
    address = embedded(address)
    if any(address in network for network in networks):
        return True
    return is_allowed(address, ()) and address not in METADATA


def embedded(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address stands for, if it does."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or address
