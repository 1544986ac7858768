"""Programs whose allocations share one GPU and are resized, and what all books say about them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from remoting.bench.partitions.steps import after_rounds
from tests.system.launcher_books import Granted, LauncherBooks
from tests.system.test_resize import MIB, OUT_OF_MEMORY, Program

Differences = dict[str, tuple[object, object]]
"""Values of two books, by name. They are equal when the books agree."""
MODES = ("shared", "capped", "guaranteed")
START: dict[str, Any] = {"percent": 20, "memory_bytes": 1024 * MIB, "compute_mode": "shared"}
STEP_BYTES, MAX_STEPS, MAX_PERCENT = 512 * MIB, 12, 70
USES, MAX_CHANGES = 6, 3
KERNELS, ROUNDS = 1000, 2_000_000


@dataclass
class Tenant:
    """A program, the size that its client was promised, and what it has been told."""

    program: Program
    uses: random.Random
    choices: random.Random
    """Apart from `uses`: how much is drawn of those depends on what was refused."""
    held: list[str] = field(default_factory=list)
    wanted: dict[str, Any] = field(default_factory=START.copy)
    grantable: set[Granted] = field(default_factory=set)
    """The last grant that was seen, and the sizes that its client has asked for since."""
    kernels: int = 0

    def __post_init__(self) -> None:
        self.want({})

    @property
    def id(self) -> UUID:
        return UUID(self.program.allocation_id)

    def note_grant(self) -> None:
        """Forget the sizes that cannot be granted any more."""
        self.grantable = {granted_of(self.program.allocation)}
        self.want({})

    def use_memory(self) -> None:
        """Allocate and release at random. What exceeds the size is refused."""
        for _ in range(USES):
            if self.held and self.uses.random() < 0.4:
                self.release(self.uses.randrange(len(self.held)))
            else:
                self.allocate(self.uses.randrange(1, 4) * STEP_BYTES)

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

    def is_working(self) -> bool:
        return self.program.tell("is_working") == "True"

    def has_right_results(self) -> bool:
        return self.program.tell("result") == f"{after_rounds(self.kernels * ROUNDS)} 0"

    def want(self, change: dict[str, Any]) -> None:
        self.wanted |= change
        self.grantable.add(Granted(*(self.wanted[name] for name in START)))

    def choose_changes(self) -> list[dict[str, Any]]:
        """Choose one or more of memory, percent and mode, also less memory than is in use.

        The sum of all tenants may exceed the GPU: what grows then waits.
        """
        changes = []
        for _ in range(self.choices.randint(1, MAX_CHANGES)):
            choices = {
                "memory_bytes": self.small_number(1, MAX_STEPS) * STEP_BYTES,
                "percent": self.small_number(5, MAX_PERCENT),
                "compute_mode": self.choices.choice(MODES),
            }
            names = self.choices.sample(sorted(choices), self.choices.randint(1, len(choices)))
            changes.append({name: choices[name] for name in names})
            self.want(changes[-1])
        return changes

    def small_number(self, least: int, most: int) -> int:
        return min(self.choices.randint(least, most), self.choices.randint(least, most))

    def differences(self, allocation: dict[str, Any], books: LauncherBooks) -> Differences:
        (p,) = allocation["partitions"]
        over, state = p["over_bytes"], allocation["resize"] and allocation["resize"]["state"]
        granted, wanted = granted_of(allocation), Granted(*(self.wanted[n] for n in START))
        (gpu,) = (gpu for gpu, of_gpu in books.granted.items() if self.id in of_gpu)
        held, rests = books.held[gpu][self.id], "shrinking" if over else None
        return {
            "request": ({name: allocation[name] for name in START}, self.wanted),
            "size that was not asked for": ({granted} - self.grantable, set()),
            "resize": (state, rests if granted == wanted else "queued"),
            "launcher": (books.granted[gpu][self.id], granted),
            "arbiter": (books.in_force[self.id], {(granted.percent, granted.mode)}),
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


def needless_waits(allocations: list[dict[str, Any]], memory_bytes: int) -> list[str]:
    """Return the growths that wait if the GPU has room for each of them alone.

    If it lacks room for one, this one may be the first of the queue, and the others wait for it.
    """
    partitions = [p for a in allocations for p in a["partitions"]]
    percent = 100 - sum(p["compute_percent"] for p in partitions)
    room = memory_bytes - sum(p["memory_bytes"] + p["over_bytes"] for p in partitions)

    def fits(a: dict[str, Any]) -> bool:
        (p,) = a["partitions"]
        occupied = p["memory_bytes"] + p["over_bytes"]
        added = a["percent"] - p["compute_percent"], a["memory_bytes"] - occupied
        return bool(added[0] <= percent and added[1] <= room)

    waiting = [a for a in allocations if a["resize"] and a["resize"]["state"] == "queued"]
    return [a["id"] for a in waiting] if all(map(fits, waiting)) else []
