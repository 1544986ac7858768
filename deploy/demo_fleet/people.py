"""Simulated users: they request allocations through the REST API, which end with their lifetime."""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from busbar_client import Client, ClientError
from deploy.demo_fleet.hardware import GPUS_PER_NODE, MODELS

log = logging.getLogger("demo-fleet")

POOL = "demo"
WANTED_SHARE, SWING_SHARE, SWING_SECONDS = 0.78, 0.32, 2700.0
"""GPUs that all users together want, as a share of the fleet: above 1, requests wait."""
PAUSE_SECONDS = 0.3
MAX_REQUESTS_A_TURN = 20
SHORTEST_SECONDS, LONGEST_SECONDS = 240, 3600
MISSING_MODEL = "B200"
"""One request in `MISSING_ONCE` wants a model that no node has, and waits in vain."""
MISSING_ONCE, MISSING_SECONDS = 60, 600
SIZES = {"slice": 44, "whole": 22, "several": 18, "node": 6, "model": 10}
"""Weights of the sizes of requests."""
NAMES = ("train-resnet", "finetune-llama", "serve-chat", "notebook", "ablation", "eval", "dock")


@dataclass(frozen=True)
class Person:
    name: str
    project: str
    client: Client


@dataclass
class Request:
    """An allocation that was requested, as long as it may exist."""

    gpus: float
    ends: float


class People:
    """Users that together keep the fleet as busy as `wanted_gpus` says. Blocks on requests."""

    def __init__(self, people: list[Person], nodes: int, seed: int | None = None) -> None:
        self.people, self.gpus = people, nodes * GPUS_PER_NODE
        self._random = random.Random(seed)
        self._requests: list[Request] = []

    def wanted_gpus(self, now: float) -> float:
        wave = math.sin(2 * math.pi * now / SWING_SECONDS)
        return self.gpus * (WANTED_SHARE + SWING_SHARE * wave)

    def act(self, now: float) -> Iterator[None]:
        """Make the missing requests, one after the other; yields after each."""
        self._requests = [r for r in self._requests if r.ends > now]
        for _ in range(MAX_REQUESTS_A_TURN):
            if sum(r.gpus for r in self._requests) >= self.wanted_gpus(now):
                return
            self._request(self._random.choice(self.people), now)
            yield

    def _request(self, person: Person, now: float) -> None:
        body = self.new_request()
        seconds = body["lifetime_seconds"]
        share = body.get("percent", 100) / 100
        try:
            person.client.allocations_create({**body, "project": person.project})  # type: ignore[typeddict-item]  # keys are those of AllocationRequest
        except ClientError as error:
            log.warning("people: request of %s refused: %s", person.name, error)
            seconds = PAUSE_SECONDS
        self._requests.append(Request(body["gpu_count"] * share, now + seconds))

    def new_request(self) -> dict[str, Any]:
        """Return a request of a random size, without its project."""
        spread = self._random.random()
        seconds = SHORTEST_SECONDS * (LONGEST_SECONDS / SHORTEST_SECONDS) ** spread
        body: dict[str, Any] = {
            "name": f"{self._random.choice(NAMES)}-{self._random.randrange(1000)}",
            "pool": POOL,
            "hold": "lifetime",
            "lifetime_seconds": round(seconds),
            "priority": self._random.choice((20, 50, 50, 50, 80)),
            "gpu_count": 1,
        }
        if self._random.randrange(MISSING_ONCE) == 0:
            return body | {"model": MISSING_MODEL, "lifetime_seconds": MISSING_SECONDS}
        return body | self._size()

    def _size(self) -> dict[str, Any]:
        (kind,) = self._random.choices(*zip(*SIZES.items(), strict=True))
        if kind == "slice":
            return {"percent": self._random.choice((10, 15, 20, 25, 25, 30, 40, 50))}
        if kind == "several":
            return {"gpu_count": self._random.choice((2, 2, 4)), "same_node": True}
        if kind == "node":
            return {"gpu_count": GPUS_PER_NODE, "same_node": True}
        if kind == "model":
            return {"percent": 50, "model": self._random.choice(MODELS).name}
        return {}


def live_for(people: People, should_stop: Any) -> None:
    """Act until `should_stop` returns true. Blocks."""
    while not should_stop():
        for _ in people.act(time.time()):
            time.sleep(PAUSE_SECONDS)
            if should_stop():
                return
        time.sleep(PAUSE_SECONDS * 10)
