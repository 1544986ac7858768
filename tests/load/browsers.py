"""Simulated browsers: authenticated sockets that watch GPUs and measure the delay of samples.

Usage: python -m tests.load.browsers FOLDER URL STARTED INTERVAL_SECONDS SOCKETS WIDE

Commands on stdin: see tests/load/agents.py.
"""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import sys
import time
from pathlib import Path
from typing import Any

import orjson
import websockets

from tests.load.agents import commands
from tests.load.latency import reply, summarise

NARROW_GPUS, WIDE_GPUS = 8, 1024
SAMPLES = '{"type": "samples"'
DUE_COLUMN = 4
"""Column of agents.DUE_METRIC in a sample of the feed, after the time and three other metrics."""


class Browser:
    def __init__(self, token: str, gpus: dict[str, float]) -> None:
        self.token, self.gpus = token, gpus
        """Phase of the samples in each interval, by GPU id."""
        self.latencies: list[tuple[float, float]] = []

    async def run(self, url: str, context: ssl.SSLContext, started: float) -> None:
        async with websockets.connect(
            url, ssl=context, compression=None, max_size=None, open_timeout=60
        ) as socket:
            await socket.send(json.dumps({"type": "hello", "token": self.token}))
            await socket.send(json.dumps({"type": "watch", "gpus": list(self.gpus)}))
            async for text in socket:
                now = time.time()
                if str(text).startswith(SAMPLES):
                    message = orjson.loads(text)
                    self.latencies += [
                        (started + s[DUE_COLUMN], now - started - s[DUE_COLUMN])
                        for samples in message["gpus"].values()
                        for s in samples
                    ]


def count_due(phases: list[float], started: float, every: float, begin: float, end: float) -> int:
    """Return the number of samples due in the period from `begin` to `end`."""
    return sum(
        int((end - started - p) // every) - int((begin - started - p) // every) for p in phases
    )


def choose_gpus(
    fleet: list[dict[str, Any]], every: float, count: int, rng: random.Random
) -> dict[str, float]:
    """Return the GPUs of random nodes with their phases, as on the page of a node or pool.

    Users see every other node only.
    """
    nodes = [(every * i / len(fleet), node["gpus"]) for i, node in enumerate(fleet) if i % 2 == 0]
    chosen = rng.sample(nodes, min(count // NARROW_GPUS, len(nodes)))
    return {g["id"]: phase for phase, gpus in chosen for g in gpus}


async def main(
    folder: Path, url: str, started: float, every: float, sockets: int, wide: int
) -> None:
    fleet = json.loads((folder / "fleet.json").read_text())
    tokens = json.loads((folder / "users.json").read_text())["tokens"]
    context = ssl.create_default_context(cadata=fleet[0]["ca"])
    rng = random.Random(11)
    browsers = [
        Browser(
            tokens[i % len(tokens)],
            choose_gpus(fleet, every, WIDE_GPUS if i < wide else NARROW_GPUS, rng),
        )
        for i in range(sockets)
    ]
    running = [asyncio.create_task(b.run(url, context, started)) for b in browsers]
    async for command, *arguments in commands():
        if command == "figures":
            begin, end = map(float, arguments)
            inside = [
                latency for b in browsers for due, latency in b.latencies if begin <= due < end
            ]
            due = sum(
                count_due(list(b.gpus.values()), started, every, begin, end) for b in browsers
            )
            reply(
                **summarise(inside, max(due - len(inside), 0)),
                due=due,
                closed=sum(t.done() for t in running),
            )
        elif command == "stop":
            break
    for task in running:
        task.cancel()


if __name__ == "__main__":
    _, path, target, start, seconds, number, number_wide = sys.argv
    asyncio.run(
        main(Path(path), target, float(start), float(seconds), int(number), int(number_wide))
    )
