"""Programs whose allocations share one GPU and are resized, and what all books say about them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from remoting.bench.partitions.resize_rows import after_rounds
from tests.system.launcher_books import Granted, LauncherBooks
from tests.system.test_resize import MIB, OUT_OF_MEMORY, Program

Differences = dict[str, tuple[object, object]]
"""What two books say differently, by name."""
MODES = ("shared", "capped", "guaranteed")
START: dict[str, Any] = {"percent": 20, "memory_bytes": 1024 * MIB, "compute_mode": "shared"}
STEP_BYTES, MAX_STEPS, MAX_PERCENT = 512 * MIB, 12, 70
USES, MAX_CHANGES = 6, 3
KERNELS, ROUNDS = 50, 200_000


@dataclass
class Tenant:
    """A program, the size that its client was promised, and what it has been told."""

    program: Program
    rng: random.Random
    held: list[str] = field(default_factory=list)
    wanted: dict[str, Any] = field(default_factory=START.copy)
    kernels: int = 0

    @property
    def id(self) -> UUID:
        return UUID(self.program.allocation_id)

    def use_memory(self) -> None:
        """Allocate and release at random. What exceeds the size is refused."""
        for _ in range(USES):
            if self.held and self.rng.random() < 0.4:
                self.release(self.rng.randrange(len(self.held)))
            else:
                self.allocate(self.rng.randrange(1, 4) * STEP_BYTES)

    def allocate(self, count: int) -> bool:
        """Return whether there was room."""
        answer = self.program.allocate(count)
        if answer == OUT_OF_MEMORY:
            return False
        assert answer.startswith("ok "), answer
        self.held.append(answer.removeprefix("ok "))
        return True

    def release(self, index: int) -> None:
        assert self.program.tell(f"release {self.held.pop(index)}") == "ok"

    def work(self) -> None:
        """Give the GPU work, for whose end `has_right_results` waits."""
        self.kernels += KERNELS
        assert self.program.tell(f"work {KERNELS} {ROUNDS}") == "ok"

    def has_right_results(self) -> bool:
        return self.program.tell("result") == f"{after_rounds(self.kernels * ROUNDS)} 0"

    def choose_changes(self) -> list[dict[str, Any]]:
        """Choose one or more of memory, percent and mode, also less memory than is in use.

        The sum of all tenants may exceed the GPU: what grows then waits.
        """
        changes = []
        for _ in range(self.rng.randint(1, MAX_CHANGES)):
            choices = {
                "memory_bytes": self.small_number(1, MAX_STEPS) * STEP_BYTES,
                "percent": self.small_number(5, MAX_PERCENT),
                "compute_mode": self.rng.choice(MODES),
            }
            names = self.rng.sample(sorted(choices), self.rng.randint(1, len(choices)))
            changes.append({name: choices[name] for name in names})
            self.wanted |= changes[-1]
        return changes

    def small_number(self, least: int, most: int) -> int:
        return min(self.rng.randint(least, most), self.rng.randint(least, most))

    def differences(self, allocation: dict[str, Any], books: LauncherBooks) -> Differences:
        (p,) = allocation["partitions"]
        over, state = p["over_bytes"], allocation["resize"] and allocation["resize"]["state"]
        granted = granted_of(allocation)
        (gpu,) = (gpu for gpu, of_gpu in books.granted.items() if self.id in of_gpu)
        held, waits = books.held[gpu][self.id], state == "queued"
        return {
            "request": ({name: allocation[name] for name in START}, self.wanted),
            "grant": (granted, granted if waits else Granted(*(self.wanted[n] for n in START))),
            "resize": (state, "queued" if waits else "shrinking" if over else None),
            "launcher": (books.granted[gpu][self.id], granted),
            "memory over the size": (over, max(0, held - granted.memory_bytes)),
            "program": (
                set(map(int, self.program.tell("sizes").split())),
                {granted.memory_bytes},
            ),
        }


def granted_of(allocation: dict[str, Any]) -> Granted:
    (p,) = allocation["partitions"]
    mode = allocation["granted_compute_mode"]
    return Granted(p["compute_percent"], p["memory_bytes"], mode)


def needless_waits(allocations: list[dict[str, Any]], memory_bytes: int) -> Iterator[str]:
    """Yield the growth that waits alone though the GPU has room for it."""
    partitions = [p for a in allocations for p in a["partitions"]]
    percent = 100 - sum(p["compute_percent"] for p in partitions)
    room = memory_bytes - sum(p["memory_bytes"] + p["over_bytes"] for p in partitions)
    waiting = [a for a in allocations if a["resize"] and a["resize"]["state"] == "queued"]
    for a in waiting if len(waiting) == 1 else []:
        (p,) = a["partitions"]
        occupied = p["memory_bytes"] + p["over_bytes"]
        if a["percent"] - p["compute_percent"] <= percent and a["memory_bytes"] - occupied <= room:
            yield a["id"]
