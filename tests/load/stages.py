"""The stages of the load: a thousand agents are always there, and each stage adds what one figure is about; the last adds everything."""

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
from tests.load.placement import placement_ms

WARM_UP_SECONDS, SAMPLE_SECONDS = 15.0, 5.0


class Part:
    """A process of the load; it answers each line with one line."""

    def __init__(self, module: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", f"tests.load.{module}", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def tell(self, *words: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ask(self, *words: object) -> Any:
        self.tell(*words)
        return self.answer()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclass(frozen=True)
class Stage:
    name: str
    sockets: int = 0
    wide: int = 0
    lists: float = 0.0
    pairs: float = 0.0


@dataclass(frozen=True)
class Measured:
    """Of one stage. What it did not have is empty."""

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
        """For eyes that compare stages."""
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
    """What the machine's host gave to others while we could have run, and all there were (man 5 proc_stat)."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return ticks[7], sum(ticks[:8])


def status_of(bench: Bench) -> dict[str, Any]:
    """Of an appliance that does not answer, the loop is late for ever."""
    try:
        return dict(bench.get("appliance"))
    except OSError:
        return {"loop_lag_p99_ms": math.inf, "index_mismatches": math.nan}


def measure(
    bench: Bench, fleet: Sequence[Part], stage: Stage, begun: float, seconds: float
) -> Measured:
    browsers, people = None, None
    if stage.sockets:
        browsers = Part(
            "browsers",
            bench.folder,
            f"wss://127.0.0.1:{HTTPS_PORT}/api/v1/feed",
            begun,
            SAMPLE_SECONDS,
            stage.sockets,
            stage.wide,
        )
    if stage.lists or stage.pairs:
        people = Part("people", bench.folder, bench.url, stage.lists, stage.pairs)
    try:
        time.sleep(WARM_UP_SECONDS)
        begin, spent, placements, (stolen, ticks) = (
            time.time(),
            bench.processor_seconds(),
            list[float](),
            machine_ticks(),
        )
        while time.time() < begin + seconds - 2:
            placements.append(placement_ms())
            time.sleep(min(5.0, seconds / 4))
        time.sleep(max(begin + seconds - time.time(), 0))
        rss, spent, (stolen_then, ticks_then) = (
            bench.rss_bytes(),
            bench.processor_seconds() - spent,
            machine_ticks(),
        )
        status = status_of(bench)
        time.sleep(SAMPLE_SECONDS)
        end = begin + seconds
        web = people.ask("figures", begin, end) if people else {}
        return Measured(
            ingest=[p.ask("figures", begin, end) for p in fleet], browsers=browsers.ask("figures", begin, end) if browsers else {},
            lists=web["list"] if stage.lists else {}, pairs=web["allocate"] if stage.pairs else {},
            status=status, rss_bytes=rss, processors=spent / seconds,
            stolen_percent=100 * (stolen_then - stolen) / (ticks_then - ticks), placements_ms=placements,
        )  # fmt: skip
    finally:
        for part in (browsers, people):
            if part:
                part.stop()
