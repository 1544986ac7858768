"""`./bench appliance --kill-rounds N`: the appliance is killed with requests in flight, again and again; afterwards every book must say the same.

The books: what the clients were answered, what REST shows, and what the agents were told. Every second kill is at a named place (`appliance/failpoints.py`),
the others at any moment. The pool is small, so that most requests wait and each grant is one that somebody else wanted.
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

from appliance.failpoints import NAMES
from nodes.protocol import fleet_pb2
from tests.load.agents import FakeAgent
from tests.load.appliance import FLEET_PORT, Bench
from tests.load.http import Client, HttpError

KILL_NODES = 4
CLIENTS = 48
IN_FLIGHT = 20
ROUND_SECONDS = 20.0
"""A named place that was not reached in this time is not waited for any longer."""
SETTLE_SECONDS = 60.0
SIZES = (30, 40, 60, 100)
WAIT_SECONDS = 1
LIVE = ("waiting", "preparing", "active")
RUNAPPLIANCE = ("manage.py", "runappliance")


@dataclass
class Entry:
    """What a client knows of one request."""

    percent: int
    id: str = ""
    released: bool = False
    """Its release was answered."""


@dataclass
class Report:
    rounds: int = 0
    kills: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("starting", "load", "settling"), 0.0)
    )
    least_in_flight: int = 1 << 30
    granted: int = 0
    problems: list[str] = field(default_factory=list)


class Agent(FakeAgent):
    """Keeps what it was told, as a node does, also while the appliance is away."""

    generation = -1

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.holds: dict[tuple[str, str], int] = {}
        """Allocation and GPU to percent."""
        self.problems: list[str] = []

    @staticmethod
    def delays() -> Iterator[float]:
        return itertools.repeat(0.3)

    def apply(self, state: fleet_pb2.DesiredState) -> None:
        self.generation = state.generation
        self.holds = {
            (g.allocation_id.hex(), p.gpu_uuid.hex()): p.compute_percent
            for g in state.grants
            for p in g.partitions
        }
        for gpu, percent in sums(self.holds).items():
            if percent > 100:
                self.problems.append(f"{self.node['id']} was told to give {percent} % of GPU {gpu}")


def sums(holds: dict[tuple[str, str], int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for (_, gpu), percent in holds.items():
        found[gpu] += percent
    return found


class Clients:
    def __init__(self, url: str, people: dict[str, Any], ca: str, dice: random.Random) -> None:
        self.client = Client(url, ssl.create_default_context(cadata=ca))
        self.people, self.dice = people, dice
        self.journal: dict[str, Entry] = {}
        self.going = asyncio.Event()
        self.in_flight = 0
        self.busy = 0

    async def until_answered(
        self, method: str, path: str, headers: dict[str, str], **more: Any
    ) -> Any:
        """The same request again until there is an answer. Raises HttpError for a refusal."""
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

    async def live(self, n: int) -> None:
        who = {"Authorization": f"Bearer {self.people['tokens'][n]}"}
        while True:
            await self.going.wait()
            self.busy += 1
            key, entry = secrets.token_hex(16), Entry(self.dice.choice(SIZES))
            self.journal[key] = entry
            wanted = {"percent": entry.percent, "project": self.people["projects"][n]}
            headers = who | {"Idempotency-Key": key}
            answer = await self.until_answered(
                "POST", "/api/v1/allocations", headers, query={"wait": WAIT_SECONDS}, body=wanted
            )
            entry.id = answer["id"]
            self.busy -= 1
            await asyncio.sleep(self.dice.random() * 0.3)
            await self.going.wait()
            self.busy += 1
            await self.until_answered("DELETE", f"/api/v1/allocations/{entry.id}", who)
            entry.released = True
            self.busy -= 1


class Rounds:
    def __init__(self, bench: Bench, program: Sequence[str], settle_seconds: float) -> None:
        self.bench, self.program, self.settle_seconds = bench, program, settle_seconds
        self.dice = random.Random(23)
        fleet = json.loads((bench.folder / "fleet.json").read_text())
        people = json.loads((bench.folder / "people.json").read_text())
        self.operator = {"Authorization": f"Bearer {people['operator']}"}
        self.agents = [Agent(node, f"127.0.0.1:{FLEET_PORT}", time.time(), False) for node in fleet]
        self.gpu_uuids = {g["id"]: g["uuid"] for node in fleet for g in node["gpus"]}
        self.clients = Clients(bench.url, people, fleet[0]["ca"], self.dice)
        self.report = Report()
        self.checked: set[str] = set()

    async def run(self, rounds: int) -> Report:
        tasks = [asyncio.create_task(a.run()) for a in self.agents] + [
            asyncio.create_task(self.clients.live(n)) for n in range(CLIENTS)
        ]
        tasks.append(asyncio.create_task(self.beat()))
        try:
            places = [
                f"{self.dice.choice(NAMES)}:{self.dice.randrange(1, 12)}" if n % 2 else ""
                for n in range(rounds)
            ]
            await self.start(places[0])
            for place, following in zip(places, [*places[1:], ""], strict=True):
                await self.one(place, following)
                if self.report.problems:
                    break
        finally:
            for task in tasks:
                task.cancel()
        self.report.granted = sum(e.released for e in self.clients.journal.values())
        return self.report

    async def beat(self) -> None:
        while True:
            for agent in self.agents:
                agent.sample(time.time())
                agent.latencies.clear()
            await asyncio.sleep(1.0)

    async def one(self, failpoint: str, following: str) -> None:
        """Dies at this place, and is started so that it can die at the following one."""
        self.clients.going.set()
        with self.timed("load"):
            await self.until_dead(failpoint)
        self.clients.going.clear()
        await self.start(following)
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
        begun = time.monotonic()
        yield
        self.report.seconds[part] = round(self.report.seconds[part] + time.monotonic() - begun, 1)

    async def until_dead(self, failpoint: str) -> None:
        """At its named place, or by hand while enough is in flight."""
        end, by_hand_at = (
            time.monotonic() + ROUND_SECONDS,
            time.monotonic() + 0.5 + self.dice.random(),
        )
        in_flight = 0
        if failpoint:
            self.bench.appliance.send_signal(signal.SIGUSR2)
        while self.bench.appliance.poll() is None:
            in_flight = (
                max(in_flight, self.clients.in_flight) if failpoint else self.clients.in_flight
            )
            by_hand = not failpoint and time.monotonic() > by_hand_at and in_flight >= IN_FLIGHT
            if by_hand or time.monotonic() > end:
                self.bench.appliance.send_signal(signal.SIGKILL)
                await asyncio.to_thread(self.bench.appliance.wait)
                failpoint = "" if by_hand else f"not reached: {failpoint}"
            await asyncio.sleep(0.005)
        place = failpoint.rpartition(":")[0] or "any moment"
        self.report.kills[place] = self.report.kills.get(place, 0) + 1
        self.report.least_in_flight = min(self.report.least_in_flight, in_flight)

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
        """When everybody was answered and every node has what it was told."""
        end = time.monotonic() + self.settle_seconds
        while True:
            problems = (
                ["a request is not answered"] if self.clients.busy else await self.differences()
            )
            if not problems or time.monotonic() > end:
                break
            await asyncio.sleep(0.2)
        self.report.problems += problems + [p for a in self.agents for p in a.problems]

    async def differences(self) -> list[str]:
        shown: dict[str, dict[str, Any]] = {}
        async for row in self.items("allocations"):
            if row["id"] in self.checked:
                break  # the newest come first
            shown[row["id"]] = row
        for state in (*LIVE, "releasing"):
            shown |= {row["id"]: row async for row in self.items("allocations", state=state)}
        for i in {e.id for e in self.clients.journal.values()} - shown.keys() - self.checked:
            with contextlib.suppress(HttpError):  # it is lost
                shown[i] = await self.clients.client.request(
                    "GET", f"/api/v1/allocations/{i}", headers=self.operator
                )
        found = list(self.unlike_the_journal(shown))
        found += self.unlike_the_agents(shown)
        async for node in self.items("nodes"):
            if not node["reachable"] or node["applied_generation"] != node["generation"]:
                found.append(
                    f"{node['name']} is at {node['applied_generation']} of {node['generation']}"
                )
        if not found:
            self.checked |= {i for i, row in shown.items() if row["state"] == "released"}
        return found

    def unlike_the_journal(self, shown: dict[str, dict[str, Any]]) -> list[str]:
        entries = {e.id: e for e in self.clients.journal.values()}
        found = [
            f"{i} was given, and nobody asked for it, or asked once and got two"
            for i in shown.keys() - entries.keys()
        ]
        for i, e in entries.items():
            if i in self.checked:
                continue
            state = shown[i]["state"] if i in shown else "lost"
            if state not in (("released",) if e.released else LIVE):
                found.append(
                    f"{i} is {state}; its client was told that it is {'released' if e.released else 'its own'}"
                )
        return found

    def unlike_the_agents(self, shown: dict[str, dict[str, Any]]) -> list[str]:
        books = {
            (row["id"].replace("-", ""), self.gpu_uuids[p["gpu_id"]]): p["compute_percent"]
            for row in shown.values() for p in row["partitions"]
        }  # fmt: skip
        told = {key: percent for a in self.agents for key, percent in a.holds.items()}
        found = [
            f"GPU {gpu} is given {percent} %"
            for gpu, percent in sums(books).items()
            if percent > 100
        ]
        return found + [
            f"{key}: the books say {books.get(key)}, the node was told {told.get(key)}"
            for key in books.keys() ^ told.keys()
        ]


def kill_rounds(
    bench: Bench,
    rounds: int,
    program: Sequence[str] = RUNAPPLIANCE,
    settle_seconds: float = SETTLE_SECONDS,
) -> Report:
    bench.populate()
    try:
        return asyncio.run(Rounds(bench, program, settle_seconds).run(rounds))
    finally:
        with contextlib.suppress(AttributeError):
            bench.appliance.kill()
            bench.appliance.wait()
