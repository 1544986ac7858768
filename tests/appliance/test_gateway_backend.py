"""What the controller sends to the gateway: changed desired states and ended certificates."""

from __future__ import annotations

import asyncio
import contextlib
import io
import math
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from appliance.db.change_log import Change, Topic
from appliance.db.writer import DatabaseThreads, run_in_transaction
from appliance.fleet import backend, desired_state, samples
from appliance.fleet.backend import FleetBackend
from appliance.fleet.desired_state import DesiredStateSender
from appliance.fleet.gateway_options import Options
from appliance.fleet.models import NodeCertificate
from appliance.inventory.generations import increment_generations
from appliance.inventory.models import Node
from appliance.ipc import frames
from appliance.ipc.frames import Frame, Kind
from appliance.telemetry import series
from nodes.protocol import fleet_pb2

AddNode = Callable[..., Node]
TIMEOUT_SECONDS = 120.0


class Gateway:
    """Fake gateway process."""

    def __init__(self, ours: socket.socket) -> None:
        self._socket = ours
        ours.settimeout(TIMEOUT_SECONDS)
        self._stream = io.BufferedReader(socket.SocketIO(ours, "r"))
        self.send(Frame(Kind.READY))

    def send(self, frame: Frame) -> None:
        self._socket.sendall(frame.encode())

    def receive(self, kind: Kind) -> Frame:
        """Return the next frame of this kind; discard others."""
        while (frame := frames.read_frame(self._stream)) is not None:
            if frame.kind is kind:
                return frame
        raise AssertionError("the backend closed the connection")

    def request(self, request: Frame) -> Frame:
        self.send(request)
        return self.receive(Kind.REPLY)

    def generation(self, node: Node) -> int:
        """Return the generation of the next desired state, which must be of this node."""
        frame = self.receive(Kind.DESIRED_STATE)
        assert frame.node == node.pk.bytes
        return int(fleet_pb2.DesiredState.FromString(frame.body).generation)

    def refusal(self, request: Frame) -> bytes:
        """Return code and detail of the error reply."""
        self.send(request)
        return self.receive(Kind.ERROR).body


@contextlib.contextmanager
def gateway_of(fleet: FleetBackend) -> Iterator[Gateway]:
    theirs, ours = socket.socketpair()
    thread = threading.Thread(target=fleet.serve, args=[theirs], daemon=True)
    thread.start()
    yield Gateway(ours)
    ours.shutdown(socket.SHUT_RDWR)
    thread.join(TIMEOUT_SECONDS)


