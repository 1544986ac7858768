"""Rounds of resizes, use of memory and kills at random, after which all books agree.

The books are those of the client, REST, the capacity of the GPUs, the launcher's ledger, the
software GPU and the program.
"""

from __future__ import annotations

import os
import random
import signal
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from tests.remoting.node import gpu_memory_bytes
from tests.system.conftest import Pool
from tests.system.test_resize import MIB, Program, program

pytestmark = [pytest.mark.system, pytest.mark.long]
SESSION_SERVER = "session server"
VICTIMS = (
    ("agent",),
    ("launcher",),
    ("appliance",),
    ("agent", "launcher"),
    ("agent", "launcher", "appliance"),
    (SESSION_SERVER,),
)
REPETITIONS = 2
RESIZES, USES = 3, 6
STEP_BYTES, MAX_STEPS = 128 * MIB, 10
SIZE_FIELDS = ("percent", "memory_bytes", "compute_mode")
MODES = ("shared", "capped", "guaranteed")


class Rounds:
    """One program after the other, with what its client was promised."""

    def __init__(self, pool: Pool, stack: ExitStack) -> None:
        self.pool, self.stack, self.rng = pool, stack, random.Random(11)
        self.over: list[bool] = []
        """After each round: the program held more than its size."""
        self.start()

    def start(self) -> None:
        options = ("-m", "1GiB", "-p", "20", "--mode", "shared")
        self.program: Program = self.stack.enter_context(program(self.pool, *options))
        self.held: list[str] = []
        self.wanted: dict[str, Any] = {
            "memory_bytes": 1024 * MIB,
            "percent": 20,
            "compute_mode": "shared",
        }

    def use_memory(self) -> None:
        """Allocate and release at random. What exceeds the size is refused."""
        for _ in range(USES):
            if self.held and self.rng.random() < 0.3:
                number = self.held.pop(self.rng.randrange(len(self.held)))
                assert self.program.tell(f"release {number}") == "ok"
            else:
                answer = self.program.allocate(self.rng.randrange(1, 4) * STEP_BYTES)
                self.held += [answer.removeprefix("ok ")] if answer.startswith("ok ") else []

    def resize(self) -> None:
        """Change one or more of memory, percent and mode, also to less memory than is in use."""
        for _ in range(self.rng.randint(1, RESIZES)):
            choices: dict[str, Any] = {
                "memory_bytes": self.rng.randint(2, MAX_STEPS) * STEP_BYTES,
                "percent": self.rng.randrange(5, 61),
                "compute_mode": self.rng.choice(MODES),
            }
            names = self.rng.sample(sorted(choices), self.rng.randint(1, len(choices)))
            self.wanted |= (change := {name: choices[name] for name in names})
            self.pool.wait("the resize", partial(self.send, change))

    def send(self, change: dict[str, Any]) -> bool:
        self.program.resize(**change)
        return True

    def kill(self, *victims: str) -> None:
        if victims != (SESSION_SERVER,):
            self.pool.kill(*victims)
            return
        (session,) = self.pool.sessions(state="running")
        os.kill(session["pid"], signal.SIGKILL)
        self.pool.finish(self.program.process)
        self.pool.wait("the release", lambda: (*self.capacity(), self.driver()) == (0, 0, 0))
        self.start()

    def capacity(self) -> tuple[int, int]:
        """Return the percent and the bytes that are taken of the GPUs."""
        total = self.pool.api.request("GET", "capacity")["total"]
        return round(100 * total["gpus"]["allocated"]), round(total["memory_bytes"]["allocated"])

    def driver(self) -> int:
        return sum(gpu_memory_bytes(self.pool.stack.node.environment()))

    def differences(self) -> dict[str, tuple[object, object]]:
        """Return what two books say differently, by name."""
        allocation, driver = self.program.allocation, self.driver()
        (p,) = allocation["partitions"]
        percent, size, over = p["compute_percent"], p["memory_bytes"], p["over_bytes"]
        mode, wanted = allocation["granted_compute_mode"], self.wanted
        pairs: dict[str, tuple[object, object]] = {
            "request": ({name: allocation[name] for name in wanted}, wanted),
            "grant": ((percent, size, mode), tuple(wanted[name] for name in SIZE_FIELDS)),
            "resize": (
                allocation["resize"] and allocation["resize"]["state"],
                "shrinking" if over else None,
            ),
            "capacity": (self.capacity(), (percent, size + over)),
            "memory over the size": (over, max(0, driver - size)),
            "ledger": ([s["memory_bytes"] for s in self.pool.sessions(state="running")], [driver]),
            "program": (set(map(int, self.program.tell("sizes").split())), {size}),
            "enforced": (
                allocation["compute_enforcement"].startswith("enforced"),
                mode == "capped",
            ),
        }
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}

    def await_books(self, killed: tuple[str, ...]) -> None:
        found: dict[str, tuple[object, object]] = {}

        def agree() -> bool:
            found.clear()
            found.update(self.differences())
            return not found

        try:
            self.pool.wait("equal books", agree)
        except SystemExit:
            pytest.fail(f"after a kill of {' and '.join(killed)}: {found}")
        self.over.append(self.program.allocation["resize"] is not None)


def test_books_agree_after_resizes_and_kills_at_random(pool: Pool) -> None:
    with ExitStack() as stack:
        rounds = Rounds(pool, stack)
        for victims in rounds.rng.sample(VICTIMS * REPETITIONS, len(VICTIMS) * REPETITIONS):
            rounds.use_memory()
            rounds.resize()
            rounds.kill(*victims)
            rounds.await_books(victims)
        assert {True, False} == set(rounds.over), "no round, or each, shrinks below the use"
