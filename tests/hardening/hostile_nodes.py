"""Other nodes and REST beside hostile nodes with 1,500 busy sessions each."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from deploy.supervisor import ROOT
from nodes.protocol import fleet_pb2, limits
from remoting.cli.api import Context
from tests.load.http import Client
from tests.load.latency import quantile
from tests.load.rest_clients import OpenLoop
from tests.load.results import result
from tests.ports import port
from tests.system.conftest import Pool, started
from tests.system.enrolled_agent import SECONDS, Agent, acknowledgement_seconds

BASELINE_SECONDS = 10.0
STREAM_SECONDS = 600.0
HONEST, MAX_SESSIONS = 3, 30
"""Nodes, and sessions of each."""
HEARTBEAT_SECONDS = 0.25
"""Time between messages of an honest node: a sample, or a report with a sample behind it."""
REQUESTS_PER_SECOND = 20.0
WRITE_EVERY = 5
"""One of so many requests changes a row."""
HEARTBEAT_P95_MS, REPORT_P95_MS, REST_P99_MS = 250, 500, 500


class Credentials(TypedDict):
    """Credentials and ids with which a hostile node connects and reports sessions."""

    ca_pem: str
    agent_pem: str
    key: str
    address: str
    allocation_id: str


@dataclass
class Member:
    """An enrolled node with a GPU and an allocation on it."""

    agent: Agent
    allocation_id: str = ""
    sessions: list[fleet_pb2.Session] = field(default_factory=list)
    heartbeats: list[float] = field(default_factory=list)
    """Seconds until a sample was acknowledged."""
    reports: list[float] = field(default_factory=list)
    """Seconds until a report was applied."""

    @classmethod
    def enrolled(cls, pool: Pool) -> Member:
        member = cls(Agent(pool))
        agent, model = member.agent, f"GPU {uuid.uuid4()}"
        stream = agent.connect(seconds=STREAM_SECONDS)
        stream.send(agent.inventory(1, model=model))
        pool.wait("the node", lambda: agent.has_model(model), SECONDS)
        wanted = {"model": model, "percent": 100}
        member.allocation_id = pool.api.request("POST", "allocations", wanted)["id"]
        agent.pool.wait("the grant", lambda: agent.row()["generation"] > 0, SECONDS)
        agent.close()
        return member

    @property
    def credentials(self) -> Credentials:
        return {
            "ca_pem": self.agent.enrolment["ca_pem"],
            "agent_pem": self.agent.enrolment["agent_pem"],
            "key": self.agent.key.decode(),
            "address": self.agent.address,
            "allocation_id": self.allocation_id,
        }

    def report(self) -> fleet_pb2.Report:
        """Return a report with new counters, and at first with one more session each time."""
        if len(self.sessions) < MAX_SESSIONS:
            allocation = uuid.UUID(self.allocation_id).bytes
            self.sessions.append(
                fleet_pb2.Session(
                    id=uuid.uuid4().bytes,
                    allocation_id=allocation,
                    state="running",
                    program="honest",
                )
            )
        for s in self.sessions:
            s.launches += 1
        return fleet_pb2.Report(generation=1, sessions=self.sessions)

    def work(self, ended: threading.Event) -> None:
        """Send samples and reports in turn until the end, and measure each."""
        stream, sequence = self.agent.connect(seconds=STREAM_SECONDS), time.time_ns()
        while not ended.wait(HEARTBEAT_SECONDS):
            sequence += 2
            self.heartbeats.append(acknowledgement_seconds(stream, sequence))
            if ended.wait(HEARTBEAT_SECONDS):
                break
            begin = time.monotonic()
            message = fleet_pb2.AgentMessage(boot_id="b", sequence=sequence + 1)
            message.report.CopyFrom(self.report())
            sequence += 2
            stream.send(message)
            acknowledgement_seconds(stream, sequence)
            self.reports.append(time.monotonic() - begin)
        self.agent.close()

    def lost_sessions(self) -> int:
        """Return how many of the reported sessions the appliance does not show as running."""
        reported = {
            str(uuid.UUID(bytes=s.id)) for s in self.sessions[:-1]
        }  # the last is on its way
        shown = self.agent.pool.sessions(allocation_id=self.allocation_id, state="running")
        return len(reported - {s["id"] for s in shown})


async def use_rest(context: Context, seconds: float) -> dict[str, Any]:
    """List allocations and make enrolment tokens at a fixed rate (open loop)."""
    client = Client(context.url, ssl.create_default_context(cadata=context.ca_pem))
    headers = {"Authorization": f"Bearer {context.token}"}

    async def operation(n: int) -> None:
        if n % WRITE_EVERY:
            await client.request("GET", "/api/v1/allocations", headers=headers)
        else:
            await client.request("POST", "/api/v1/enrolment-tokens", headers=headers, body={})

    loop, begun = OpenLoop(REQUESTS_PER_SECOND, operation), time.time()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await loop.run()
    await asyncio.gather(*loop.tasks)
    return loop.figures(begun, begun + seconds)


@contextlib.contextmanager
def working(members: list[Member]) -> Iterator[None]:
    """Let the members send all the time, so that they do not count as lost between phases."""
    ended = threading.Event()
    threads = [threading.Thread(target=m.work, args=(ended,)) for m in members]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def observe(pool: Pool, honest: list[Member], seconds: float) -> dict[str, Any]:
    """Return the latencies of honest nodes and of REST during this time, in milliseconds."""
    for m in honest:
        m.heartbeats, m.reports = [], []
    rest = asyncio.run(use_rest(Context(**json.loads(pool.context.read_text())), seconds))
    return {
        "heartbeat_p95_ms": quantile([t for m in honest for t in m.heartbeats], 0, 0.95) * 1e3,
        "report_p95_ms": quantile([t for m in honest for t in m.reports], 0, 0.95) * 1e3,
        "rest_p99_ms": rest["p99_ms"],
        "rest_failures": rest["misses"],
    }


def observe_beside(
    pool: Pool, honest: list[Member], hostile: list[Member], seconds: float
) -> dict[str, Any]:
    """Observe while hostile nodes send reports as fast as the appliance reads them."""
    arguments = [str(seconds), str(limits.MAX_SESSIONS)]
    flood = subprocess.Popen(
        [sys.executable, "-m", "tests.hardening.node_flood", *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert flood.stdin is not None
    flood.stdin.write(json.dumps([m.credentials for m in hostile]))
    flood.stdin.close()
    flood.stdin = None
    figures = observe(pool, honest, seconds)
    sent = json.loads(flood.communicate(timeout=seconds + 60)[0])
    lost = float(sum(m.lost_sessions() for m in honest))
    return figures | {"lost_sessions": lost, "flood": sent}


def rows_of(hostile: int, before: dict[str, Any], during: dict[str, Any]) -> list[Any]:
    name = f"hostile_nodes_{hostile}"
    more = {"before": before, "during": during}
    heartbeat, report = during["heartbeat_p95_ms"], during["report_p95_ms"]
    lost = during["lost_sessions"] + during["rest_failures"]
    return [
        result(f"{name}_heartbeat_p95_ms", "ms", heartbeat, HEARTBEAT_P95_MS, more=more),
        result(f"{name}_report_p95_ms", "ms", report, REPORT_P95_MS),
        result(f"{name}_rest_p99_ms", "ms", during["rest_p99_ms"], REST_P99_MS),
        result(f"{name}_lost", "count", lost, 0),
    ]


def measure(folder: Path, seconds: float, counts: tuple[int, ...] = (1, 20)) -> list[Any]:
    """Measure beside one hostile node and beside twenty, which have to connect first."""
    rows: list[Any] = []
    with started(folder, port(670), nodes={}) as pool:
        honest = [Member.enrolled(pool) for _ in range(HONEST)]
        with working(honest):
            before = observe(pool, honest, min(BASELINE_SECONDS, seconds))
            for count in counts:
                hostile = [Member.enrolled(pool) for _ in range(count)]
                rows += rows_of(count, before, observe_beside(pool, honest, hostile, seconds))
        events = [e["object_id"] for e in pool.api.items("events", kind="node.unreachable")]
        lost = sum(m.agent.node_id in events for m in honest)
    return [*rows, result("hostile_nodes_lost_nodes", "count", lost, 0)]
