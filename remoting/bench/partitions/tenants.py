"""Tenants of a software GPU, and the work that each of them completed."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

from deploy.supervisor import ROOT, SOFTGPU
from remoting.bench.gpu.machine import compile_program
from remoting.bench.shared_node import SharedNode

SOURCE = ROOT / "remoting" / "bench" / "partitions" / "steady_work.c"
GPUS = 3
"""Of the node. Most rows use the first one only; see slices.py."""
MEMORY_BYTES = 4 << 30
CALIBRATION_ROUNDS = 100_000
BATCH_US = 64_000.0
"""Each tenant keeps two batches submitted, so that it always has work when it gets the GPU."""
MIN_BATCH = 32
MIN_LONG_BATCH = 4
LONG_KERNEL_US = 20_000.0


@dataclass(frozen=True)
class Load:
    """The kernels with which a program keeps the GPU busy; see the options of the program."""

    rounds: int
    batch: int = MIN_BATCH
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Tenant:
    """A running program, the page of its session server, and the rounds of each of its blocks."""

    page: int
    rounds: int
    process: subprocess.Popen[str]


@dataclass(frozen=True)
class Work:
    blocks: int
    nanoseconds: int
    """Of processor time in blocks."""
    busy_nanoseconds: int = 0
    """In which the process had the GPU for itself."""
    copied_bytes: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __sub__(self, other: Work) -> Work:
        return Work(*(a - b for a, b in zip(astuple(self), astuple(other), strict=True)))


NOTHING = Work(0, 0)


@dataclass(frozen=True)
class Sample:
    """What each process has completed until a time of the monotonic clock on all GPUs, by page."""

    nanoseconds: int
    work: dict[int, Work]


def samples(node: SharedNode, count: int, every_ms: int) -> list[Sample]:
    """Return samples of the software GPUs, the first one at once. Blocks until the last."""
    command = [str(SOFTGPU / "softgpu-status"), str(count), str(every_ms)]
    output = subprocess.run(command, env=node.env, capture_output=True, text=True, check=True)
    devices = [json.loads(line) for line in output.stdout.splitlines()]
    gpus = len(node.gpus)
    return [sample_of(devices[i : i + gpus]) for i in range(0, len(devices), gpus)]


def sample_of(gpus: Sequence[Mapping[str, Any]]) -> Sample:
    work: dict[int, Work] = {}
    for p in (p for gpu in gpus for p in gpu["processes"]):
        done = Work(
            p["executed_blocks"],
            p["executed_nanoseconds"],
            p["busy_nanoseconds"],
            p["copied_bytes"],
        )
        work[p["file"]] = work.get(p["file"], NOTHING) + done
    return Sample(gpus[0]["monotonic_nanoseconds"], work)


def completed(node: SharedNode) -> dict[int, Work]:
    return samples(node, 1, 0)[0].work


@contextmanager
def started(program: Path, env: dict[str, str], load: Load) -> Iterator[subprocess.Popen[str]]:
    """Run a program, and kill it in the end."""
    command = [str(program), str(load.rounds), str(load.batch), *load.options]
    env = env | dict(load.environment)
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def ready(program: Path, env: dict[str, str], load: Load) -> Iterator[subprocess.Popen[str]]:
    """Run a program whose first batch has completed."""
    with started(program, env, load) as process:
        if process.stdout is None or process.stdout.readline() != "ready\n":
            raise SystemExit("A program of the benchmark could not start.")
        yield process


@contextmanager
def tenants(
    node: SharedNode, program: Path, environments: Sequence[dict[str, str]], loads: Sequence[Load]
) -> Iterator[list[Tenant]]:
    """Run a program for each environment. All keep the GPU busy inside the context."""
    found: list[Tenant] = []
    with ExitStack() as stack:
        for env, load in zip(environments, loads, strict=True):
            process = stack.enter_context(ready(program, env, load))
            known = {t.page for t in found}
            (page,) = {p for p, w in completed(node).items() if w != NOTHING} - known
            found.append(Tenant(page, load.rounds, process))
        yield found


def difference(before: Sample, after: Sample, running: Sequence[Tenant]) -> list[Work]:
    return [after.work[t.page] - before.work[t.page] for t in running]


def work_of(node: SharedNode, running: Sequence[Tenant], seconds: float) -> list[Work]:
    """Return what each tenant completes in some seconds."""
    (before,) = samples(node, 1, 0)
    time.sleep(seconds)
    (after,) = samples(node, 1, 0)
    return difference(before, after, running)


class Bench:
    """The software GPU of one node, with the time that its engine needs for a round."""

    def __init__(self, node: SharedNode, program: Path, seconds: float) -> None:
        self.node, self.program, self.seconds = node, program, seconds
        environments = node.share([100], MEMORY_BYTES, ["exclusive"])
        load = Load(CALIBRATION_ROUNDS)
        with tenants(node, program, environments, [load]) as running:
            (work,) = work_of(node, running, seconds / 5)
        self.nanoseconds_per_round = work.nanoseconds / work.blocks / load.rounds

    def load(
        self, kernel_us: float, batch_us: float = BATCH_US, options: Sequence[str] = ()
    ) -> Load:
        """Return kernels of one block of about this length, in batches of about this length."""
        rounds = max(1, round(kernel_us * 1000 / self.nanoseconds_per_round))
        least = MIN_BATCH if kernel_us < LONG_KERNEL_US else MIN_LONG_BATCH
        return Load(rounds, max(least, round(batch_us / kernel_us)), tuple(options))

    @contextmanager
    def running(
        self, percents: Sequence[int], modes: Sequence[str], loads: Sequence[Load]
    ) -> Iterator[list[Tenant]]:
        environments = self.node.share(percents, MEMORY_BYTES, modes)
        with tenants(self.node, self.program, environments, loads) as running:
            yield running

    def work(
        self,
        percents: Sequence[int],
        modes: Sequence[str],
        loads: Sequence[Load],
        settle: float = 0.0,
    ) -> list[Work]:
        """Return what each tenant completes in the seconds of the benchmark.

        Before that all run for `settle` times as long.
        """
        with self.running(percents, modes, loads) as running:
            time.sleep(settle * self.seconds)
            return work_of(self.node, running, self.seconds)

    def rounds_per_second(
        self,
        percents: Sequence[int],
        modes: Sequence[str],
        loads: Sequence[Load],
        settle: float = 0.0,
    ) -> list[float]:
        """Return the work that each tenant completes in a second, all kernels of equal length."""
        work = self.work(percents, modes, loads, settle)
        return [w.blocks * x.rounds / self.seconds for w, x in zip(work, loads, strict=True)]


@contextmanager
def software_gpu(seconds: float) -> Iterator[Bench]:
    node = SharedNode(BUSBAR_SOFTGPU_DEVICES=str(GPUS))
    try:
        with tempfile.TemporaryDirectory(prefix="busbar-bench-") as folder:
            yield Bench(node, compile_program(SOURCE, Path(folder)), seconds)
    finally:
        node.stop()
