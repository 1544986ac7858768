"""Stages of the load test and their measurement. All agents are connected in every stage."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.supervisor import ROOT
from tests.load.appliance import HTTPS_PORT, Bench
from tests.load.placement import measure_placement_ms

WARM_UP_SECONDS, SAMPLE_SECONDS = 15.0, 5.0


class Worker:
    """A process that generates load. It replies to each command line with one line of JSON."""

    def __init__(self, module: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", f"tests.load.{module}", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def send(self, *words: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def receive(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def request(self, *words: object) -> Any:
        self.send(*words)
        return self.receive()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclass(frozen=True)
class Stage:
    """Load beside the agents: sockets (`wide` of them watch 1,024 GPUs) and requests per second."""

    name: str
    sockets: int = 0
    wide: int = 0
    lists: float = 0.0
    pairs: float = 0.0


@dataclass(frozen=True)
class Measured:
    """Figures of one stage; empty for load that the stage did not have."""

    ingest: list[dict[str, float]]
    browsers: dict[str, Any]
    lists: dict[str, Any]
    pairs: dict[str, Any]
    status: dict[str, Any]
    rss_bytes: int
    processors: float
    stolen_percent: float
    placements_ms: list[float]

    @property
    def ingest_ms(self) -> float:
        return max(i["p99_ms"] for i in self.ingest)

    def short(self) -> dict[str, float]:
        """Return the main figures, rounded, for comparison between stages."""
        found = {
            "ingest_ack_p99_ms": self.ingest_ms,
            "loop_lag_p99_ms": self.status["loop_lag_p99_ms"],
            "processors": self.processors,
            "stolen_percent": self.stolen_percent,
            "rss_mb": self.rss_bytes / 1e6,
        }
        for name, figures in (
            ("browser_sample", self.browsers),
            ("list", self.lists),
            ("allocate_ticket", self.pairs),
        ):
            if figures:
                found |= {
                    f"{name}_p50_ms": figures["p50_ms"],
                    f"{name}_p99_ms": figures["p99_ms"],
                    f"{name}_misses": figures["misses"],
                }
        return {name: round(value, 2) for name, value in found.items()}


def machine_ticks() -> tuple[int, int]:
    """Return stolen ticks (of the hypervisor) and all ticks of the machine, see proc_stat(5)."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return ticks[7], sum(ticks[:8])


def read_status(bench: Bench) -> dict[str, Any]:
    """Return the appliance's status; infinite loop lag if it does not respond."""
    try:
        return dict(bench.get("appliance"))
    except OSError:
        return {"loop_lag_p99_ms": math.inf, "index_mismatches": math.nan}


def start_workers(
    bench: Bench, stage: Stage, started: float
) -> tuple[Worker | None, Worker | None]:
    """Start the browsers and REST clients of a stage, if it has any."""
    browsers, clients = None, None
    if stage.sockets:
        browsers = Worker(
            "browsers",
            bench.folder,
            f"wss://127.0.0.1:{HTTPS_PORT}/api/v1/feed",
            started,
            SAMPLE_SECONDS,
            stage.sockets,
            stage.wide,
        )
    if stage.lists or stage.pairs:
        clients = Worker("rest_clients", bench.folder, bench.url, stage.lists, stage.pairs)
    return browsers, clients


def measure(
    bench: Bench, fleet: Sequence[Worker], stage: Stage, started: float, seconds: float
) -> Measured:
    """Run one stage: warm up, measure for `seconds` and return its figures."""
    browsers, clients = start_workers(bench, stage, started)
    try:
        time.sleep(WARM_UP_SECONDS)
        begin, processor_seconds = time.time(), bench.processor_seconds()
        stolen_before, ticks_before = machine_ticks()
        placements: list[float] = []
        while time.time() < begin + seconds - 2:
            placements.append(measure_placement_ms())
            time.sleep(min(5.0, seconds / 4))
        time.sleep(max(begin + seconds - time.time(), 0))
        rss = bench.rss_bytes()
        processor_seconds = bench.processor_seconds() - processor_seconds
        stolen, ticks = machine_ticks()
        status = read_status(bench)
        time.sleep(SAMPLE_SECONDS)
        end = begin + seconds
        rest = clients.request("figures", begin, end) if clients else {}
        return Measured(
            ingest=[p.request("figures", begin, end) for p in fleet],
            browsers=browsers.request("figures", begin, end) if browsers else {},
            lists=rest["list"] if stage.lists else {},
            pairs=rest["allocate"] if stage.pairs else {},
            status=status,
            rss_bytes=rss,
            processors=processor_seconds / seconds,
            stolen_percent=100 * (stolen - stolen_before) / (ticks - ticks_before),
            placements_ms=placements,
        )
    finally:
        for worker in (browsers, clients):
            if worker:
                worker.stop()
