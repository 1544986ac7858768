"""The data port sends nothing before it has verified a ticket."""

from __future__ import annotations

import base64
import contextlib
import socket
import ssl
import struct
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from appliance.allocations.tickets import SigningKey, TicketPartition
from deploy.supervisor import BUILD
from tests.remoting.node import LocalNode

MAGIC = b"BUSBAR1\n"
CLIENT_HELLO = (
    bytes.fromhex("160301003b010000370303")
    + bytes(32)
    + bytes.fromhex("00000213010100000c002b0003020304")
    + bytes(8)
)


def response_to(port: int, first: bytes) -> bytes:
    """Send bytes and return the first bytes received, empty if there are none."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as s:
        # The port may close the connection early; bytes that it sent can still be received.
        with contextlib.suppress(OSError):
            s.sendall(first)
            s.shutdown(socket.SHUT_WR)
        try:
            return s.recv(4096)
        except OSError:
            return b""


def opening(ticket: bytes) -> bytes:
    return MAGIC + struct.pack("<II", 1, len(ticket)) + ticket + CLIENT_HELLO


def flipped(ticket: bytes, at: int) -> bytes:
    return ticket[:at] + bytes([ticket[at] ^ 1]) + ticket[at + 1 :]


INVALID_OPENINGS: dict[str, Callable[[LocalNode], bytes]] = {
    "nothing": lambda n: b"",
    "http": lambda n: b"GET / HTTP/1.1\r\n\r\n",
    "tls without a ticket": lambda n: CLIENT_HELLO,
    "a length that is too large": lambda n: MAGIC + struct.pack("<II", 1, 1 << 30),
    "an unknown purpose": lambda n: MAGIC + struct.pack("<II", 9, 16) + bytes(16),
    "an unknown session": lambda n: MAGIC + struct.pack("<II", 2, 16) + bytes(16),
    "a truncated ticket": lambda n: opening(n.ticket()[:-1]),
    "a flipped bit": lambda n: opening(flipped(n.ticket(), 40)),
    "a flipped signature": lambda n: opening(flipped(n.ticket(), len(n.ticket()) - 1)),
    "another appliance's key": lambda n: opening(
        n.ticket(key=SigningKey(Ed25519PrivateKey.generate()))
    ),
    "another node": lambda n: opening(n.ticket(node_id=uuid.uuid4())),
    "another allocation": lambda n: opening(n.ticket(allocation_id=uuid.uuid4())),
    "an older fence": lambda n: opening(n.ticket(fence=(1, 4))),
    "an expired ticket": lambda n: opening(n.ticket(now_seconds=1)),
    "more memory than granted": lambda n: opening(
        n.ticket(partitions=[TicketPartition(n.gpus[0], 2 << 30, 50)])
    ),
    "another GPU": lambda n: opening(
        n.ticket(partitions=[TicketPartition(n.gpus[1], 1 << 30, 50)])
    ),
}


@pytest.mark.parametrize("case", INVALID_OPENINGS)
def test_invalid_opening_receives_no_response(node: LocalNode, case: str) -> None:
    assert response_to(node.port, INVALID_OPENINGS[case](node)) == b""


def test_valid_ticket_receives_response(node: LocalNode) -> None:
    """Counter-check of the test above."""
    assert response_to(node.port, opening(node.ticket()))[:1] in (b"\x16", b"\x15")


def handshake(node: LocalNode, newest: ssl.TLSVersion) -> None:
    """Open the port with a valid ticket and perform a handshake with at most this version."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = newest
    with socket.create_connection(("127.0.0.1", node.port), timeout=10) as s:
        s.sendall(opening(node.ticket())[: -len(CLIENT_HELLO)])
        with context.wrap_socket(s) as tls:
            assert tls.version() == "TLSv1.3"


def test_handshake_of_an_older_tls_version_is_rejected(node: LocalNode) -> None:
    handshake(node, ssl.TLSVersion.TLSv1_3)
    with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
        handshake(node, ssl.TLSVersion.TLSv1_2)


def test_ticket_without_its_key_is_rejected(node: LocalNode) -> None:
    stolen = node.ticket(
        client_public_key=Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    )
    env = node.remote_environment()
    lines = Path(env["BUSBAR_TICKET_FILE"]).read_text().splitlines()
    path = node.folder / "stolen"
    path.touch(mode=0o600)
    path.write_text("\n".join([*lines[:-1], f"ticket {base64.b64encode(stolen).decode()}"]) + "\n")
    done = subprocess.run(
        [BUILD / "demo" / "gpu_demo"],
        env=env | {"BUSBAR_TICKET_FILE": str(path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0 and "CUDA_ERROR_NO_DEVICE" in done.stderr


def test_ticket_file_readable_by_others_is_rejected(node: LocalNode) -> None:
    env = node.remote_environment()
    path = Path(env["BUSBAR_TICKET_FILE"])
    path.chmod(0o644)
    done = subprocess.run(
        [BUILD / "demo" / "gpu_demo"],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    path.chmod(0o600)
    assert done.returncode != 0 and "chmod 600" in done.stderr
