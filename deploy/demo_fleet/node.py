"""A simulated node: its GPUs, the programs of its grants, and its agent."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import grpc

from deploy.demo_fleet import faults
from deploy.demo_fleet.agent import SimulatedAgent
from deploy.demo_fleet.hardware import GPUS_PER_NODE, SimulatedGpu, model_of
from deploy.demo_fleet.programs import ISOLATION, Programs
from nodes.credential_keeper import CredentialKeeper
from nodes.protocol import fleet_pb2
from nodes.protocol.metrics import METRICS
from nodes.version import AGENT_VERSION

METRIC_NAMES = sorted(m.name for m in METRICS)
DEFAULT_HEARTBEAT_SECONDS = 2.0
OFFLINE_CHECK_SECONDS = 1.0


def node_name(index: int) -> str:
    return f"demo-{index + 1:02d}"


class SimulatedNode(SimulatedAgent):
    """The node with this index in a fleet of `nodes`. Its credentials are in `folder`."""

    def __init__(self, folder: Path, index: int, nodes: int) -> None:
        name = node_name(index)
        self.keeper = CredentialKeeper(folder / name)
        super().__init__(f"{name}-{time.time_ns()}", self.keeper.fleet_address)
        self.name, self.index, self.nodes = name, index, nodes
        self.model = model_of(index)
        self.gpus = [SimulatedGpu(name, i, self.model) for i in range(GPUS_PER_NODE)]
        self.heartbeat_seconds = DEFAULT_HEARTBEAT_SECONDS
        self.programs: dict[bytes, Programs] = {}
        """By the id of the allocation."""
        self._generation = 0

    def credentials(self) -> grpc.ChannelCredentials:
        c = self.keeper.credentials
        return grpc.ssl_channel_credentials(c.ca_pem.encode(), c.agent_key, c.agent_pem.encode())

    def inventory(self) -> fleet_pb2.Inventory:
        return fleet_pb2.Inventory(
            agent_version=AGENT_VERSION,
            driver_version="580.95.05",
            cuda_version="13.0",
            operating_system="simulated",
            isolation=ISOLATION,
            resizes=True,
            gpus=[g.message() for g in self.gpus],
        )

    def apply(self, state: fleet_pb2.DesiredState) -> None:
        """Start programs for new grants, and end those whose grants have gone."""
        now = time.time()
        self.keeper.expect_authorities(state.authorities)
        self._generation = state.generation
        grants = {g.allocation_id: g for g in state.grants}
        for allocation_id, grant in grants.items():
            if known := self.programs.get(allocation_id):
                known.resize(grant)
            else:
                self.programs[allocation_id] = Programs(grant, now)
        for allocation_id in self.programs.keys() - grants.keys():
            self.programs[allocation_id].end(now)

    def received(self, message: fleet_pb2.ApplianceMessage) -> None:
        self.heartbeat_seconds = message.heartbeat_seconds or self.heartbeat_seconds

    def report(self, generation: int) -> fleet_pb2.Report:
        sessions = [s.message() for p in self.programs.values() for s in p.sessions]
        shares = [p.share(time.time()) for p in self.programs.values() if p.running]
        return fleet_pb2.Report(
            generation=generation, sessions=sessions, knows_over=True, shares=shares
        )

    def beat(self, now: float) -> None:
        """Let the programs work, and send their sessions and a sample of each GPU."""
        for allocation_id, programs in list(self.programs.items()):
            programs.advance(now)
            if programs.is_ended and not programs.sessions:
                del self.programs[allocation_id]
        samples = fleet_pb2.Samples(
            gpus=[self._sample(gpu, now) for gpu in self.gpus], metrics=METRIC_NAMES
        )
        if self.online:
            self.put(report=self.report(self._generation))
            self.put(samples=samples)

    def _sample(self, gpu: SimulatedGpu, now: float) -> fleet_pb2.GpuSample:
        busy, used, count = 0.0, 0, 0
        for programs in self.programs.values():
            session = programs.running
            for i, partition in enumerate(programs.grant.partitions):
                if session and partition.gpu_uuid == gpu.uuid.bytes:
                    busy += session.level(now) * partition.compute_percent / 100
                    used += session.partition_bytes[i]
                    count += 1
        fault = faults.fault_of(self.nodes, self.index, gpu.index, now)
        values = gpu.read(now, busy, used, count, fault)
        return fleet_pb2.GpuSample(
            gpu_uuid=gpu.uuid.bytes, values=[values[name] for name in METRIC_NAMES]
        )

    async def beat_periodically(self) -> None:
        """Beat at the appliance's interval, at another phase than the other nodes."""
        await asyncio.sleep(self.heartbeat_seconds * self.index / self.nodes)
        while True:
            self.beat(time.time())
            await asyncio.sleep(self.heartbeat_seconds)

    async def communicate(self) -> None:
        """Exchange messages until the stream ends, the credentials change or the node fails."""
        await self.keeper.wait_until_valid()
        if faults.is_offline(self.nodes, self.index, time.time()):
            await asyncio.sleep(OFFLINE_CHECK_SECONDS)
            return
        works = [super().communicate(), self._until_offline()]
        works.append(self.keeper.wait_until_replaced(self.keeper.credentials))
        tasks = [asyncio.create_task(w) for w in works]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()

    async def _until_offline(self) -> None:
        while not faults.is_offline(self.nodes, self.index, time.time()):
            await asyncio.sleep(OFFLINE_CHECK_SECONDS)
