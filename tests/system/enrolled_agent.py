"""Enrolled agents that send what a test chooses."""

from __future__ import annotations

import queue
import time
import uuid
from typing import Any

import grpc

from nodes.enrolment import Token, new_key_and_csr
from nodes.protocol import fleet_pb2
from tests.system.conftest import Pool

CONNECT = "/busbar.fleet.v1.Fleet/Connect"
SECONDS, STREAM_SECONDS = 120.0, 240.0
MAX_UNSENT = 16


class Agent:
    """An enrolled node with its own certificate that sends raw bytes to the gateway."""

    def __init__(self, pool: Pool) -> None:
        token = pool.api.request("POST", "enrolment-tokens")["token"]
        key, agent_csr = new_key_and_csr()
        body = {
            "secret": Token.parse(token).secret,
            "hostname": f"odd-{uuid.uuid4().hex[:8]}",
            "agent_csr": agent_csr,
            "launcher_csr": new_key_and_csr()[1],
        }
        self.pool, self.enrolment, self.key = pool, pool.api.request("POST", "enrol", body), key
        self.node_id = self.enrolment["node_id"]
        self.address = self.enrolment["fleet_address"]
        self.gpu = uuid.uuid4()
        self.channels: list[grpc.Channel] = []

    def connect(
        self,
        key: bytes | None = None,
        certificate: str | None = None,
        seconds: float = STREAM_SECONDS,
    ) -> Stream:
        credentials = grpc.ssl_channel_credentials(
            self.enrolment["ca_pem"].encode(),
            key or self.key,
            (certificate or self.enrolment["agent_pem"]).encode(),
        )
        channel = grpc.secure_channel(
            self.address,
            credentials,
            [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)],
        )
        self.channels.append(channel)
        return Stream(channel, seconds)

    def inventory(
        self, sequence: int, boot_id: str = "b", **changes: Any
    ) -> fleet_pb2.AgentMessage:
        gpu: dict[str, Any] = {
            "uuid": self.gpu.bytes,
            "index": 0,
            "model": "Odd GPU",
            "memory_bytes": 1 << 30,
            "compute_capability": "9.0",
        } | changes
        inventory = fleet_pb2.Inventory(
            agent_version="odd",
            driver_version="1",
            endpoints=[fleet_pb2.Endpoint(address="127.0.0.1", port=1)],
        )
        inventory.gpus.append(fleet_pb2.Gpu(**gpu))
        return fleet_pb2.AgentMessage(boot_id=boot_id, sequence=sequence, inventory=inventory)

    def row(self) -> dict[str, Any]:
        return self.pool.api.request("GET", f"nodes/{self.node_id}")

    def models(self) -> list[str]:
        return [
            g["model"] for g in self.pool.api.items("gpus", node_id=self.node_id, present="true")
        ]

    def has_model(self, model: str) -> bool:
        return self.models() == [model]

    def events(self, kind: str) -> list[dict[str, Any]]:
        return self.pool.api.items("events", object_id=self.node_id, kind=kind)

    def close(self) -> None:
        for channel in self.channels:
            channel.close()

    def remove(self) -> None:
        self.close()
        self.pool.wait(
            "the removal of the node",
            lambda: self.pool.api.request("DELETE", f"nodes/{self.node_id}") == {},
        )


class Stream:
    def __init__(self, channel: grpc.Channel, seconds: float = STREAM_SECONDS) -> None:
        self.sent: queue.Queue[bytes] = queue.Queue(MAX_UNSENT)
        self.replies = channel.stream_stream(CONNECT, None, None)(
            iter(self.sent.get, b"end"), timeout=seconds
        )

    def send(self, *messages: fleet_pb2.AgentMessage | bytes) -> None:
        for m in messages:
            self.sent.put(m if isinstance(m, bytes) else m.SerializeToString(), timeout=SECONDS)

    def error(self) -> grpc.StatusCode:
        """Block until the appliance ends the stream and return its status code."""
        try:
            for _ in self.replies:
                pass
        except grpc.RpcError as error:
            return error.code()
        return grpc.StatusCode.OK


def invented_session(**changes: Any) -> fleet_pb2.Session:
    values: dict[str, Any] = {
        "id": uuid.uuid4().bytes,
        "allocation_id": uuid.uuid4().bytes,
        "state": "running",
    }
    return fleet_pb2.Session(**(values | changes))


def acknowledgement_seconds(stream: Stream, sequence: int) -> float:
    """Send a sample and return the seconds until the appliance acknowledges it."""
    started = time.monotonic()
    samples = fleet_pb2.Samples(metrics=["power_watts"])
    stream.send(fleet_pb2.AgentMessage(boot_id="b", sequence=sequence, samples=samples))
    for reply in stream.replies:
        if fleet_pb2.ApplianceMessage.FromString(reply).acknowledged_sequence >= sequence:
            return time.monotonic() - started
    raise AssertionError("the stream ended")
