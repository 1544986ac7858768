"""People and their scripts: lists with random filters, and allocations that come and go. Open loop: a late answer delays nobody.

python -m tests.load.people FOLDER URL LISTS_PER_SECOND PAIRS_PER_SECOND; lines on stdin as for agents.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import random
import secrets
import ssl
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.load.agents import commands
from tests.load.figures import say, summary
from tests.load.http import Client, HttpError
from tests.load.population import MODELS


class Load:
    """Calls `once` so many times a second and remembers how long after its due moment each was done."""

    def __init__(self, rate: float, once: Callable[[int], Awaitable[None]]) -> None:
        self.rate, self.once = rate, once
        self.latencies: list[tuple[float, float]] = []
        self.problems: list[str] = []
        self.started: list[float] = []
        self.tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        begun, n = time.time(), 0
        while self.rate:
            due = begun + n / self.rate
            if (left := due - time.time()) > 0:
                await asyncio.sleep(left)
            self.started.append(due)
            task = asyncio.create_task(self.one(n, due))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
            n += 1

    async def one(self, n: int, due: float) -> None:
        try:
            await self.once(n)
            self.latencies.append((due, time.time() - due))
        except Exception as problem:
            self.problems.append(repr(problem)[:300])

    def figures(self, begin: float, end: float) -> dict[str, Any]:
        inside = [latency for due, latency in self.latencies if begin <= due < end]
        asked = sum(begin <= due < end for due in self.started)
        return {**summary(inside, asked - len(inside)), "problems": self.problems[:3]}


class People:
    def __init__(self, fleet: list[dict[str, Any]], people: dict[str, Any], url: str) -> None:
        self.fleet, self.tokens, self.projects, self.dice = (
            fleet,
            people["tokens"],
            people["projects"],
            random.Random(5),
        )
        self.client = Client(url, ssl.create_default_context(cadata=fleet[0]["ca"]))
        self.key = base64.b64encode(secrets.token_bytes(32)).decode()
        self.releases: set[asyncio.Task[None]] = set()

    def headers(self, n: int) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[n % len(self.tokens)]}"}

    async def list_gpus(self, n: int) -> None:
        filters = self.dice.choice(
            [
                {},
                {"model": self.dice.choice(MODELS)[0]},
                {"node_id": self.dice.choice(self.fleet)["id"]},
                {"pool": "default"},
                {"present": "true", "model": self.dice.choice(MODELS)[0]},
            ]
        )
        await self.client.request(
            "GET", "/api/v1/gpus", query={"limit": 50, **filters}, headers=self.headers(n)
        )

    async def allocate(self, n: int) -> None:
        headers = self.headers(n) | {"Idempotency-Key": secrets.token_hex(16)}
        wanted = {"percent": 25, "project": self.projects[n % len(self.projects)]}
        allocation = await self.client.request(
            "POST", "/api/v1/allocations", query={"wait": 20}, body=wanted, headers=headers
        )
        path = f"/api/v1/allocations/{allocation['id']}"
        try:
            if allocation["state"] != "active":
                raise RuntimeError(f"{allocation['state']}: {allocation['waiting_reason']}")
            await self.client.request(
                "POST",
                f"{path}/tickets",
                body={"client_public_key": self.key},
                headers=self.headers(n),
            )
        finally:
            task = asyncio.create_task(self.release(n, path))
            self.releases.add(task)
            task.add_done_callback(self.releases.discard)

    async def release(self, n: int, path: str) -> None:
        with contextlib.suppress(HttpError, OSError, TimeoutError):
            await self.client.request("DELETE", path, headers=self.headers(n))


async def main(folder: Path, url: str, lists: float, pairs: float) -> None:
    people = People(
        json.loads((folder / "fleet.json").read_text()),
        json.loads((folder / "people.json").read_text()),
        url,
    )
    loads = {"list": Load(lists, people.list_gpus), "allocate": Load(pairs, people.allocate)}
    running = [asyncio.create_task(load.run()) for load in loads.values()]
    async for command, *arguments in commands():
        if command == "figures":
            begin, end = map(float, arguments)
            say(**{name: load.figures(begin, end) for name, load in loads.items()})
        elif command == "stop":
            break
    for task in running:
        task.cancel()


if __name__ == "__main__":
    _, path, where, per_second, pairs_per_second = sys.argv
    asyncio.run(main(Path(path), where, float(per_second), float(pairs_per_second)))
