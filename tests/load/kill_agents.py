"""Agents of the kill rounds."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from nodes.channel import RetryDelays
from nodes.protocol import fleet_pb2
from tests.load.agents import FakeAgent
from tests.load.held_memory import key_of
from tests.load.suspended_sessions import SuspendedSessions

TICK_SECONDS = 0.3
"""Time that a step of a suspension takes. A real agent looks at its sessions once a second."""


class Granted(NamedTuple):
    """A partition in the desired state of a node."""

    percent: int
    memory_bytes: int
    mode: str


class Agent(FakeAgent):
    """Agent that keeps desired state and sessions, also while the appliance is unreachable."""

    generation = -1

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.retry_delays = RetryDelays(0.3, 0.3)
        self.grants: dict[tuple[str, str], Granted] = {}
        """By allocation and GPU."""
        self.sessions = SuspendedSessions(random.Random(self.node["id"]))
        self.problems: list[str] = []

    def inventory(self) -> fleet_pb2.Inventory:
        inventory = super().inventory()
        inventory.suspends = inventory.resizes = True
        return inventory

    def apply(self, state: fleet_pb2.DesiredState) -> None:
        self.generation = state.generation
        self.grants = {
            key_of(g, p): Granted(p.compute_percent, p.memory_bytes, g.compute_mode or "shared")
            for g in state.grants
            for p in g.partitions
        }
        self.sessions.apply(state.grants)
        for gpu, percent in percent_by_gpu(self.grants).items():
            if percent > 100:
                self.problems.append(
                    f"node {self.node['id']}: desired state grants {percent} % of GPU {gpu}"
                )
        for gpu, held in self.sessions.memory.by_gpu().items():
            if held > self.node["memory_bytes"]:
                self.problems.append(
                    f"node {self.node['id']}: programs can hold {held} bytes of GPU {gpu}, "
                    f"which has {self.node['memory_bytes']}"
                )

    def report(self, generation: int) -> fleet_pb2.Report:
        return self.sessions.report(generation)

    async def run_sessions(self) -> None:
        """Let the sessions go on until cancelled, and report what changed."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            report = self.sessions.advance(max(self.generation, 0))
            if report is not None and self.online:
                self.put(report=report)


def percent_by_gpu(grants: Mapping[tuple[str, str], Granted]) -> Counter[str]:
    totals: Counter[str] = Counter()
    for (_, gpu), granted in grants.items():
        totals[gpu] += granted.percent
    return totals
