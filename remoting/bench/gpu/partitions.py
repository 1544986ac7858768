"""Distribution of launches between two programs with 25 % and 75 % of one GPU."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from remoting.bench.gpu.machine import GpuNode
from remoting.bench.gpu.rows import SHARES

PERCENTS = (25, 75)


def measure(node: GpuNode, program: Path, seconds: float) -> list[dict[str, Any]]:
    """Replace the node's allocation by shares. Return one row each; `granted` is its share."""
    running = [
        subprocess.Popen(
            [program, str(seconds)],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for env in node.share(PERCENTS, node.arena_bytes())
    ]
    output = [p.communicate(timeout=seconds + 120) for p in running]
    if failed := [err[-400:] for p, (_, err) in zip(running, output, strict=True) if p.returncode]:
        return [{"name": name, "unit": "%", "error": failed[0]} for name in SHARES]
    launches = [int(out) for out, _ in output]
    total = sum(launches)
    return [
        {"name": name, "unit": "%", "granted": percent, "shm": 100 * n / total, "launches": n}
        for name, percent, n in zip(SHARES, PERCENTS, launches, strict=True)
    ]
