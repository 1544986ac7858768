"""`./bench partitions`: shares of one software GPU, from the work that its tenants completed.

Work is the blocks that the engine of the software GPU executed, each of a known number of rounds.
Each tenant keeps the GPU busy. The error of a row is the largest distance of a tenant from its
share, in points.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.supervisor import ROOT, SOFTGPU
from remoting.bench.gpu.machine import compile_program
from remoting.bench.shared_node import SharedNode

SOURCE = ROOT / "remoting" / "bench" / "steady_launches.c"
SHARES = ((10, 90), (30, 70), (50, 50), (25, 25, 50), (15, 35, 20, 30))
KERNELS_US = {"20 us": 20.0, "2 ms": 2000.0}
MEMORY_BYTES = 4 << 30
CALIBRATION_ROUNDS = 100_000
BATCH_US = 64_000.0
"""Each tenant keeps two batches submitted, so that it always has work when it gets the GPU."""
MIN_BATCH = 32
SHARE_ERROR_POINTS = 1.0
CAPPED_PERCENT = 30


@dataclass(frozen=True)
class Tenant:
    """A running program, the page of its session server, and the rounds of each of its blocks."""

    page: int
    rounds: int


@dataclass(frozen=True)
class Work:
    blocks: int
    nanoseconds: int


def completed(node: SharedNode) -> dict[int, Work]:
    """Return what the first software GPU has completed for each process, by its page."""
    out = subprocess.run(
        [str(SOFTGPU / "softgpu-status")], env=node.env, capture_output=True, text=True, check=True
    ).stdout
    return {
        p["file"]: Work(p["executed_blocks"], p["executed_nanoseconds"])
        for p in json.loads(out.splitlines()[0])["processes"]
    }


@contextmanager
def started(
    program: Path, env: dict[str, str], rounds: int, batch: int
) -> Iterator[subprocess.Popen[str]]:
    """Run a program, and kill it in the end."""
    command = [str(program), str(rounds), str(batch)]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def tenants(
    node: SharedNode,
    program: Path,
    environments: Sequence[dict[str, str]],
    rounds: Sequence[int],
    batch: int,
) -> Iterator[list[Tenant]]:
    """Run a program for each environment. All keep the GPU busy inside the context."""
    found: list[Tenant] = []
    with ExitStack() as stack:
        for env, count in zip(environments, rounds, strict=True):
            process = stack.enter_context(started(program, env, count, batch))
            if process.stdout is None or process.stdout.readline() != "ready\n":
                raise SystemExit("A program of the benchmark could not start.")
            known = {t.page for t in found}
            (page,) = {p for p, w in completed(node).items() if w.blocks} - known
            found.append(Tenant(page, count))
        yield found


def work_of(node: SharedNode, running: Sequence[Tenant], seconds: float) -> list[Work]:
    """Return what each tenant completes in some seconds."""
    before = completed(node)
    time.sleep(seconds)
    after = completed(node)
    return [
        Work(
            after[t.page].blocks - before[t.page].blocks,
            after[t.page].nanoseconds - before[t.page].nanoseconds,
        )
        for t in running
    ]


class Bench:
    """The software GPU of one node, with the time that its engine needs for a round."""

    def __init__(self, node: SharedNode, program: Path, seconds: float) -> None:
        self.node, self.program, self.seconds = node, program, seconds
        self.nanoseconds_per_round = 0.0
        rounds, (work,) = self.run(
            [100], ["exclusive"], [CALIBRATION_ROUNDS], MIN_BATCH, seconds / 5
        )
        self.nanoseconds_per_round = work.nanoseconds / work.blocks / rounds[0]

    def run(
        self,
        percents: Sequence[int],
        modes: Sequence[str],
        rounds: Sequence[int],
        batch: int,
        seconds: float,
    ) -> tuple[Sequence[int], list[Work]]:
        environments = self.node.share(percents, MEMORY_BYTES, modes)
        with tenants(self.node, self.program, environments, rounds, batch) as running:
            return rounds, work_of(self.node, running, seconds)

    def rounds_per_second(
        self, percents: Sequence[int], mode: str, kernel_us: float
    ) -> list[float]:
        """Return the work that each tenant completes in a second."""
        count = max(1, round(kernel_us * 1000 / self.nanoseconds_per_round))
        size = len(percents)
        batch = max(MIN_BATCH, round(BATCH_US / kernel_us))
        rounds, work = self.run(percents, [mode] * size, [count] * size, batch, self.seconds)
        return [w.blocks * r / self.seconds for w, r in zip(work, rounds, strict=True)]


def row(name: str, unit: str, value: float, target: float, **more: object) -> dict[str, object]:
    met = value <= target
    return {"name": name, "value": round(value, 2), "unit": unit, "target": target, "met": met} | {
        "clock": "executed blocks",
        "turn": "10 ms",
        **more,
    }


def share_row(bench: Bench, percents: Sequence[int], kernel: str) -> dict[str, object]:
    work = bench.rounds_per_second(percents, "shared", KERNELS_US[kernel])
    got = [100 * w / sum(work) for w in work]
    error = max(abs(g - p) for g, p in zip(got, percents, strict=True))
    name = f"share error, {bench.seconds:.0f} s: {'/'.join(map(str, percents))}, {kernel}"
    return row(name, "points", error, SHARE_ERROR_POINTS, got=[round(g, 2) for g in got])


def capped_row(bench: Bench, kernel: str) -> dict[str, object]:
    """Return how far a capped tenant that is alone exceeds its percent of a whole GPU's work."""
    (whole,) = bench.rounds_per_second([100], "exclusive", KERNELS_US[kernel])
    (capped,) = bench.rounds_per_second([CAPPED_PERCENT], "capped", KERNELS_US[kernel])
    got = 100 * capped / whole
    name = f"capped alone, {bench.seconds:.0f} s: {CAPPED_PERCENT} %, {kernel}"
    return row(name, "points", got - CAPPED_PERCENT, SHARE_ERROR_POINTS, got=[round(got, 2)])


@contextmanager
def software_gpu(seconds: float) -> Iterator[Bench]:
    node = SharedNode()
    try:
        with tempfile.TemporaryDirectory(prefix="busbar-bench-") as folder:
            yield Bench(node, compile_program(SOURCE, Path(folder)), seconds)
    finally:
        node.stop()


def run(seconds: float) -> dict[str, Any]:
    with software_gpu(seconds) as bench:
        results = [share_row(bench, p, k) for p in SHARES for k in KERNELS_US]
        results += [capped_row(bench, k) for k in KERNELS_US]
    machine = {"processor": platform.processor() or platform.machine(), "driver": "software GPU"}
    return {"machine": machine | {"cores": len(os.sched_getaffinity(0))}, "results": results}


def main() -> None:
    parser = argparse.ArgumentParser(prog="./bench partitions", description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of each measurement")
    arguments = parser.parse_args()
    report = run(arguments.seconds)
    if arguments.json:
        print(json.dumps(report))
        return
    for r in report["results"]:
        verdict = "met" if r["met"] else "MISSED"
        print(f"{r['name']:44} {r['value']:>8} {r['unit']:6} target {r['target']:>5}  {verdict}")


if __name__ == "__main__":
    main()
