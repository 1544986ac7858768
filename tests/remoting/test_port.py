"""The data port sends nothing before it has verified a ticket."""

from __future__ import annotations

import base64
import contextlib
import socket
import ssl
import struct
import subprocess
import threading
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from appliance.allocations.ticket_layouts import Partition
from appliance.allocations.tickets import SigningKey
from deploy.supervisor import BUILD
from tests.remoting.node import EVENT_SECONDS, LocalNode

MAGIC = b"BUSBAR1\n"
CLIENT_HELLO = (
    bytes.fromhex("160301003b010000370303")
    + bytes(32)
    + bytes.fromhex("00000213010100000c002b0003020304")
    + bytes(8)
)


def response_to(port: int, first: bytes, source: str = "127.0.0.1") -> bytes:
    """Send bytes from an address and return the first bytes received, empty if there are none."""
    with socket.create_connection(("127.0.0.1", port), EVENT_SECONDS, (source, 0)) as s:
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
    "a ticket and no handshake": lambda n: opening(n.ticket())[: -len(CLIENT_HELLO)],
    "a handshake that is cut": lambda n: opening(n.ticket())[:-8],
    "another record in place of a handshake": lambda n: opening(n.ticket()).replace(
        CLIENT_HELLO, b"\x17" + CLIENT_HELLO[1:]
    ),
    "a handshake that is too long": lambda n: opening(n.ticket()).replace(
        CLIENT_HELLO, CLIENT_HELLO[:3] + b"\x10\x00" + bytes(4096)
    ),
    "a flipped bit": lambda n: opening(flipped(n.ticket(), 40)),
    "a flipped signature": lambda n: opening(flipped(n.ticket(), len(n.ticket()) - 1)),
    "another appliance's key": lambda n: opening(
        n.ticket(key=SigningKey(Ed25519PrivateKey.generate()))
    ),
    "another node": lambda n: opening(n.ticket(node_id=uuid.uuid4())),
    "another allocation": lambda n: opening(n.ticket(allocation_id=uuid.uuid4())),
    "an older fence": lambda n: opening(n.ticket(fence=(1, 4))),
    "an expired ticket": lambda n: opening(n.ticket(now_seconds=1)),
    "another GPU": lambda n: opening(
        n.ticket(partitions=[Partition(n.gpus[1].bytes, 1 << 30, 50)])
    ),
}


@pytest.mark.parametrize("case", INVALID_OPENINGS)
def test_invalid_opening_receives_no_response(node: LocalNode, case: str) -> None:
    assert response_to(node.port, INVALID_OPENINGS[case](node)) == b""


def test_valid_ticket_receives_response(node: LocalNode) -> None:
    """Counter-check of the test above."""
    assert response_to(node.port, opening(node.ticket()))[:1] in (b"\x16", b"\x15")


def test_ticket_from_before_a_resize_receives_response(node: LocalNode) -> None:
    """The size is that of the grant (test_resize.py), whatever the ticket says."""
    ticket = node.ticket(partitions=[Partition(node.gpus[0].bytes, 2 << 30, 50)])
    assert response_to(node.port, opening(ticket))[:1] in (b"\x16", b"\x15")


def handshake(node: LocalNode, newest: ssl.TLSVersion) -> None:
    """Open the port with a valid ticket and perform a handshake with at most this version."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = newest
    with socket.create_connection(("127.0.0.1", node.port), timeout=EVENT_SECONDS) as s:
        s.sendall(opening(node.ticket())[: -len(CLIENT_HELLO)])
        with context.wrap_socket(s):
            pass


def test_handshake_of_an_older_tls_version_is_rejected(node: LocalNode) -> None:
    with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
        handshake(node, ssl.TLSVersion.TLSv1_2)


def test_handshake_without_the_key_is_rejected(node: LocalNode) -> None:
    with pytest.raises(ssl.SSLError, match="HANDSHAKE_FAILURE"):
        handshake(node, ssl.TLSVersion.TLSv1_3)


def run_demo(env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BUILD / "demo" / "gpu_demo"],
        env=env,
        capture_output=True,
        text=True,
        timeout=EVENT_SECONDS,
        check=False,
    )


def test_node_without_the_secret_of_the_ticket_is_rejected(node: LocalNode) -> None:
    """A stranger at the address of the node has the public keys and the ticket."""
    secret = node.key.node_secret(uuid.uuid4())
    own = node.ticket_key()
    node.control.apply(replace(node.grants(), keys=(replace(own, node_secret=secret),)))
    try:
        refused = run_demo(node.remote_environment())
    finally:
        node.grant()
    assert refused.returncode != 0 and "CUDA_ERROR_NO_DEVICE" in refused.stderr
    assert run_demo(node.remote_environment()).returncode == 0


def test_node_without_any_secret_does_not_respond(node: LocalNode) -> None:
    """Everybody knows a secret of zeros, so an appliance without secrets opens nothing."""
    key = replace(node.ticket_key(), node_secret=bytes(32))
    node.control.apply(replace(node.grants(), keys=(key,)))
    try:
        assert response_to(node.port, opening(node.ticket())) == b""
    finally:
        node.grant()


def forward(source: socket.socket, target: socket.socket, seen: list[bytes]) -> None:
    """Copy bytes to the other connection until one of them ends."""
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            seen.append(data)
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def record_opening(node: LocalNode) -> tuple[bytes, subprocess.CompletedProcess[str]]:
    """Run a program through a proxy. Return the bytes of its first connection to the node."""
    sent: list[list[bytes]] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        env = node.remote_environment(BUSBAR_TRANSPORT="tls")
        path = Path(env["BUSBAR_TICKET_FILE"])
        endpoint = f"endpoint 127.0.0.1 {listener.getsockname()[1]}"
        path.write_text(path.read_text().replace(f"endpoint 127.0.0.1 {node.port}", endpoint))

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client = listener.accept()[0]
                    server = socket.create_connection(("127.0.0.1", node.port))
                    sent.append([])
                    for way in ((client, server, sent[-1]), (server, client, [])):
                        threading.Thread(target=forward, args=way, daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        done = run_demo(env)
    return b"".join(sent[0]), done


def test_repeated_opening_gives_no_session(node: LocalNode) -> None:
    recorded, done = record_opening(node)
    assert done.returncode == 0, done.stderr
    before = {s.session_id for s in node.sessions()}
    answer = response_to(node.port, recorded)
    assert answer[:1] == b"\x16", "the ticket is valid, so the handshake begins"
    assert {s.session_id for s in node.sessions()} == before


def test_ticket_without_its_key_is_rejected(node: LocalNode) -> None:
    stolen = node.ticket(
        client_public_key=X25519PrivateKey.generate().public_key().public_bytes_raw()
    )
    env = node.remote_environment()
    lines = Path(env["BUSBAR_TICKET_FILE"]).read_text().splitlines()
    path = node.folder / "stolen"
    path.touch(mode=0o600)
    path.write_text("\n".join([*lines[:-1], f"ticket {base64.b64encode(stolen).decode()}"]) + "\n")
    done = run_demo(env | {"BUSBAR_TICKET_FILE": str(path)})
    assert done.returncode != 0 and "CUDA_ERROR_NO_DEVICE" in done.stderr


def test_ticket_file_readable_by_others_is_rejected(node: LocalNode) -> None:
    env = node.remote_environment()
    path = Path(env["BUSBAR_TICKET_FILE"])
    path.chmod(0o644)
    done = run_demo(env)
    path.chmod(0o600)
    assert done.returncode != 0 and "chmod 600" in done.stderr
