"""An agent that is enrolled and speaks nonsense, repeats itself or speaks for others: nothing of anybody else's changes, and the appliance goes on."""

from __future__ import annotations

import queue
import time
import uuid
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from nodes.enrolment import Token, new_key_and_csr
from nodes.protocol import fleet_pb2
from tests.system.conftest import Pool

pytestmark = pytest.mark.system

CONNECT = "/busbar.fleet.v1.Fleet/Connect"
SECONDS = 15.0


class Agent:
    """Speaks to the real servicer with a certificate of its own; what it sends are bytes."""

    def __init__(self, pool: Pool) -> None:
        token = pool.api.request("POST", "enrolment-tokens")["token"]
        key, agent_csr = new_key_and_csr()
        body = {
            "secret": Token.parse(token).secret,
            "hostname": f"odd-{uuid.uuid4().hex[:8]}",
            "agent_csr": agent_csr,
            "launcher_csr": new_key_and_csr()[1],
        }
        self.pool, self.answer, self.key = pool, pool.api.request("POST", "enrol", body), key
        self.node_id = self.answer["node_id"]
        self.address = self.answer["fleet_address"]
        self.gpu = uuid.uuid4()
        self.channels: list[grpc.Channel] = []

    def connect(self, key: bytes | None = None, certificate: str | None = None) -> Stream:
        credentials = grpc.ssl_channel_credentials(
            self.answer["ca_pem"].encode(),
            key or self.key,
            (certificate or self.answer["agent_pem"]).encode(),
        )
        channel = grpc.secure_channel(
            self.address,
            credentials,
            [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)],
        )
        self.channels.append(channel)
        return Stream(channel)

    def inventory(self, sequence: int, **changes: Any) -> fleet_pb2.AgentMessage:
        gpu = {
            "uuid": self.gpu.bytes,
            "index": 0,
            "model": "Odd GPU",
            "memory_bytes": 1 << 30,
            "compute_capability": "9.0",
        } | changes
        listed = fleet_pb2.Inventory(
            agent_version="odd",
            driver_version="1",
            endpoints=[fleet_pb2.Endpoint(address="127.0.0.1", port=1)],
        )
        listed.gpus.append(fleet_pb2.Gpu(**gpu))
        return fleet_pb2.AgentMessage(boot_id="b", sequence=sequence, inventory=listed)

    def row(self) -> dict[str, Any]:
        return self.pool.api.request("GET", f"nodes/{self.node_id}")

    def models(self) -> list[str]:
        return [
            g["model"] for g in self.pool.api.items("gpus", node_id=self.node_id, present="true")
        ]

    def close(self) -> None:
        for channel in self.channels:
            channel.close()


def odd_session() -> fleet_pb2.Session:
    most = (1 << 64) - 1
    return fleet_pb2.Session(
        id=bytes(16), allocation_id=bytes(16), memory_bytes=most, launches=most, bytes_in=most, bytes_out=most, opened_seconds=(1 << 63) - 1,
        partition_bytes=[most], refused_calls=["x" * 1000] * 1000,
    )  # fmt: skip


class Stream:
    def __init__(self, channel: grpc.Channel) -> None:
        self.sent: queue.Queue[bytes] = queue.Queue()
        self.answers = channel.stream_stream(CONNECT)(
            iter(self.sent.get, b"end"), timeout=2 * SECONDS
        )

    def say(self, *messages: fleet_pb2.AgentMessage | bytes) -> None:
        for m in messages:
            self.sent.put(m if isinstance(m, bytes) else m.SerializeToString())

    def error(self) -> grpc.StatusCode:
        """How the appliance ends it."""
        try:
            for _ in self.answers:
                pass
        except grpc.RpcError as error:
            return error.code()
        return grpc.StatusCode.OK


@pytest.fixture
def agent(pool: Pool) -> Iterator[Agent]:
    made = Agent(pool)
    yield made
    made.close()
    pool.wait("its silence", lambda: pool.api.request("DELETE", f"nodes/{made.node_id}") == {}, 60)


def settled(agent: Agent, stream: Stream) -> None:
    """All that was said has been taken: the node's inventory says what was said last."""
    marker = f"marker {time.time_ns()}"
    stream.say(agent.inventory(time.time_ns(), model=marker))
    agent.pool.wait("the marker", lambda: agent.models() == [marker], SECONDS)


def test_bytes_that_are_no_message_end_the_stream_and_nothing_else(agent: Agent) -> None:
    for garbage in (b"\xff" * 100, b"\x0a\xff\xff\xff\xff\x0f", bytes(range(256)) * 50):
        stream = agent.connect()
        stream.say(garbage)
        assert stream.error() != grpc.StatusCode.DEADLINE_EXCEEDED
    stream = agent.connect()
    stream.say(bytes(9 << 20))
    assert stream.error() == grpc.StatusCode.RESOURCE_EXHAUSTED
    settled(agent, agent.connect())


