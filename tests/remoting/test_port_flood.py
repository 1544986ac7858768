"""The data port while strangers hold many connections: a genuine client gets in."""

from __future__ import annotations

import contextlib
import resource
import socket
import struct
import subprocess
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.supervisor import BUILD, wait_for
from nodes.launcher_control import Grant
from tests.remoting.node import EVENT_SECONDS, LocalNode
from tests.remoting.test_port import (
    CLIENT_HELLO,
    MAGIC,
    flipped,
    opening,
    record_opening,
    response_to,
    run_demo,
)

CONNECTIONS = 300
STRANGER = "127.0.0.2"
PATIENCE_MS = 1_000_000
"""The port keeps silent connections for longer than the tests wait for an answer."""


@pytest.fixture(autouse=True)
def many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="module")
def patient_node() -> Iterator[LocalNode]:
    """A node that closes no connection of these tests because it is silent."""
    node = LocalNode(BUSBAR_FAILPOINT_PATIENCE_MS=str(PATIENCE_MS))
    yield node
    node.stop()


def connect(node_port: int, source: str, first: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", node_port), EVENT_SECONDS, (source, 0))
    connection.sendall(first)
    return connection


def is_answered(node: LocalNode, **ticket: object) -> bool:
    return response_to(node.port, opening(node.ticket(**ticket)))[:1] in (b"\x16", b"\x15")


def await_close(connection: socket.socket) -> None:
    """Wait until the peer closes the connection. Raises TimeoutError if it does not."""
    connection.settimeout(EVENT_SECONDS)
    with contextlib.suppress(ConnectionError):
        assert connection.recv(1) == b""


@pytest.mark.parametrize("source", [STRANGER, "127.0.0.1"])
@pytest.mark.parametrize("first", [b"", b"B", MAGIC + struct.pack("<II", 1, 300)], ids=repr)
def test_client_gets_in_beside_silent_connections(
    patient_node: LocalNode, source: str, first: bytes
) -> None:
    with ExitStack() as connections:
        for _ in range(CONNECTIONS):
            connections.enter_context(connect(patient_node.port, source, first))
        assert is_answered(patient_node)


@contextlib.contextmanager
def dripping(node: LocalNode) -> Iterator[list[socket.socket]]:
    """Hold connections that send an opening a byte at a time, which takes minutes."""
    stop = threading.Event()

    def drip(connections: list[socket.socket]) -> None:
        for byte in opening(node.ticket()):
            for connection in connections:
                with contextlib.suppress(OSError):
                    connection.send(bytes([byte]))
            if stop.wait(0.5):
                return

    with ExitStack() as stack:
        connections = [
            stack.enter_context(connect(node.port, STRANGER)) for _ in range(CONNECTIONS)
        ]
        thread = threading.Thread(target=drip, args=[connections])
        thread.start()
        try:
            yield connections
        finally:
            stop.set()
            thread.join()


def test_client_gets_in_beside_connections_that_send_a_byte_at_a_time(
    patient_node: LocalNode,
) -> None:
    with dripping(patient_node):
        assert is_answered(patient_node)


def test_connection_that_sends_a_byte_at_a_time_is_closed(node: LocalNode) -> None:
    with dripping(node) as connections:
        for connection in connections[-3:]:
            await_close(connection)


def test_stalled_handshakes_of_one_allocation_do_not_delay_another(
    patient_node: LocalNode,
) -> None:
    node = patient_node
    other = uuid.uuid4()
    grants = node.grants()
    both = (*grants.grants, Grant(other, node.tenant_id, *node.fence, node.partitions))
    node.control.apply(replace(grants, grants=both))
    ticket = opening(node.ticket())[: -len(CLIENT_HELLO)]
    with ExitStack() as connections:
        for _ in range(CONNECTIONS):
            connections.enter_context(connect(node.port, STRANGER, ticket))
        assert is_answered(node, allocation_id=other)
    node.grant()


def test_tickets_without_a_handshake_hold_no_threads(patient_node: LocalNode) -> None:
    """Tickets of ten tenants, which travel in clear text, would hold all threads."""
    node = patient_node
    grants, tenants, each = node.grants(), [uuid.uuid4() for _ in range(10)], 40
    more = [Grant(uuid.uuid4(), tenant, *node.fence, node.partitions) for tenant in tenants]
    node.control.apply(replace(grants, grants=(*grants.grants, *more)))
    with ExitStack() as connections:
        for n, grant in enumerate(more):
            ticket = node.ticket(allocation_id=grant.allocation_id)
            first = opening(ticket)[: -len(CLIENT_HELLO)]
            for _ in range(each):
                connections.enter_context(connect(node.port, f"127.0.0.{n + 2}", first))
        assert is_answered(node)
    node.grant()


def recorded_hello(node: LocalNode) -> bytes:
    """Return ticket and ClientHello of a program, which travel in clear text."""
    recorded, done = record_opening(node)
    assert done.returncode == 0, done.stderr
    ticket_end = 16 + struct.unpack_from("<I", recorded, 12)[0]
    record_bytes: int = struct.unpack_from(">H", recorded, ticket_end + 3)[0]
    return recorded[: ticket_end + 5 + record_bytes]


def test_repeated_handshakes_hold_no_threads(patient_node: LocalNode) -> None:
    """Strangers repeat tickets and ClientHellos of eight tenants, and those of the program."""
    node = patient_node
    own, strangers, repetitions = node.allocation_id, 9, 256
    grants, tenants = node.grants(), [uuid.uuid4() for _ in range(strangers - 1)]
    more = [Grant(uuid.uuid4(), tenant, *node.fence, node.partitions) for tenant in tenants]
    node.control.apply(replace(grants, grants=(*grants.grants, *more)))
    hellos = [recorded_hello(node)]
    for grant in more:
        node.allocation_id = grant.allocation_id
        hellos.append(recorded_hello(node))
    node.allocation_id = own
    with ExitStack() as connections:
        for n in range(strangers * repetitions):
            source = f"127.0.0.{2 + n % strangers}"
            connections.enter_context(connect(node.port, source, hellos[n % strangers]))
        done = run_demo(node.remote_environment())
        assert done.returncode == 0, done.stderr
    node.grant()


def test_forged_tickets_exclude_no_other_address(node: LocalNode) -> None:
    forged, stop = opening(flipped(node.ticket(), 40)), threading.Event()

    def flood() -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError), connect(node.port, STRANGER, forged):
                pass

    def is_refused() -> bool:
        return not response_to(node.port, opening(node.ticket()), STRANGER)

    flooding = threading.Thread(target=flood)
    flooding.start()
    try:
        wait_for("the end of the stranger's budget", is_refused, node.folder / "launcher.log")
        assert is_answered(node)
    finally:
        stop.set()
        flooding.join()


