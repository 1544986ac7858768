"""`./bench appliance --kill-rounds N`: kill the appliance repeatedly with requests in flight.

After each restart, the records must agree: the responses that clients received, the state in REST,
the capacity that is taken, and the desired state, sessions and memory of the agents. Every second
kill occurs at a failpoint (`appliance/runtime/failpoints.py`), the others at a random time. The
pool is small, so that most requests are queued and grants compete.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import signal
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from appliance.runtime.failpoints import NAMES
from tests.load.appliance import FLEET_PORT, Bench
from tests.load.http import HttpError
from tests.load.kill_agents import Agent, Granted, percent_by_gpu
from tests.load.kill_books import book_differences
from tests.load.kill_clients import Clients
from tests.load.suspended_sessions import FakeSession

KILL_NODES = 4
CLIENTS = 48
IN_FLIGHT = 20
ROUND_SECONDS = 20.0
"""Maximum time until a failpoint is reached."""
MOST_HITS = 3
"""The kill occurs when the failpoint is reached for the first to third time. Some are rare."""
SETTLE_SECONDS = 60.0
LIVE = ("queued", "preparing", "active", "suspended")
RUNAPPLIANCE = ("manage.py", "runappliance")


@dataclass
class Report:
    """Result of the rounds: kills by failpoint, times in seconds, problems found.

    `granted`, `resized`, `suspended` and `resumed` count allocations and accepted requests.
    """

    rounds: int = 0
    kills: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("starting", "load", "settling"), 0.0)
    )
    min_in_flight: int = 1 << 30
    granted: int = 0
    resized: int = 0
    suspended: int = 0
    resumed: int = 0
    problems: list[str] = field(default_factory=list)


class Rounds:
    """Runs rounds of load, kill, restart and comparison."""

    def __init__(
        self, bench: Bench, program: Sequence[str], settle_seconds: float, names: Sequence[str]
    ) -> None:
        self.bench, self.program, self.settle_seconds = bench, program, settle_seconds
        self.names = names
        self.rng = random.Random(23)
        fleet = json.loads((bench.folder / "fleet.json").read_text())
        users = json.loads((bench.folder / "users.json").read_text())
        self.operator = {"Authorization": f"Bearer {users['operator']}"}
        self.agents = [Agent(node, f"127.0.0.1:{FLEET_PORT}", time.time(), False) for node in fleet]
        self.gpus = {
            g["id"]: {"uuid": g["uuid"], "memory_bytes": node["memory_bytes"]}
            for node in fleet
            for g in node["gpus"]
        }
        self.clients = Clients(bench.url, users, fleet[0]["ca"], self.rng)
        self.report = Report()
        self.checked: set[str] = set()

    async def run(self, rounds: int) -> Report:
        works = [a.run() for a in self.agents] + [a.run_sessions() for a in self.agents]
        works += [self.clients.run_user(n) for n in range(CLIENTS)]
        tasks = [asyncio.create_task(work) for work in (*works, self.send_samples())]
        try:
            failpoints = self.choose_failpoints(rounds)
            await self.start(failpoints[0])
            for failpoint, next_failpoint in zip(failpoints, [*failpoints[1:], ""], strict=True):
                await self.run_round(failpoint, next_failpoint)
                self.report.problems += [
                    f"a client or an agent failed: {task.exception()}"
                    for task in tasks
                    if task.done()
                ]
                if self.report.problems:
                    break
        finally:
            for task in tasks:
                task.cancel()
        entries = self.clients.journal.values()
        self.report.granted = sum(e.released for e in entries)
        self.report.resized = sum(e.resizes for e in entries)
        self.report.suspended = sum(bool(e.asked) for e in entries)
        self.report.resumed = sum(e.asked == "resume" for e in entries)
        return self.report

    def choose_failpoints(self, rounds: int) -> list[str]:
        """Return a failpoint for every second round. Each is chosen once before one is repeated."""
        orders = (self.rng.sample(self.names, len(self.names)) for _ in itertools.count())
        names = itertools.chain.from_iterable(orders)
        return [
            f"{next(names)}:{self.rng.randint(1, MOST_HITS)}" if n % 2 else ""
            for n in range(rounds)
        ]

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
        found += self.suspension_differences(rows) + await self.book_differences(rows)
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
            (row["id"].replace("-", ""), self.gpus[p["gpu_id"]]["uuid"]): Granted(
                p["compute_percent"], p["memory_bytes"], row["granted_compute_mode"]
            )
            for row in rows.values()
            for p in row["partitions"]
        }
        grants = {key: granted for a in self.agents for key, granted in a.grants.items()}
        found = [
            f"GPU {gpu}: {percent} % are allocated"
            for gpu, percent in percent_by_gpu(partitions).items()
            if percent > 100
        ]
        return found + [
            f"{key}: REST shows {partitions.get(key)}, the desired state {grants.get(key)}"
            for key in partitions.keys() | grants.keys()
            if partitions.get(key) != grants.get(key)
        ]

    async def book_differences(self, rows: dict[str, dict[str, Any]]) -> list[str]:
        """Return the differences between sizes, capacity and memory; see `kill_books.py`."""
        wanted = {e.id: e.wanted for e in self.clients.journal.values() if e.wanted}
        capacity = await self.clients.client.request(
            "GET", "/api/v1/capacity", headers=self.operator, query={"by": "node"}
        )
        states = ("running", "suspended")
        sessions = [s for state in states async for s in self.items("sessions", state=state)]
        memory = [a.sessions.memory for a in self.agents]
        return book_differences(rows, wanted, capacity["items"], sessions, memory, self.gpus)

    def suspension_differences(self, rows: dict[str, dict[str, Any]]) -> list[str]:
        """Return the differences between suspensions in REST, sessions, and accepted requests."""
        asked = {e.id: e.asked for e in self.clients.journal.values()}
        sessions = {i: s for a in self.agents for i, s in a.sessions.by_allocation().items()}
        return [
            f"allocation {i}: {problem}"
            for i, row in rows.items()
            if row["state"] in ("active", "suspended")
            if (problem := suspension_problem(row, asked.get(i, ""), sessions.get(i)))
        ]


def suspension_problem(row: dict[str, Any], asked: str, session: FakeSession | None) -> str:
    """Return what is wrong about the suspension of a running allocation; empty: nothing."""
    suspension = row["suspension"] and row["suspension"]["state"]
    if session is None:
        return "its node has no session"
    if suspension not in (None, "suspended", "failed"):
        return f"it stays {suspension}; its session is {session.state}"
    expected = "suspended" if suspension == "suspended" else "active"
    if row["state"] != expected:
        return f"it is {row['state']} and its suspension {suspension}"
    if session.state != ("suspended" if row["state"] == "suspended" else "none"):
        return f"it is {row['state']}, and the suspension of its session {session.state}"
    if row["state"] == "suspended":
        return "" if asked == "suspend" else "it is suspended, and no client asked for that"
    if asked == "suspend" and not session.has_ended_suspension:
        return "it is active, but its client has suspended it"
    return ""


def kill_rounds(
    bench: Bench,
    rounds: int,
    program: Sequence[str] = RUNAPPLIANCE,
    settle_seconds: float = SETTLE_SECONDS,
    failpoints: Sequence[str] = NAMES,
) -> Report:
    """Run rounds until one finds a problem. `program` is the argument list of the appliance."""
    bench.populate()
    try:
        return asyncio.run(Rounds(bench, program, settle_seconds, failpoints).run(rounds))
    finally:
        with contextlib.suppress(AttributeError):
            bench.appliance.kill()
            bench.appliance.wait()
