"""The front door under a flood of anonymous connections and requests on every port."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from deploy.supervisor import ROOT
from remoting.cli.api import Context
from tests.load.http import Client
from tests.load.rest_clients import OpenLoop
from tests.load.results import result
from tests.ports import port
from tests.system.conftest import DEMO, Pool, started

CLOSED = "the client closed it"
"""End reason of the sessions of a program that exits; each step of the program has one."""
BASELINE_SECONDS = 10.0
REQUESTS_PER_SECOND = 20.0


async def list_allocations(context: Context, seconds: float) -> dict[str, Any]:
    """List the allocations as an account holder, 20 times per second (open loop)."""
    client = Client(context.url, ssl.create_default_context(cadata=context.ca_pem))
    headers = {"Authorization": f"Bearer {context.token}"}

    async def operation(_: int) -> None:
        await client.request("GET", "/api/v1/allocations", headers=headers)

    loop, begun = OpenLoop(REQUESTS_PER_SECOND, operation), time.time()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await loop.run()
    await asyncio.gather(*loop.tasks)
    return loop.figures(begun, begun + seconds)


def measure_client(pool: Pool, seconds: float) -> dict[str, Any]:
    context = Context(**json.loads(pool.context.read_text()))
    return asyncio.run(list_allocations(context, seconds))


def start_flood(pool: Pool, seconds: float) -> subprocess.Popen[str]:
    stack = pool.stack
    ports = (stack.https_port, stack.fleet_port, stack.node.service.port)
    command = [sys.executable, "-m", "tests.hardening.flood", *map(str, (*ports, seconds))]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def measure(folder: Path, seconds: float) -> list[dict[str, Any]]:
    """Run a program and an authenticated client during the flood. Return the rows."""
    with started(folder, port(640)) as pool:
        before = measure_client(pool, BASELINE_SECONDS)
        program = pool.start(25, "sh", "-c", f"while sleep 0.5; do {DEMO} add || exit 1; done")
        assert program.stdout is not None and "are correct" in program.stdout.readline()
        idle = pool.start(5, "sh", "-c", "echo started; exec sleep 600")
        assert idle.stdout is not None and idle.stdout.readline() == "started\n"
        flood = start_flood(pool, seconds)
        during = measure_client(pool, seconds)
        attempts = json.loads(flood.communicate(timeout=60)[0])
        ended = [s for s in pool.sessions(state="closed") if s["end_reason"] != CLOSED]
        released = [a for a in pool.api.items("allocations") if a["state"] == "released"]
        events = [e["kind"] for e in pool.api.items("events")]
        failures = len(ended) + sum(p.poll() is not None for p in (program, idle))
        pool.settle()
    rates = {f"{kind}_per_s": round(count / seconds, 1) for kind, count in attempts.items()}
    more = {"before": before, "during": during, "rates": rates, "seconds": seconds}
    return [
        result("flood_authenticated_p99_ms", "ms", during["p99_ms"], 1000, more=more),
        result("flood_ended_allocations", "count", len(released), 0),
        result("flood_ended_sessions", "count", failures, 0),
        result("flood_lost_nodes", "count", events.count("node.unreachable"), 0),
    ]
