"""`./bench appliance --kill-rounds N`: kill the appliance repeatedly with requests in flight.

After each restart, three records must agree: the responses that clients received, the state in
REST, and the desired state of the agents. Every second kill occurs at a failpoint
(`appliance/failpoints.py`), the others at a random time. The pool is small, so that most requests
are queued and grants compete.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import secrets
import signal
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from appliance.runtime.failpoints import NAMES
from nodes.protocol import fleet_pb2
from tests.load.agents import FakeAgent
from tests.load.appliance import FLEET_PORT, Bench
from tests.load.http import Client, HttpError

KILL_NODES = 4
CLIENTS = 48
IN_FLIGHT = 20
ROUND_SECONDS = 20.0
"""Maximum time until a failpoint is reached."""
SETTLE_SECONDS = 60.0
SIZES = (30, 40, 60, 100)
WAIT_SECONDS = 1
LIVE = ("queued", "preparing", "active")
RUNAPPLIANCE = ("manage.py", "runappliance")


@dataclass
class Entry:
    """A client's record of one request. `released` is set by the response to its release."""

    percent: int
    id: str = ""
    released: bool = False


@dataclass
class Report:
    """Result of the rounds: kills by failpoint, times in seconds, problems found."""

    rounds: int = 0
    kills: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("starting", "load", "settling"), 0.0)
    )
    min_in_flight: int = 1 << 30
    granted: int = 0
    problems: list[str] = field(default_factory=list)


class Agent(FakeAgent):
    """Agent that keeps its desired state, also while the appliance is unreachable."""

    generation = -1

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.grants: dict[tuple[str, str], int] = {}
        """Percent by allocation and GPU."""
        self.problems: list[str] = []

    @staticmethod
    def delays() -> Iterator[float]:
        return itertools.repeat(0.3)

    def apply(self, state: fleet_pb2.DesiredState) -> None:
        self.generation = state.generation
        self.grants = {
            (g.allocation_id.hex(), p.gpu_uuid.hex()): p.compute_percent
            for g in state.grants
            for p in g.partitions
        }
        for gpu, percent in percent_by_gpu(self.grants).items():
            if percent > 100:
                self.problems.append(
                    f"node {self.node['id']}: desired state grants {percent} % of GPU {gpu}"
                )


def percent_by_gpu(grants: dict[tuple[str, str], int]) -> Counter[str]:
    totals: Counter[str] = Counter()
    for (_, gpu), percent in grants.items():
        totals[gpu] += percent
    return totals


class Clients:
    """Users that allocate and release in a loop while `running` is set, retrying on failures."""

    def __init__(self, url: str, users: dict[str, Any], ca: str, rng: random.Random) -> None:
        self.client = Client(url, ssl.create_default_context(cadata=ca))
        self.users, self.rng = users, rng
        self.journal: dict[str, Entry] = {}
        """Entries by idempotency key."""
        self.running = asyncio.Event()
        self.in_flight = 0
        self.busy = 0

    async def request_until_response(
        self, method: str, path: str, headers: dict[str, str], **more: Any
    ) -> Any:
        """Repeat a request until there is a response. Raises HttpError for a 4xx status."""
        while True:
            self.in_flight += 1
            try:
                return await self.client.request(method, path, headers=headers, **more)
            except HttpError as error:
                if not str(error).startswith("5"):
                    raise
            except (OSError, TimeoutError, EOFError, ssl.SSLError):
                pass
            finally:
                self.in_flight -= 1
            await asyncio.sleep(0.1)

    async def run_user(self, n: int) -> None:
        authorization = {"Authorization": f"Bearer {self.users['tokens'][n]}"}
        while True:
            await self.running.wait()
            self.busy += 1
            key, entry = secrets.token_hex(16), Entry(self.rng.choice(SIZES))
            self.journal[key] = entry
            body = {"percent": entry.percent, "project": self.users["projects"][n]}
            headers = authorization | {"Idempotency-Key": key}
            allocation = await self.request_until_response(
                "POST", "/api/v1/allocations", headers, query={"wait": WAIT_SECONDS}, body=body
            )
            entry.id = allocation["id"]
            self.busy -= 1
            await asyncio.sleep(self.rng.random() * 0.3)
            await self.running.wait()
            self.busy += 1
            await self.request_until_response(
                "DELETE", f"/api/v1/allocations/{entry.id}", authorization
            )
            entry.released = True
            self.busy -= 1


