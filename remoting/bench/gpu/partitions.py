"""Two programs at once on a quarter and three quarters of one GPU: how the launches are shared."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from remoting.bench.gpu.machine import GpuNode
from remoting.bench.gpu.rows import SHARES

PERCENTS = (25, 75)


def measure(node: GpuNode, program: Path, seconds: float) -> list[dict[str, Any]]:
    """The whole allocation of the node is taken back first. One row a partition; `wanted` is what was granted."""
    running = [
        subprocess.Popen(
            [program, str(seconds)],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for env in node.share(list(PERCENTS))
    ]
    said = [p.communicate(timeout=seconds + 120) for p in running]
    if failed := [err[-400:] for p, (_, err) in zip(running, said, strict=True) if p.returncode]:
        return [{"name": name, "unit": "%", "error": failed[0]} for name in SHARES]
    launches = [int(out) for out, _ in said]
    total = sum(launches)
    return [
        {"name": name, "unit": "%", "wanted": percent, "shm": 100 * n / total, "launches": n}
        for name, percent, n in zip(SHARES, PERCENTS, launches, strict=True)
    ]
