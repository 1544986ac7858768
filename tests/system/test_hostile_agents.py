"""An enrolled agent that sends malformed, repeated or foreign data.

Rows of other nodes do not change, and the appliance continues to work.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import grpc
import pytest

from nodes.protocol import fleet_pb2
from tests.system.conftest import Pool
from tests.system.enrolled_agent import (
    SECONDS,
    Agent,
    Stream,
    acknowledgement_seconds,
    invented_session,
)

pytestmark = pytest.mark.system


def session_with_extreme_values() -> fleet_pb2.Session:
    maximum = (1 << 64) - 1
    return fleet_pb2.Session(
        id=bytes(16),
        allocation_id=bytes(16),
        memory_bytes=maximum,
        launches=maximum,
        bytes_in=maximum,
        bytes_out=maximum,
        opened_seconds=(1 << 63) - 1,
        partition_bytes=[maximum],
        refused_calls=["x" * 1000] * 1000,
    )


@pytest.fixture
def agent(pool: Pool) -> Iterator[Agent]:
    agent = Agent(pool)
    yield agent
    agent.remove()


def wait_until_processed(agent: Agent, stream: Stream) -> None:
    """Send an inventory and block until the appliance shows it; earlier messages are then done."""
    marker = f"marker {time.time_ns()}"
    stream.send(agent.inventory(time.time_ns(), model=marker))
    agent.pool.wait("the marker", lambda: agent.models() == [marker], SECONDS)


def test_malformed_message_ends_only_its_stream(agent: Agent) -> None:
    for garbage in (b"\xff" * 100, b"\x0a\xff\xff\xff\xff\x0f", bytes(range(256)) * 50):
        stream = agent.connect()
        stream.send(garbage)
        assert stream.error() != grpc.StatusCode.DEADLINE_EXCEEDED
    stream = agent.connect()
    stream.send(bytes(9 << 20))
    assert stream.error() == grpc.StatusCode.RESOURCE_EXHAUSTED
    wait_until_processed(agent, agent.connect())


INVALID = {
    "a short id": fleet_pb2.Report(sessions=[fleet_pb2.Session(id=b"x", allocation_id=b"y")]),
    "extreme numbers": fleet_pb2.Report(generation=1, sessions=[session_with_extreme_values()]),
    "a generation": fleet_pb2.Report(generation=(1 << 64) - 1),
    "a long state": fleet_pb2.Report(sessions=[invented_session(state="x" * 900_000)]),
    "3,000 sessions": fleet_pb2.Report(sessions=[invented_session() for _ in range(3000)]),
}


def test_invalid_report_ends_the_stream_with_one_event(agent: Agent) -> None:
    for sequence, report in enumerate(INVALID.values()):
        stream = agent.connect()
        stream.send(fleet_pb2.AgentMessage(boot_id="b", sequence=sequence + 1, report=report))
        assert stream.error() == grpc.StatusCode.INVALID_ARGUMENT
    wait_until_processed(agent, agent.connect())
    assert len(agent.events("node.message_refused")) == 1


@pytest.mark.parametrize(
    "values", [{"uuid": b"short"}, {"memory_bytes": (1 << 64) - 1}, {"index": (1 << 32) - 1}]
)
def test_invalid_inventory_ends_the_stream(agent: Agent, values: dict[str, Any]) -> None:
    stream = agent.connect()
    stream.send(agent.inventory(1, **values))
    assert stream.error() == grpc.StatusCode.INVALID_ARGUMENT
    assert agent.models() == []


@pytest.mark.long
def test_flood_of_a_hostile_agent_does_not_delay_another_one(agent: Agent, pool: Pool) -> None:
    """Invented sessions, messages of 1 MiB and reports without pause, for some seconds."""
    honest, known = Agent(pool), {s["id"] for s in pool.sessions()}
    stream = honest.connect()
    stream.send(honest.inventory(1))
    pool.wait("the honest agent", lambda: bool(honest.models()), SECONDS)
    numbers = itertools.count(10)
    before = [acknowledgement_seconds(stream, n) for n in itertools.islice(numbers, 10)]
    during = []
    with ThreadPoolExecutor(1) as threads:
        flood = threads.submit(send_flood, agent)
        while not flood.done():
            during.append(acknowledgement_seconds(stream, next(numbers)))
        sent = flood.result()
    print(f"acknowledged in {max(before):.3f} s, under {len(sent)} messages {max(during):.3f} s")
    assert max(during) < max(2.0, 3 * max(before)), (before, during)
    assert len(sent) > 20 and agent.row()["ignored_sessions"] >= 1500
    assert {s["id"] for s in pool.sessions()} <= known
    honest.remove()


def send_flood(agent: Agent) -> list[int]:
    """Send as many reports as the appliance reads in five seconds. Return their sizes."""
    sent: list[int] = []
    stream, end = agent.connect(), time.monotonic() + 5
    stream.send(agent.inventory(1))
    while (remaining := end - time.monotonic()) > 0:
        sessions = [invented_session() for _ in range(1500 if len(sent) % 2 else 10)]
        report = fleet_pb2.Report(generation=1, sessions=sessions)
        message = fleet_pb2.AgentMessage(boot_id="b", sequence=len(sent) + 2, report=report)
        with contextlib.suppress(queue.Full):  # the budget of the node is spent
            stream.sent.put(message.SerializeToString(), timeout=remaining)
            sent.append(message.ByteSize())
    return sent


def test_repeated_or_late_message_is_ignored(agent: Agent) -> None:
    stream = agent.connect()
    stream.send(
        agent.inventory(10, model="ten"),
        agent.inventory(9, model="nine"),
        agent.inventory(10, model="ten again"),
    )
    agent.pool.wait("the first", lambda: agent.models() == ["ten"], SECONDS)
    future = fleet_pb2.Report(generation=10**9)  # greater than the node's generation
    stream.send(fleet_pb2.AgentMessage(boot_id="b", sequence=11, report=future))
    stream.send(agent.inventory(12, model="twelve"), agent.inventory(11, model="eleven"))
    agent.pool.wait("the last", lambda: agent.models() == ["twelve"], SECONDS)
    row = agent.row()
    assert row["applied_generation"] <= row["generation"] < 10**9
    again = agent.connect()  # same boot id: sequence numbers continue, the older stream ends
    again.send(agent.inventory(13, model="thirteen"))
    agent.pool.wait("the newer stream", lambda: agent.models() == ["thirteen"], SECONDS)


def test_agent_cannot_change_rows_of_other_nodes(agent: Agent, pool: Pool) -> None:
    process = pool.start_working(10, 600)
    pool.wait("the session", lambda: bool(pool.sessions(state="running")))
    theirs = pool.sessions(state="running")[0]
    others = next(n for n in pool.api.items("nodes") if n["id"] != agent.node_id and n["reachable"])
    gpus = pool.api.items("gpus", node_id=others["id"])
    stream = agent.connect()
    stream.send(agent.inventory(1, uuid=uuid.UUID(gpus[0]["uuid"]).bytes, model="stolen"))
    claimed = [
        fleet_pb2.Session(
            id=uuid.UUID(i).bytes,
            allocation_id=uuid.UUID(theirs["allocation_id"]).bytes,
            state="closed",
            program="mine",
            end_reason="stolen",
        )
        for i in (theirs["id"], str(uuid.uuid4()))
    ]
    stream.send(
        fleet_pb2.AgentMessage(
            boot_id="b", sequence=2, report=fleet_pb2.Report(generation=1, sessions=claimed)
        )
    )
    wait_until_processed(agent, stream)
    assert agent.events("gpu.duplicate"), "the GPU could be granted twice"
    now = pool.api.request("GET", f"sessions/{theirs['id']}")
    assert (now["state"], now["program"], now["end_reason"]) == ("running", theirs["program"], "")
    assert len(pool.sessions(allocation_id=theirs["allocation_id"])) == 1
    assert [g["model"] for g in pool.api.items("gpus", node_id=others["id"])] == [
        g["model"] for g in gpus
    ]
    process.kill()


def test_agent_without_valid_certificate_is_rejected(agent: Agent) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    ours = x509.load_pem_x509_certificate(
        agent.enrolment["agent_pem"].split("-----END")[0].encode() + b"-----END CERTIFICATE-----\n"
    )
    forged = (
        x509.CertificateBuilder(
            ours.issuer,
            ours.subject,
            key.public_key(),
            ours.serial_number,
            ours.not_valid_before_utc,
            ours.not_valid_after_utc,
        )
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
        .decode()
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    stream = agent.connect(private, forged)
    stream.send(agent.inventory(1))
    assert stream.error() == grpc.StatusCode.UNAVAILABLE  # the handshake fails
    bare = grpc.insecure_channel(agent.address)
    agent.channels.append(bare)
    assert Stream(bare).error() == grpc.StatusCode.UNAVAILABLE
    assert agent.models() == []


def test_alternating_agents_with_one_identity_lock_the_node(agent: Agent) -> None:
    for n, boot_id in enumerate(("first", "second", "first", "second")):
        stream = agent.connect()
        stream.send(agent.inventory(n, boot_id=boot_id, model=f"{boot_id} {n}"))
        agent.pool.wait(
            "the inventory or the lock",
            lambda seen=f"{boot_id} {n}": (
                agent.models() == [seen] or bool(agent.row()["locked_at"])
            ),  # type: ignore[misc]
            SECONDS,
        )
    assert "two agents" in agent.row()["lock_reason"]
    assert agent.connect().error() == grpc.StatusCode.PERMISSION_DENIED
    agent.pool.api.request("POST", f"nodes/{agent.node_id}/unlock")
    wait_until_processed(agent, agent.connect())


def test_restarted_agents_do_not_lock_the_node(agent: Agent) -> None:
    for n in range(6):
        stream = agent.connect()
        stream.send(agent.inventory(n, boot_id=f"boot {n // 2}", model=f"model {n}"))
        agent.pool.wait("the inventory", partial(agent.has_model, f"model {n}"), SECONDS)
    assert agent.row()["locked_at"] is None