class Rounds:
    """Runs rounds of load, kill, restart and comparison."""

    def __init__(self, bench: Bench, program: Sequence[str], settle_seconds: float) -> None:
        self.bench, self.program, self.settle_seconds = bench, program, settle_seconds
        self.rng = random.Random(23)
        fleet = json.loads((bench.folder / "fleet.json").read_text())
        users = json.loads((bench.folder / "users.json").read_text())
        self.operator = {"Authorization": f"Bearer {users['operator']}"}
        self.agents = [Agent(node, f"127.0.0.1:{FLEET_PORT}", time.time(), False) for node in fleet]
        self.gpu_uuids = {g["id"]: g["uuid"] for node in fleet for g in node["gpus"]}
        self.clients = Clients(bench.url, users, fleet[0]["ca"], self.rng)
        self.report = Report()
        self.checked: set[str] = set()

    async def run(self, rounds: int) -> Report:
        tasks = [asyncio.create_task(a.run()) for a in self.agents] + [
            asyncio.create_task(self.clients.run_user(n)) for n in range(CLIENTS)
        ]
        tasks.append(asyncio.create_task(self.send_samples()))
        try:
            failpoints = [
                f"{self.rng.choice(NAMES)}:{self.rng.randrange(1, 12)}" if n % 2 else ""
                for n in range(rounds)
            ]
            await self.start(failpoints[0])
            for failpoint, next_failpoint in zip(failpoints, [*failpoints[1:], ""], strict=True):
                await self.run_round(failpoint, next_failpoint)
                if self.report.problems:
                    break
        finally:
            for task in tasks:
                task.cancel()
        self.report.granted = sum(e.released for e in self.clients.journal.values())
        return self.report

    async def send_samples(self) -> None:
        while True:
            for agent in self.agents:
                agent.sample(time.time())
                agent.latencies.clear()
            await asyncio.sleep(1.0)

    async def run_round(self, failpoint: str, next_failpoint: str) -> None:
        """Kill the appliance at a failpoint and restart it with the next one configured."""
        self.clients.running.set()
        with self.timed("load"):
            await self.wait_until_killed(failpoint)
        self.clients.running.clear()
        await self.start(next_failpoint)
        with self.timed("settling"):
            await self.compare()
        self.report.rounds += 1

    async def start(self, failpoint: str) -> None:
        with self.timed("starting"):
            await asyncio.to_thread(
                self.bench.start,
                self.program,
                BUSBAR_FAILPOINT=failpoint,
                BUSBAR_HOLD_SECONDS="3600",
            )

    @contextlib.contextmanager
    def timed(self, part: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.report.seconds[part] = round(self.report.seconds[part] + time.monotonic() - started, 1)

    async def wait_until_killed(self, failpoint: str) -> None:
        """Wait until the failpoint kills the process; without one, kill it under enough load."""
        end = time.monotonic() + ROUND_SECONDS
        kill_at = time.monotonic() + 0.5 + self.rng.random()
        in_flight = 0
        if failpoint:
            self.bench.appliance.send_signal(signal.SIGUSR2)
        while self.bench.appliance.poll() is None:
            in_flight = (
                max(in_flight, self.clients.in_flight) if failpoint else self.clients.in_flight
            )
            kill_now = not failpoint and time.monotonic() > kill_at and in_flight >= IN_FLIGHT
            if kill_now or time.monotonic() > end:
                self.bench.appliance.send_signal(signal.SIGKILL)
                await asyncio.to_thread(self.bench.appliance.wait)
                failpoint = "" if kill_now else f"not reached: {failpoint}"
            await asyncio.sleep(0.005)
        name = failpoint.rpartition(":")[0] or "random time"
        self.report.kills[name] = self.report.kills.get(name, 0) + 1
        self.report.min_in_flight = min(self.report.min_in_flight, in_flight)

    async def items(self, path: str, **query: str) -> AsyncIterator[dict[str, Any]]:
        cursor: dict[str, str] = {}
        while True:
            page = await self.clients.client.request(
                "GET",
                f"/api/v1/{path}",
                headers=self.operator,
                query={"limit": "500", **query, **cursor},
            )
            for row in page["items"]:
                yield row
            if page["next"] is None:
                return
            cursor = {"cursor": page["next"]}

    async def compare(self) -> None:
        """Compare the records until they agree or the settle time is over."""
        end = time.monotonic() + self.settle_seconds
        while True:
            problems = (
                ["a request has no response"] if self.clients.busy else await self.differences()
            )
            if not problems or time.monotonic() > end:
                break
            await asyncio.sleep(0.2)
        self.report.problems += problems + [p for a in self.agents for p in a.problems]

    async def fetch_allocations(self) -> dict[str, dict[str, Any]]:
        """Return allocations that are not released, new, or in the journal, by id."""
        rows: dict[str, dict[str, Any]] = {}
        async for row in self.items("allocations"):
            if row["id"] in self.checked:
                break  # the newest are first
            rows[row["id"]] = row
        for state in (*LIVE, "releasing"):
            rows |= {row["id"]: row async for row in self.items("allocations", state=state)}
        for i in {e.id for e in self.clients.journal.values()} - rows.keys() - self.checked:
            with contextlib.suppress(HttpError):  # reported as lost
                rows[i] = await self.clients.client.request(
                    "GET", f"/api/v1/allocations/{i}", headers=self.operator
                )
        return rows

    async def differences(self) -> list[str]:
        """Return the differences between REST, journal and agents."""
        rows = await self.fetch_allocations()
        found = self.journal_differences(rows) + self.agent_differences(rows)
        async for node in self.items("nodes"):
            if not node["reachable"] or node["applied_generation"] != node["generation"]:
                found.append(
                    f"node {node['name']}: applied generation {node['applied_generation']} "
                    f"of {node['generation']}"
                )
        if not found:
            self.checked |= {i for i, row in rows.items() if row["state"] == "released"}
        return found

    def journal_differences(self, rows: dict[str, dict[str, Any]]) -> list[str]:
        entries = {e.id: e for e in self.clients.journal.values()}
        found = [
            f"allocation {i} exists without a request, or twice for one request"
            for i in rows.keys() - entries.keys()
        ]
        for i, e in entries.items():
            if i in self.checked:
                continue
            state = rows[i]["state"] if i in rows else "lost"
            if state not in (("released",) if e.released else LIVE):
                expected = "released" if e.released else "live"
                found.append(f"allocation {i} is {state}; its client expects it to be {expected}")
        return found

    def agent_differences(self, rows: dict[str, dict[str, Any]]) -> list[str]:
        partitions = {
            (row["id"].replace("-", ""), self.gpu_uuids[p["gpu_id"]]): p["compute_percent"]
            for row in rows.values()
            for p in row["partitions"]
        }
        grants = {key: percent for a in self.agents for key, percent in a.grants.items()}
        found = [
            f"GPU {gpu}: {percent} % are allocated"
            for gpu, percent in percent_by_gpu(partitions).items()
            if percent > 100
        ]
        return found + [
            f"{key}: REST shows {partitions.get(key)} %, the desired state {grants.get(key)} %"
            for key in partitions.keys() ^ grants.keys()
        ]


def kill_rounds(
    bench: Bench,
    rounds: int,
    program: Sequence[str] = RUNAPPLIANCE,
    settle_seconds: float = SETTLE_SECONDS,
) -> Report:
    """Run rounds until one finds a problem. `program` is the argument list of the appliance."""
    bench.populate()
    try:
        return asyncio.run(Rounds(bench, program, settle_seconds).run(rounds))
    finally:
        with contextlib.suppress(AttributeError):
            bench.appliance.kill()
            bench.appliance.wait()