class RecordingProxy:
    """Forwards a port of 127.0.0.1 to the data port and records the first bytes of connections."""

    def __init__(self, target_port: int) -> None:
        self.first_bytes: list[bytes] = []
        self._target_port = target_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target_port))
                self.first_bytes.append(client.recv(16 + 4096, socket.MSG_PEEK))
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self._forward, args=pair, daemon=True).start()

    @staticmethod
    def _forward(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for s in (source, sink):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()


def bulk_preambles(proxy: RecordingProxy) -> list[bytes]:
    return [first[:72] for first in proxy.first_bytes if first[8:12] == struct.pack("<I", 2)]


@pytest.fixture
def working_program(patient_node: LocalNode) -> Iterator[RecordingProxy]:
    """A program with a bulk connection through a proxy."""
    node = patient_node
    proxy = RecordingProxy(node.port)
    env = node.remote_environment(BUSBAR_TRANSPORT="tls")
    path = node.folder / "through-proxy"
    path.touch(mode=0o600)
    path.write_text(
        Path(env["BUSBAR_TICKET_FILE"])
        .read_text()
        .replace(f"endpoint 127.0.0.1 {node.port}", f"endpoint 127.0.0.1 {proxy.port}")
    )
    with subprocess.Popen(
        [BUILD / "demo" / "gpu_demo", "work", "1000"],
        env=env | {"BUSBAR_TICKET_FILE": str(path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None and program.stdout.readline() == "working\n"
        yield proxy
        assert program.poll() is None, "the program ended"
        program.kill()
    proxy.close()


def test_bulk_connection_without_the_key_of_its_session_is_closed_at_once(
    patient_node: LocalNode, working_program: RecordingProxy
) -> None:
    node = patient_node
    session = next(s for s in node.sessions() if s.state == "running").session_id.bytes
    (genuine,) = bulk_preambles(working_program)
    wrong_proof = struct.pack("<Q", 1 << 40) + bytes(32)
    for body in (session, session + wrong_proof, genuine[16:]):
        head = MAGIC + struct.pack("<II", 2, len(body))
        with connect(node.port, "127.0.0.1", head + body) as connection:
            await_close(connection)
