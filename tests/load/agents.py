"""Agents without machines: real streams with certificates of their own, samples on the dot, and the newest desired state applied at once.

python -m tests.load.agents FLEET.json FIRST COUNT EVERY_SECONDS; lines on stdin: `measure BEGIN END` (times of the clock), `stop`.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import random
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc

from nodes.channel import retry_delays
from nodes.protocol import fleet_pb2, fleet_pb2_grpc
from nodes.samplers import METRICS
from tests.load.figures import say, summary

REMEMBERED_GPUS = 20
DUE = "power_watts"
"""The reading that says when its sample was due, in seconds since the fleet began."""


NAMES = sorted(m.name for m in METRICS)


class FakeAgent:
    def __init__(self, node: dict[str, Any], address: str, begun: float, remembered: bool) -> None:
        self.node, self.address, self.begun = node, address, begun
        self.uuids = [bytes.fromhex(g["uuid"]) for g in node["gpus"]]
        self.dice = random.Random(node["id"])
        self.queue: asyncio.Queue[fleet_pb2.AgentMessage] = asyncio.Queue()
        self.sequence = 0
        self.boot = node["id"]
        self.waiting: collections.deque[tuple[int, float]] = collections.deque()
        self.latencies: list[tuple[float, float]] = []
        """(due, seconds until it was acknowledged)"""
        self.sent: list[tuple[float, dict[str, float]]] | None = [] if remembered else None
        """Of its first GPU."""
        self.ready_at = 0.0
        """When its first sample was acknowledged after it connected."""
        self.online = False

    @staticmethod
    def delays() -> Iterator[float]:
        return retry_delays()

    def put(self, **body: Any) -> int:
        self.sequence += 1
        self.queue.put_nowait(
            fleet_pb2.AgentMessage(boot_id=self.boot, sequence=self.sequence, **body)
        )
        return self.sequence

    def sample(self, due: float) -> None:
        gpus = []
        for i, gpu_uuid in enumerate(self.uuids):
            values = [
                due - self.begun if name == DUE else float(self.dice.randrange(1 << 20))
                for name in NAMES
            ]
            gpus.append(fleet_pb2.GpuSample(gpu_uuid=gpu_uuid, values=values))
            if i == 0 and self.sent is not None and self.online:
                self.sent.append((due, dict(zip(NAMES, values, strict=True))))
        if self.online:
            self.waiting.append(
                (self.put(samples=fleet_pb2.Samples(gpus=gpus, metrics=NAMES)), due)
            )
        else:
            self.latencies.append((due, float("inf")))

    def apply(self, state: fleet_pb2.DesiredState) -> None:
        """Nothing is done with it here."""

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

    async def messages(self) -> AsyncIterator[fleet_pb2.AgentMessage]:
        while True:
            yield await self.queue.get()

    async def run(self) -> None:
        delays = self.delays()
        while True:
            with contextlib.suppress(grpc.aio.AioRpcError):
                await self.connected()
                delays = self.delays()
            self.online, self.ready_at = False, 0.0
            self.latencies += [(due, float("inf")) for _, due in self.waiting]
            self.waiting.clear()
            await asyncio.sleep(next(delays))

    async def connected(self) -> None:
        credentials = grpc.ssl_channel_credentials(
            self.node["ca"].encode(), self.node["key"].encode(), self.node["certificate"].encode()
        )
        async with grpc.aio.secure_channel(
            self.address,
            credentials,
            [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)],
        ) as channel:
            while not self.queue.empty():
                self.queue.get_nowait()
            self.put(inventory=self.inventory())
            async for answer in fleet_pb2_grpc.FleetStub(channel).Connect(self.messages()):
                self.online = True
                if answer.HasField("desired_state"):
                    self.apply(answer.desired_state)
                    self.put(report=fleet_pb2.Report(generation=answer.desired_state.generation))
                now = time.time()
                while self.waiting and self.waiting[0][0] <= answer.acknowledged_sequence:
                    due = self.waiting.popleft()[1]
                    self.latencies.append((due, now - due))
                    self.ready_at = self.ready_at or now


async def tick(agents: list[FakeAgent], begun: float, every: float, phases: list[float]) -> None:
    """Each node has its own moment in every round."""
    turn = max(int((time.time() - begun) / every), 0)
    while True:
        for agent, phase in zip(agents, phases, strict=True):
            due = begun + turn * every + phase
            if (left := due - time.time()) > 0:
                await asyncio.sleep(left)
            agent.sample(due)
        turn += 1


async def commands() -> AsyncIterator[list[str]]:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while line := await reader.readline():
        yield line.decode().split()


async def main(
    fleet: Path, address: str, begun: float, first: int, count: int, every: float
) -> None:
    rows = json.loads(fleet.read_text())
    dice = random.Random(3)
    chosen = set(dice.sample(range(len(rows)), min(REMEMBERED_GPUS, len(rows))))
    mine = [FakeAgent(rows[i], address, begun, i in chosen) for i in range(first, first + count)]
    phases = [every * i / len(rows) for i in range(first, first + count)]
    running = [asyncio.create_task(a.run()) for a in mine]
    ticking = asyncio.create_task(tick(mine, begun, every, phases))
    async for command, *arguments in commands():
        if command == "ready":
            since = float(arguments[0])
            if ticking.done():
                ticking = asyncio.create_task(tick(mine, begun, every, phases))
            while any(not a.online or a.ready_at <= since for a in mine):
                await asyncio.sleep(0.05)
            say(ready_at=max(a.ready_at for a in mine))
        elif command == "figures":
            begin, end = map(float, arguments)
            inside = [latency for a in mine for due, latency in a.latencies if begin <= due < end]
            unanswered = sum(begin <= due < end for a in mine for _, due in a.waiting)
            fine = [x for x in inside if x != float("inf")]
            say(**summary(fine, len(inside) - len(fine) + unanswered))
        elif command == "sent":
            ticking.cancel()
            await asyncio.sleep(2)
            say(
                sent={
                    a.node["gpus"][0]["id"]: [readings for _, readings in a.sent]
                    for a in mine
                    if a.sent is not None
                }
            )
        elif command == "stop":
            break
    for task in running:
        task.cancel()


if __name__ == "__main__":
    _, path, where, at, begin_index, how_many, seconds = sys.argv
    asyncio.run(main(Path(path), where, float(at), int(begin_index), int(how_many), float(seconds)))