def submit_to_pool(work: Callable[[], Any], *, must: bool) -> Future[Any]:
    """Without a writer thread, writes would run on the thread that queues them."""
    return backend.fleet_pool.submit(run_in_transaction, work)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[FleetBackend, Gateway]]:
    monkeypatch.setattr(backend, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(desired_state, "submit_write", submit_to_pool)
    fleet = FleetBackend(Options(-1, "", "", 0, "", "", "", "", 1.0, 64, 16, 16))
    # With one thread no poll reads meanwhile: SQLite in memory refuses to write a table being read.
    with DatabaseThreads(1) as pool:
        monkeypatch.setattr(backend, "fleet_pool", pool)
        with gateway_of(fleet) as gateway:
            yield fleet, gateway


async def run_while_polling(fleet: FleetBackend, work: Callable[[], None]) -> None:
    polling = asyncio.create_task(fleet.watch_generations())
    try:
        await asyncio.to_thread(work)
    finally:
        polling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await polling


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("lost", [False, True], ids=["announced", "not announced"])
def test_changed_desired_state_is_sent_to_the_gateway_that_has_a_stream_of_the_node(
    add_node: AddNode,
    monkeypatch: pytest.MonkeyPatch,
    lost: bool,
    served: tuple[FleetBackend, Gateway],
) -> None:
    fleet, gateway = served
    node, without_stream = add_node(), add_node()
    if lost:
        monkeypatch.setattr(FleetBackend, "_desired_state_changed", lambda self, change: None)
    else:
        monkeypatch.setattr(DesiredStateSender, "compare", lambda self, generations: None)

    def work() -> None:
        gateway.send(Frame(Kind.DESIRED_STATE, node=node.pk.bytes))
        first = gateway.generation(node)
        backend.fleet_pool.submit(
            run_in_transaction, lambda: increment_generations([without_stream.pk, node.pk])
        ).result()
        assert gateway.generation(node) == first + 1

    asyncio.run(run_while_polling(fleet, work))


@pytest.mark.django_db(transaction=True)
def test_lower_generation_of_a_database_from_the_past_is_sent_to_the_gateway(
    add_node: AddNode, served: tuple[FleetBackend, Gateway]
) -> None:
    """A database may lose commits while the appliance runs, for example at a failover."""
    fleet, gateway = served
    node = add_node()
    Node.objects.update(generation=7)

    def work() -> None:
        gateway.send(Frame(Kind.DESIRED_STATE, node=node.pk.bytes))
        assert gateway.generation(node) == 7
        backend.fleet_pool.submit(lambda: Node.objects.update(generation=5)).result()
        assert gateway.generation(node) == 5
        backend.fleet_pool.submit(
            run_in_transaction, lambda: increment_generations([node.pk])
        ).result()
        assert gateway.generation(node) == 6

    asyncio.run(run_while_polling(fleet, work))


@pytest.mark.django_db(transaction=True)
def test_restarted_gateway_gets_the_desired_states_of_its_new_streams(
    add_node: AddNode, served: tuple[FleetBackend, Gateway]
) -> None:
    fleet, gateway = served
    node = add_node()
    began = Frame(Kind.DESIRED_STATE, node=node.pk.bytes)
    gateway.send(began)
    generation = gateway.generation(node)
    with gateway_of(fleet) as restarted:
        restarted.send(began)
        assert restarted.generation(node) == generation


@pytest.mark.django_db(transaction=True)
def test_change_after_the_gateway_has_ended_builds_no_desired_state(
    add_node: AddNode, monkeypatch: pytest.MonkeyPatch, served: tuple[FleetBackend, Gateway]
) -> None:
    fleet, _ = served
    node = add_node()
    with gateway_of(fleet) as ended:
        ended.send(Frame(Kind.DESIRED_STATE, node=node.pk.bytes))
        ended.generation(node)
    monkeypatch.setattr(desired_state, "submit_write", None)
    fleet._desired_state_changed(Change(Topic.DESIRED_STATE, node.pk))


@pytest.mark.django_db(transaction=True)
def test_revocation_of_an_admitted_certificate_is_sent_to_the_gateway(
    add_node: AddNode, served: tuple[FleetBackend, Gateway]
) -> None:
    fleet, gateway = served
    nodes = {serial: add_node() for serial in ("kept", "lost", "not admitted")}
    for serial, node in nodes.items():
        NodeCertificate.objects.create(
            serial=serial, node=node, purpose="agent", not_after=timezone.now() + timedelta(days=1)
        )

    def work() -> None:
        for serial in ("kept", "lost"):
            reply = gateway.request(Frame(Kind.ADMIT, 1, body=serial.encode()))
            assert reply.body == nodes[serial].pk.bytes
        backend.fleet_pool.submit(
            lambda: NodeCertificate.objects.exclude(serial="kept").update(revoked_at=timezone.now())
        ).result()
        assert gateway.receive(Kind.CERTIFICATES_ENDED).body == b"lost"
        assert gateway.refusal(Frame(Kind.ADMIT, 2, body=b"lost")).startswith(b"unauthenticated")

    asyncio.run(run_while_polling(fleet, work))


@pytest.mark.django_db(transaction=True)
def test_invalid_samples_of_one_node_do_not_affect_other_nodes(add_node: AddNode) -> None:
    nodes = [add_node().pk.bytes for _ in range(3)]
    messages = zip(nodes, (b"\xff\xff", b"", b"\x12\x01m"), strict=True)
    assert samples.store_samples(frames.pack_by_node(messages)) == bytes([0, 0, 1])


@pytest.mark.django_db(transaction=True)
def test_reply_to_an_ended_gateway_does_not_affect_the_next_one(
    served: tuple[FleetBackend, Gateway],
) -> None:
    fleet, gateway = served
    old, ours = socket.socketpair()
    old.close()
    ours.close()
    fleet._send(ours, Frame(Kind.REPLY, 1))
    assert gateway.refusal(Frame(Kind.ADMIT, 9, body=b"x"))


@pytest.mark.django_db(transaction=True)
def test_unknown_certificate_is_not_admitted(served: tuple[FleetBackend, Gateway]) -> None:
    _, gateway = served
    assert gateway.refusal(Frame(Kind.ADMIT, 9, body=b"x")).startswith(b"unauthenticated")


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_node_cannot_add_sets_of_metrics(add_node: AddNode) -> None:
    """The database keeps each set of names for good."""
    node = add_node()
    gpu = node.gpus.get()
    for n in range(3):
        sent = fleet_pb2.Samples(
            metrics=[f"invented_{n}", "power_watts", *["fan_percent"] * (n % 2)],
            gpus=[
                fleet_pb2.GpuSample(
                    gpu_uuid=gpu.uuid.bytes, values=[7.0, 30.0 + n, *[1.0] * (n % 2)]
                )
            ],
        )
        packed = frames.pack_by_node([(node.pk.bytes, sent.SerializeToString())])
        assert samples.store_samples(packed) == b"\1"
    assert series.latest_metrics(gpu.pk) == {"power_watts": 32.0}
    assert {p.metrics for p in series.unwritten_points_before(gpu.pk, math.inf)} == {
        samples.METRIC_NAMES
    }
