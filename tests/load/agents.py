"""Simulated agents: real gRPC streams with their own certificates and samples at fixed times.

Usage: python -m tests.load.agents FLEET.json ADDRESS STARTED FIRST COUNT INTERVAL_SECONDS

Commands on stdin, one per line, each answered by one line of JSON on stdout:
    ready SINCE          block until all agents are connected and acknowledged after this time
    figures BEGIN END    latencies of the samples due in this period (Unix times)
    sent                 stop sampling; return the samples of the recorded GPUs
    stop                 exit, without a reply
"""

from __future__ import annotations

import asyncio
import collections
import json
import random
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc

from deploy.demo_fleet.agent import SimulatedAgent
from nodes.protocol import fleet_pb2
from nodes.protocol.metrics import METRICS
from tests.load.latency import reply, summarise

RECORDED_GPUS = 20
DUE_METRIC = "power_watts"
"""The metric that carries the due time of its sample, in seconds since the start of the fleet."""


METRIC_NAMES = sorted(m.name for m in METRICS)
FAULTS = frozenset({"ecc_uncorrected_errors", "xid"})
"""Metrics that are zero on a GPU without a fault."""
HIGHEST = 60
"""Below the thresholds of all alarms of the product."""


class FakeAgent(SimulatedAgent):
    """An agent with random samples, which measures how long their acknowledgement takes.

    No sample raises an alarm: a fleet of which each GPU is in alarm is another load.
    """

    def __init__(self, node: dict[str, Any], address: str, started: float, recorded: bool) -> None:
        super().__init__(node["id"], address)
        self.node, self.started = node, started
        self.uuids = [bytes.fromhex(g["uuid"]) for g in node["gpus"]]
        self.rng = random.Random(node["id"])
        self.waiting: collections.deque[tuple[int, float]] = collections.deque()
        self.latencies: list[tuple[float, float]] = []
        """Due time and seconds from then until the acknowledgement, per sample."""
        self.sent: list[tuple[float, dict[str, float]]] | None = [] if recorded else None
        """Due time and values of the samples of the first GPU, if recorded."""
        self.ready_at = 0.0
        """Time of the first acknowledged sample after the connection; 0 before that."""

    def sample(self, due: float) -> None:
        gpus = []
        for i, gpu_uuid in enumerate(self.uuids):
            values = [self.value(name, due) for name in METRIC_NAMES]
            gpus.append(fleet_pb2.GpuSample(gpu_uuid=gpu_uuid, values=values))
            if i == 0 and self.sent is not None and self.online:
                self.sent.append((due, dict(zip(METRIC_NAMES, values, strict=True))))
        if self.online:
            samples = fleet_pb2.Samples(gpus=gpus, metrics=METRIC_NAMES)
            self.waiting.append((self.put(samples=samples), due))
        else:
            self.latencies.append((due, float("inf")))

    def value(self, name: str, due: float) -> float:
        if name == DUE_METRIC:
            return due - self.started
        return 0.0 if name in FAULTS else self.rng.random() * HIGHEST

    def credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(
            self.node["ca"].encode(), self.node["key"].encode(), self.node["certificate"].encode()
        )

    def inventory(self) -> fleet_pb2.Inventory:
        gpus = [
            fleet_pb2.Gpu(
                uuid=u,
                index=i,
                model=self.node["model"],
                memory_bytes=self.node["memory_bytes"],
                compute_capability=self.node["capability"],
            )
            for i, u in enumerate(self.uuids)
        ]
        return fleet_pb2.Inventory(
            agent_version="load",
            driver_version="580.95.05",
            endpoints=[fleet_pb2.Endpoint(address="127.0.0.1", port=1)],
            gpus=gpus,
        )

    def received(self, message: fleet_pb2.ApplianceMessage) -> None:
        now = time.time()
        while self.waiting and self.waiting[0][0] <= message.acknowledged_sequence:
            due = self.waiting.popleft()[1]
            self.latencies.append((due, now - due))
            self.ready_at = self.ready_at or now

    def disconnected(self) -> None:
        self.ready_at = 0.0
        self.latencies += [(due, float("inf")) for _, due in self.waiting]
        self.waiting.clear()


async def send_samples(
    agents: list[FakeAgent], started: float, every: float, phases: list[float]
) -> None:
    """Send a sample of each agent once per interval, at the phase of its node."""
    turn = max(int((time.time() - started) / every), 0)
    while True:
        for agent, phase in zip(agents, phases, strict=True):
            due = started + turn * every + phase
            if (left := due - time.time()) > 0:
                await asyncio.sleep(left)
            agent.sample(due)
        turn += 1


async def commands() -> AsyncIterator[list[str]]:
    """Yield the words of each line of stdin."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while line := await reader.readline():
        yield line.decode().split()


async def main(
    fleet: Path, address: str, started: float, first: int, count: int, every: float
) -> None:
    rows = json.loads(fleet.read_text())
    rng = random.Random(3)
    recorded = set(rng.sample(range(len(rows)), min(RECORDED_GPUS, len(rows))))
    agents = [
        FakeAgent(rows[i], address, started, i in recorded) for i in range(first, first + count)
    ]
    phases = [every * i / len(rows) for i in range(first, first + count)]
    running = [asyncio.create_task(a.run()) for a in agents]
    ticking = asyncio.create_task(send_samples(agents, started, every, phases))
    async for command, *arguments in commands():
        if command == "ready":
            since = float(arguments[0])
            if ticking.done():
                ticking = asyncio.create_task(send_samples(agents, started, every, phases))
            while any(not a.online or a.ready_at <= since for a in agents):
                await asyncio.sleep(0.05)
            reply(ready_at=max(a.ready_at for a in agents))
        elif command == "figures":
            begin, end = map(float, arguments)
            inside = [latency for a in agents for due, latency in a.latencies if begin <= due < end]
            unanswered = sum(begin <= due < end for a in agents for _, due in a.waiting)
            finite = [x for x in inside if x != float("inf")]
            reply(**summarise(finite, len(inside) - len(finite) + unanswered))
        elif command == "sent":
            ticking.cancel()
            await asyncio.sleep(2)
            reply(
                sent={
                    a.node["gpus"][0]["id"]: [values for _, values in a.sent]
                    for a in agents
                    if a.sent is not None
                }
            )
        elif command == "stop":
            break
    for task in running:
        task.cancel()


if __name__ == "__main__":
    _, path, target, start, first_index, number, interval = sys.argv
    asyncio.run(
        main(Path(path), target, float(start), int(first_index), int(number), float(interval))
    )
