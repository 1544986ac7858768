"""Rounds of resizes, work and kills at random, after which all books agree.

Three programs share a GPU that is too small for all that they ask for. The books are those of the
clients, REST, the capacity of the GPUs, the launcher, the software GPU and the programs. Samples of
what the launcher enforces meanwhile never exceed the GPU. A run has a round for each kind of kill;
BUSBAR_TEST_RUNS is the number of runs.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from threading import Semaphore
from typing import Any
from uuid import UUID

import pytest

from remoting.cli.api import ApiError, ApplianceUnreachable
from tests.remoting.node import BUILD, EVENT_SECONDS, FAILPOINTS, gpu_memory_bytes
from tests.system.conftest import Pool
from tests.system.launcher_books import Observer
from tests.system.resized_tenants import (
    MAX_STEPS,
    START,
    STEP_BYTES,
    Differences,
    Tenant,
    needless_waits,
)
from tests.system.test_resize import program
from tests.system.test_resize_steps import replaced

pytestmark = [pytest.mark.system, pytest.mark.long]
RUNS = int(os.environ.get("BUSBAR_TEST_RUNS", "2"))
SESSION_SERVER = "session server"
VICTIMS = (
    ("agent",),
    ("launcher",),
    ("appliance",),
    ("agent", "launcher"),
    ("agent", "launcher", "appliance"),
    (SESSION_SERVER,),
)
TENANTS = 3
ENDED = ("not_found", "conflict")
LARGE = {"percent": 60, "memory_bytes": MAX_STEPS * STEP_BYTES}
SMALL = {"percent": 10, "memory_bytes": STEP_BYTES}
WHOLE_GPU = {"percent": 100, "hold": "lifetime", "lifetime_seconds": 86400}


class Rounds:
    """Tenants of one GPU, and what was seen of them."""

    def __init__(self, pool: Pool, stack: ExitStack, seed: int) -> None:
        self.pool, self.stack, self.rng = pool, stack, random.Random(seed)
        self.waits = self.over = 0
        """Times that growth waited, or a program held more than its size, when the books agreed."""
        self.gpus = {g["id"]: g for g in pool.api.items("gpus")}
        sizes = {UUID(g["uuid"]): int(g["memory_bytes"]) for g in self.gpus.values()}
        self.observer = Observer(pool.stack.node.runtime, sizes)
        self.start()

    def start(self) -> None:
        """Start programs on one GPU. An allocation without a program has the other one."""
        self.pool.settle()
        other = self.pool.api.request("POST", "allocations", WHOLE_GPU, wait="60")
        (taken,) = other["partitions"]
        (self.gpu,) = (g for i, g in self.gpus.items() if i != taken["gpu_id"])
        self.tenants = [self.tenant() for _ in range(TENANTS)]

    def tenant(self) -> Tenant:
        options = ("-m", "1GiB", "-p", "20", "--mode", "shared")
        running = self.stack.enter_context(program(self.pool, *options))
        uses, choices = (random.Random(self.rng.random()) for _ in range(2))
        return Tenant(running, uses, choices)

    def run(self, victims: tuple[str, ...]) -> None:
        """Kill processes when some of the resizes have been answered."""
        for tenant in self.tenants:
            tenant.use_memory()
            tenant.work()
        changes = [tenant.choose_changes() for tenant in self.tenants]
        answered, count = Semaphore(0), sum(map(len, changes))
        killed = self.rng.choice(self.tenants) if victims == (SESSION_SERVER,) else None
        with ThreadPoolExecutor(TENANTS) as senders:
            sent = [
                senders.submit(self.resize, tenant, of_tenant, answered, may_end=tenant is killed)
                for tenant, of_tenant in zip(self.tenants, changes, strict=True)
            ]
            for _ in range(self.rng.randrange(count)):
                assert answered.acquire(timeout=EVENT_SECONDS)
            assert any(t.is_working() for t in self.tenants if t is not killed)
            if killed:
                self.kill_session(killed)
            else:
                self.pool.kill(*victims)
            for result in sent:
                result.result()
        self.await_books(victims)
        if killed:
            self.start()

    def resize(
        self, tenant: Tenant, changes: list[dict[str, Any]], answered: Semaphore, *, may_end: bool
    ) -> None:
        """Send changes one after the other. They are refused when the allocation has ended."""

        def send(change: dict[str, Any]) -> bool:
            try:
                tenant.program.resize(**change)
            except ApplianceUnreachable:
                raise
            except ApiError as error:
                if not may_end or error.code not in ENDED:
                    raise
            return True

        for change in changes:
            self.pool.wait("the resize", partial(send, change))
            answered.release()

    def kill_session(self, tenant: Tenant) -> None:
        (session,) = (
            s
            for s in self.pool.sessions(state="running")
            if s["allocation_id"] == tenant.program.allocation_id
        )
        self.tenants.remove(tenant)
        os.kill(session["pid"], signal.SIGKILL)
        self.pool.finish(tenant.program.process)
        self.pool.wait("the release", lambda: tenant.program.allocation["state"] == "released")

    def differences(self) -> Differences:
        """Return the values that differ between two books, by name."""
        books = self.observer.read()
        if books is None:
            return {"launcher": (None, "grants that do not change")}
        gpu, memory_bytes = UUID(self.gpu["uuid"]), self.gpu["memory_bytes"]
        allocations = [t.program.allocation for t in self.tenants]
        if lost := [a for a in allocations if a["state"] != "active"]:
            return {"allocations": (lost, "active ones")}
        if set(books.granted[gpu]) != {t.id for t in self.tenants}:
            return {"grants": (set(books.granted[gpu]), {t.id for t in self.tenants})}
        partitions = [p for a in allocations for p in a["partitions"]]
        percent = sum(p["compute_percent"] for p in partitions)
        occupied = sum(p["memory_bytes"] + p["over_bytes"] for p in partitions)
        sessions = self.pool.sessions(state="running")
        shown = {UUID(s["allocation_id"]): s["memory_bytes"] for s in sessions}
        pairs: Differences = {
            "capacity": (self.taken(), (percent, occupied)),
            "driver": (self.driver(), sum(books.held[gpu].values())),
            "sessions": (shown, dict(books.held[gpu])),
            "needless waits": (list(needless_waits(allocations, memory_bytes)), []),
        }
        for tenant, allocation in zip(self.tenants, allocations, strict=True):
            found = tenant.differences(allocation, books)
            pairs |= {f"{name} of {tenant.id}": pair for name, pair in found.items()}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}

    def driver(self) -> int:
        return sum(gpu_memory_bytes(self.pool.stack.node.environment()))

    def taken(self) -> tuple[int, int]:
        """Return the percent and the bytes that are taken of the GPU, as REST shows them."""
        total = self.pool.api.request("GET", "capacity")["total"]
        taken = total["gpus"]["allocated"], total["memory_bytes"]["allocated"]
        return round(100 * taken[0]) - 100, round(taken[1]) - self.gpu["memory_bytes"]

    def await_books(self, killed: tuple[str, ...]) -> None:
        found: Differences = {}

        def agree() -> bool:
            assert not self.observer.excess, self.observer.excess[0]
            found.clear()
            found.update(self.differences())
            return not found

        try:
            self.pool.wait("equal books", agree)
        except SystemExit:
            pytest.fail(f"after a kill of {' and '.join(killed)}: {found}")
        assert all(t.has_right_results() for t in self.tenants), f"after a kill of {killed}"
        resizes = [r for t in self.tenants if (r := t.program.allocation["resize"])]
        self.waits += sum(r["state"] == "queued" for r in resizes)
        self.over += sum(r["over_bytes"] > 0 for r in resizes)
        for tenant in self.tenants:
            tenant.note_grant()

    def let_growth_wait(self) -> None:
        """Let a tenant shrink below its use, and another one wait for the memory."""
        first, second, _ = self.tenants
        self.change(first, LARGE)
        self.pool.wait("the growth", lambda: first.program.allocation["resize"] is None)
        while first.allocate(STEP_BYTES):
            pass
        self.change(first, SMALL)
        self.change(second, LARGE)

    def change(self, tenant: Tenant, size: dict[str, Any]) -> None:
        tenant.want(size)
        tenant.program.resize(**size)

    def shrink_all(self) -> None:
        """Give back all memory. What waits is replaced."""
        for tenant in self.tenants:
            while tenant.held:
                tenant.release(0)
            self.change(tenant, START)
        programs = [t.program for t in self.tenants]
        self.pool.wait("the sizes", lambda: all(p.allocation["resize"] is None for p in programs))
        self.await_books(("nothing",))

    def change_mode_alone(self) -> None:
        """Kill the node at changes of the mode of a program that has the GPU for itself.

        Only then the launcher tells the mode: it limits the program, or not.
        """
        tenant = self.tenants.pop()
        for other in list(self.tenants):
            self.kill_session(other)
        for mode in ("capped", "shared"):
            self.change(tenant, {"compute_mode": mode})
            self.pool.kill("agent", "launcher")
            self.pool.wait(f"the mode {mode}", partial(is_limited, tenant, mode == "capped"))


def is_limited(tenant: Tenant, wanted: bool) -> bool:
    how = tenant.program.allocation["compute_enforcement"]
    return how is not None and how.startswith("enforced") == wanted


@contextmanager
def rounds(pool: Pool, seed: int = 0) -> Iterator[Rounds]:
    with ExitStack() as stack:
        found = Rounds(pool, stack, seed)
        with found.observer.running():
            yield found


@contextmanager
def appliance_without(pool: Pool, guard: str) -> Iterator[None]:
    appliance = pool.stack.appliance
    python, *_ = appliance.command
    with replaced(pool, appliance, [python, "-m", "tests.load.removed_guards", guard]):
        pool.wait("the appliance", pool.stack.ready)
        yield
    pool.wait("the appliance", pool.stack.ready)


@pytest.mark.parametrize("seed", range(RUNS))
def test_books_agree_after_resizes_and_kills_at_random(pool: Pool, seed: int) -> None:
    with rounds(pool, seed) as r:
        for tenant in r.tenants:
            tenant.work()
        r.let_growth_wait()
        pool.kill("agent", "launcher", "appliance")
        r.await_books(("agent", "launcher", "appliance"))
        assert r.waits and r.over, "no growth waits, or nothing shrinks below its use"
        for victims in r.rng.sample(VICTIMS, len(VICTIMS)):
            r.run(victims)
        r.shrink_all()
        r.change_mode_alone()
    assert not r.observer.excess, r.observer.excess[0]
    assert len(r.observer.generations) > len(VICTIMS), "the launcher was seldom observed"


def test_memory_that_is_given_away_before_it_is_returned_is_observed(pool: Pool) -> None:
    with appliance_without(pool, "without_reports_of_held_memory"), rounds(pool) as r:
        r.let_growth_wait()
        pool.wait("the excess", lambda: bool(r.observer.excess))


def test_percent_that_the_arbiter_keeps_after_a_resize_is_observed(pool: Pool) -> None:
    node = pool.stack.node
    command = [str(BUILD / FAILPOINTS / "busbar-launcher"), *node.launcher.command[1:]]
    with (
        replaced(pool, node.launcher, command, BUSBAR_FAILPOINT_KEPT_SHARES="yes"),
        rounds(pool) as r,
    ):
        tenant = r.tenants[0]
        r.change(tenant, {"percent": 30})
        kept = {f"arbiter of {tenant.id}": ({(20, "shared")}, {(30, "shared")})}
        pool.wait("the kept percent", lambda: r.differences() == kept)