def test_messages_out_of_bounds_are_dropped_and_the_stream_goes_on(agent: Agent) -> None:
    wrong = [
        agent.inventory(1, uuid=b"short"),
        fleet_pb2.AgentMessage(
            boot_id="b",
            sequence=2,
            report=fleet_pb2.Report(
                generation=1, sessions=[fleet_pb2.Session(id=b"x", allocation_id=b"y")]
            ),
        ),
        fleet_pb2.AgentMessage(
            boot_id="b",
            sequence=3,
            samples=fleet_pb2.Samples(
                metrics=["m"] * 3, gpus=[fleet_pb2.GpuSample(gpu_uuid=agent.gpu.bytes)]
            ),
        ),
        fleet_pb2.AgentMessage(
            boot_id="b",
            sequence=4,
            samples=fleet_pb2.Samples(metrics=[f"m{i}" for i in range(1000)]),
        ),
        fleet_pb2.AgentMessage(boot_id="b" * 10_000, sequence=5),
        agent.inventory(6, memory_bytes=(1 << 64) - 1),
        agent.inventory(6, index=(1 << 32) - 1),
        fleet_pb2.AgentMessage(
            boot_id="b", sequence=7, report=fleet_pb2.Report(generation=(1 << 64) - 1)
        ),
        fleet_pb2.AgentMessage(
            boot_id="b", sequence=8, report=fleet_pb2.Report(generation=1, sessions=[odd_session()])
        ),
        fleet_pb2.AgentMessage(),
    ]
    for n, message in enumerate(wrong):
        stream = agent.connect()
        stream.say(message, agent.inventory(1 << 50, model=f"after {n}"))
        agent.pool.wait(f"turn {n}", lambda n=n: agent.models() == [f"after {n}"], SECONDS)
    assert agent.pool.api.request("GET", "appliance")


def test_what_is_repeated_or_comes_late_changes_nothing(agent: Agent) -> None:
    stream = agent.connect()
    stream.say(
        agent.inventory(10, model="ten"),
        agent.inventory(9, model="nine"),
        agent.inventory(10, model="ten again"),
    )
    agent.pool.wait("the first", lambda: agent.models() == ["ten"], SECONDS)
    stream.say(
        fleet_pb2.AgentMessage(boot_id="b", sequence=11, report=fleet_pb2.Report(generation=10**9))
    )  # of a generation that is still to come
    stream.say(agent.inventory(12, model="twelve"), agent.inventory(11, model="eleven"))
    agent.pool.wait("the last", lambda: agent.models() == ["twelve"], SECONDS)
    row = agent.row()
    assert row["applied_generation"] <= row["generation"] < 10**9
    again = agent.connect()  # of the same boot: its numbers go on, and the older stream ends
    again.say(agent.inventory(13, model="thirteen"))
    agent.pool.wait("the newer stream", lambda: agent.models() == ["thirteen"], SECONDS)


def test_an_agent_speaks_for_its_own_rows_only(agent: Agent, pool: Pool) -> None:
    process = pool.start_working(10, 20)
    pool.wait("the session", lambda: bool(pool.sessions(state="running")))
    theirs = pool.sessions(state="running")[0]
    others = next(n for n in pool.api.items("nodes") if n["id"] != agent.node_id and n["reachable"])
    gpus = pool.api.items("gpus", node_id=others["id"])
    stream = agent.connect()
    stream.say(agent.inventory(1, uuid=uuid.UUID(gpus[0]["uuid"]).bytes, model="stolen"))
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
    stream.say(
        fleet_pb2.AgentMessage(
            boot_id="b", sequence=2, report=fleet_pb2.Report(generation=1, sessions=claimed)
        )
    )
    settled(agent, stream)
    now = pool.api.request("GET", f"sessions/{theirs['id']}")
    assert (now["state"], now["program"], now["end_reason"]) == ("running", theirs["program"], "")
    assert len(pool.sessions(allocation_id=theirs["allocation_id"])) == 1
    assert [g["model"] for g in pool.api.items("gpus", node_id=others["id"])] == [
        g["model"] for g in gpus
    ]
    process.kill()


def test_who_has_no_certificate_of_ours_is_not_heard(agent: Agent) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    ours = x509.load_pem_x509_certificate(
        agent.answer["agent_pem"].split("-----END")[0].encode() + b"-----END CERTIFICATE-----\n"
    )
    forged = (
        x509.CertificateBuilder(ours.issuer, ours.subject, key.public_key(), ours.serial_number, ours.not_valid_before_utc, ours.not_valid_after_utc)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
        .decode()
    )  # fmt: skip
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    stream = agent.connect(private, forged)
    stream.say(agent.inventory(1))
    assert stream.error() == grpc.StatusCode.UNAVAILABLE  # the handshake fails
    bare = grpc.insecure_channel(agent.address)
    agent.channels.append(bare)
    assert Stream(bare).error() == grpc.StatusCode.UNAVAILABLE
    assert agent.models() == []
