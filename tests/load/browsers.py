"""Browsers without windows: authenticated sockets that watch GPUs, and when each sample that was due reached them.

python -m tests.load.browsers FOLDER URL BEGUN EVERY_SECONDS SOCKETS WIDE; lines on stdin as for agents.
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
from tests.load.figures import say, summary

NARROW_GPUS, WIDE_GPUS = 8, 1024
SAMPLES = '{"type": "samples"'
COLUMN = 4
"""Of agents.DUE in a sample of the feed: it comes after the time and three other readings."""


class Browser:
    def __init__(self, token: str, gpus: dict[str, float]) -> None:
        self.token, self.gpus = token, gpus
        """GPU id to its moment in every round."""
        self.latencies: list[tuple[float, float]] = []

    async def run(self, url: str, context: ssl.SSLContext, begun: float) -> None:
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
                        (begun + s[COLUMN], now - begun - s[COLUMN])
                        for samples in message["gpus"].values()
                        for s in samples
                    ]


def due_between(phases: list[float], begun: float, every: float, begin: float, end: float) -> int:
    return sum(int((end - begun - p) // every) - int((begin - begun - p) // every) for p in phases)


def choose(
    fleet: list[dict[str, Any]], every: float, count: int, dice: random.Random
) -> dict[str, float]:
    """The GPUs of as many nodes as it takes, as the page of a node or of a pool shows them; of what the user sees, which is every other node."""
    nodes = [(every * i / len(fleet), node["gpus"]) for i, node in enumerate(fleet) if i % 2 == 0]
    chosen = dice.sample(nodes, min(count // NARROW_GPUS, len(nodes)))
    return {g["id"]: phase for phase, gpus in chosen for g in gpus}


async def main(folder: Path, url: str, begun: float, every: float, sockets: int, wide: int) -> None:
    fleet, people = (
        json.loads((folder / "fleet.json").read_text()),
        json.loads((folder / "people.json").read_text()),
    )
    context = ssl.create_default_context(cadata=fleet[0]["ca"])
    dice = random.Random(11)
    mine = [
        Browser(
            people["tokens"][i % len(people["tokens"])],
            choose(fleet, every, WIDE_GPUS if i < wide else NARROW_GPUS, dice),
        )
        for i in range(sockets)
    ]
    running = [asyncio.create_task(b.run(url, context, begun)) for b in mine]
    async for command, *arguments in commands():
        if command == "figures":
            begin, end = map(float, arguments)
            inside = [latency for b in mine for due, latency in b.latencies if begin <= due < end]
            due = sum(due_between(list(b.gpus.values()), begun, every, begin, end) for b in mine)
            say(
                **summary(inside, max(due - len(inside), 0)),
                due=due,
                closed=sum(t.done() for t in running),
            )
        elif command == "stop":
            break
    for task in running:
        task.cancel()


if __name__ == "__main__":
    _, path, where, at, seconds, how_many, how_wide = sys.argv
    asyncio.run(main(Path(path), where, float(at), float(seconds), int(how_many), int(how_wide)))
