"""Wake-ups are hints: when every one is lost, the gateway learns of nodes' generations all the same."""

from __future__ import annotations

import asyncio
import contextlib
import io
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.utils import timezone

from appliance import pipe
from appliance.fleet import backend, samples
from appliance.fleet.backend import FleetBackend
from appliance.fleet.gateway_options import Options
from appliance.fleet.models import NodeCertificate
from appliance.inventory import wakeups
from appliance.inventory.models import Node
from appliance.inventory.services import raise_generation
from appliance.pipe import Frame, Kind
from appliance.writer import fleet_readers, write

AddNode = Callable[..., Node]
PATIENCE_SECONDS = 10.0


class Gateway:
    """This test, in its place."""

    def __init__(self, ours: socket.socket) -> None:
        self._socket = ours
        ours.settimeout(PATIENCE_SECONDS)
        self._stream = io.BufferedReader(socket.SocketIO(ours, "r"))
        self.say(Frame(Kind.READY))

    def say(self, frame: Frame) -> None:
        self._socket.sendall(frame.packed())

    def hear(self, kind: Kind) -> Frame:
        """The next of this kind."""
        while (frame := pipe.read(self._stream)) is not None:
            if frame.kind is kind:
                return frame
        raise AssertionError("the appliance hung up")

    def ask(self, question: Frame) -> Frame:
        self.say(question)
        return self.hear(Kind.ANSWER)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[FleetBackend, Gateway]]:
    monkeypatch.setattr(backend, "COMPARE_SECONDS", 0.05)
    made = FleetBackend(Options(-1, "", "", 0, "", "", "", 1.0))
    theirs, ours = socket.socketpair()
    thread = threading.Thread(target=made.serve, args=[theirs], daemon=True)
    thread.start()
    yield made, Gateway(ours)
    ours.shutdown(socket.SHUT_RDWR)
    thread.join(PATIENCE_SECONDS)


async def while_comparing(made: FleetBackend, work: Callable[[], None]) -> None:
    comparing = asyncio.create_task(made.compare())
    try:
        await asyncio.to_thread(work)
    finally:
        comparing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await comparing


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("lost", [False, True], ids=["hints come", "hints are lost"])
def test_the_gateway_is_told_when_a_generation_rose(
    add_node: AddNode,
    monkeypatch: pytest.MonkeyPatch,
    lost: bool,
    served: tuple[FleetBackend, Gateway],
) -> None:
    made, gateway = served
    node, other = add_node(), add_node()
    if lost:
        monkeypatch.setattr(wakeups, "hint", lambda node_ids: None)

    def work() -> None:
        assert set(pipe.ids(gateway.hear(Kind.LOOK).body)) == {node.pk.bytes, other.pk.bytes}, (
            "the first look is at all"
        )
        fleet_readers.submit(lambda: write(lambda: raise_generation([node.pk]))).result()
        assert list(pipe.ids(gateway.hear(Kind.LOOK).body)) == [node.pk.bytes]

    asyncio.run(while_comparing(made, work))


@pytest.mark.django_db(transaction=True)
def test_the_gateway_is_told_that_a_certificate_it_let_in_was_revoked(
    add_node: AddNode, served: tuple[FleetBackend, Gateway]
) -> None:
    made, gateway = served
    node = add_node()
    for serial in ("kept", "lost", "never seen"):
        NodeCertificate.objects.create(
            serial=serial, node=node, purpose="agent", not_after=timezone.now() + timedelta(days=1)
        )

    def work() -> None:
        for serial in ("kept", "lost"):
            assert (
                gateway.ask(
                    Frame(Kind.ADMIT, 1, body=f"/busbar.fleet.v1.Fleet/Connect {serial}".encode())
                ).body
                == node.pk.bytes
            )
        fleet_readers.submit(
            lambda: NodeCertificate.objects.exclude(serial="kept").update(revoked_at=timezone.now())
        ).result()
        assert gateway.hear(Kind.ENDED).body == b"lost"
        assert (
            gateway.ask(Frame(Kind.ADMIT, 2, body=b"/busbar.fleet.v1.Fleet/Connect lost")).body
            == b""
        )

    asyncio.run(while_comparing(made, work))


@pytest.mark.django_db(transaction=True)
def test_one_nodes_bad_samples_do_not_cost_anothers(add_node: AddNode) -> None:
    nodes = [add_node().pk.bytes for _ in range(3)]
    said = zip(nodes, (b"\xff\xff", b"", b"\x12\x01m"), strict=True)
    assert samples.take(pipe.packed_parts(said)) == bytes([0, 0, 1])


def test_an_answer_that_comes_too_late_does_not_cost_the_next_gateway(
    served: tuple[FleetBackend, Gateway],
) -> None:
    made, gateway = served
    gone, ours = socket.socketpair()
    gone.close()
    ours.close()
    made._send(ours, Frame(Kind.ANSWER, 1))
    assert gateway.ask(Frame(Kind.ADMIT, 9, body=b"/busbar.fleet.v1.Fleet/Nothing x")) == Frame(
        Kind.ANSWER, 9
    )


def test_an_unknown_sender_is_nobody(served: tuple[FleetBackend, Gateway]) -> None:
    _, gateway = served
    assert gateway.ask(Frame(Kind.ADMIT, 9, body=b"/busbar.fleet.v1.Fleet/Nothing x")) == Frame(
        Kind.ANSWER, 9
    )
