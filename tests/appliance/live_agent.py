"""A simulated agent with a real certificate and gRPC stream, for tests of a running appliance."""

from __future__ import annotations

import queue
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from nodes.enrolment import Token, new_key_and_csr, request_json
from nodes.protocol import fleet_pb2, fleet_pb2_grpc
from tests.appliance.appliance_process import ApplianceProcess

TIMEOUT_SECONDS = 120.0


class LiveAgent:
    def __init__(self, appliance: ApplianceProcess, name: str = "live") -> None:
        token = Token.parse(appliance.manage("create_enrolment_token"))
        self.key, agent_csr = new_key_and_csr()
        body = {
            "secret": token.secret,
            "hostname": name,
            "agent_csr": agent_csr,
            "launcher_csr": new_key_and_csr()[1],
        }
        self.enrolment = request_json(f"{appliance.url}/api/v1/enrol", body, appliance.context)
        self.port = appliance.fleet_port
        self.sequence = 0

    def inventory(self) -> fleet_pb2.AgentMessage:
        self.sequence += 1
        gpu = fleet_pb2.Gpu(uuid=uuid.uuid4().bytes, model="Live GPU", memory_bytes=1 << 30)
        inventory = fleet_pb2.Inventory(agent_version="live", gpus=[gpu])
        return fleet_pb2.AgentMessage(boot_id="b", sequence=self.sequence, inventory=inventory)

    @contextmanager
    def stream(self) -> Iterator[Iterator[fleet_pb2.ApplianceMessage]]:
        """Open a stream; the messages of the appliance can be iterated, one every second."""
        credentials = grpc.ssl_channel_credentials(
            self.enrolment["ca_pem"].encode(), self.key, self.enrolment["agent_pem"].encode()
        )
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
        address = f"127.0.0.1:{self.port}"
        with grpc.secure_channel(address, credentials, options) as channel:
            stub = fleet_pb2_grpc.FleetStub(channel)
            sent: queue.SimpleQueue[fleet_pb2.AgentMessage | None] = queue.SimpleQueue()
            sent.put(self.inventory())
            yield stub.Connect(iter(sent.get, None), timeout=TIMEOUT_SECONDS)
            sent.put(None)
