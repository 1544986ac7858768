"""REST clients: lists with random filters, and short allocations with a ticket.

Open loop: requests start at fixed times, independent of earlier responses.

Usage: python -m tests.load.rest_clients FOLDER URL LISTS_PER_SECOND PAIRS_PER_SECOND

Commands on stdin: see tests/load/agents.py.
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
from tests.load.http import Client, HttpError
from tests.load.latency import reply, summarise
from tests.load.population import MODELS


class OpenLoop:
    """Calls `operation` at a fixed rate and records the time from due time to completion."""

    def __init__(self, rate: float, operation: Callable[[int], Awaitable[None]]) -> None:
        self.rate, self.operation = rate, operation
        self.latencies: list[tuple[float, float]] = []
        self.problems: list[str] = []
        self.started: list[float] = []
        self.tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        started, n = time.time(), 0
        while self.rate:
            due = started + n / self.rate
            if (left := due - time.time()) > 0:
                await asyncio.sleep(left)
            self.started.append(due)
            task = asyncio.create_task(self.call(n, due))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
            n += 1

    async def call(self, n: int, due: float) -> None:
        try:
            await self.operation(n)
            self.latencies.append((due, time.time() - due))
        except Exception as problem:
            self.problems.append(repr(problem)[:300])

    def figures(self, begin: float, end: float) -> dict[str, Any]:
        inside = [latency for due, latency in self.latencies if begin <= due < end]
        due_count = sum(begin <= due < end for due in self.started)
        return {**summarise(inside, due_count - len(inside)), "problems": self.problems[:3]}


class RestClients:
    """The operations of the load, each as a different user."""

    def __init__(self, fleet: list[dict[str, Any]], users: dict[str, Any], url: str) -> None:
        self.fleet, self.tokens, self.projects = fleet, users["tokens"], users["projects"]
        self.rng = random.Random(5)
        self.client = Client(url, ssl.create_default_context(cadata=fleet[0]["ca"]))
        self.key = base64.b64encode(secrets.token_bytes(32)).decode()
        self.releases: set[asyncio.Task[None]] = set()

    def headers(self, n: int) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[n % len(self.tokens)]}"}

    async def list_gpus(self, n: int) -> None:
        filters = self.rng.choice(
            [
                {},
                {"model": self.rng.choice(MODELS)[0]},
                {"node_id": self.rng.choice(self.fleet)["id"]},
                {"pool": "default"},
                {"present": "true", "model": self.rng.choice(MODELS)[0]},
            ]
        )
        await self.client.request(
            "GET", "/api/v1/gpus", query={"limit": 50, **filters}, headers=self.headers(n)
        )

    async def allocate(self, n: int) -> None:
        """Allocate, fetch a ticket and start the release. Raises if it is not active."""
        headers = self.headers(n) | {"Idempotency-Key": secrets.token_hex(16)}
        body = {"percent": 25, "project": self.projects[n % len(self.projects)]}
        allocation = await self.client.request(
            "POST", "/api/v1/allocations", query={"wait": 20}, body=body, headers=headers
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
    clients = RestClients(
        json.loads((folder / "fleet.json").read_text()),
        json.loads((folder / "users.json").read_text()),
        url,
    )
    loads = {
        "list": OpenLoop(lists, clients.list_gpus),
        "allocate": OpenLoop(pairs, clients.allocate),
    }
    running = [asyncio.create_task(load.run()) for load in loads.values()]
    async for command, *arguments in commands():
        if command == "figures":
            begin, end = map(float, arguments)
            reply(**{name: load.figures(begin, end) for name, load in loads.items()})
        elif command == "stop":
            break
    for task in running:
        task.cancel()


if __name__ == "__main__":
    _, path, target, lists_per_second, pairs_per_second = sys.argv
    asyncio.run(main(Path(path), target, float(lists_per_second), float(pairs_per_second)))
