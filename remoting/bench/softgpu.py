"""`./bench softgpu`: kernels on the software GPU compared with NumPy on one thread.

Both are measured in the same processes; figures are medians of five.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from deploy.supervisor import ROOT, SOFTGPU

REPETITIONS = 5
RATIOS = {"vector_add": 3.0, "fused": 2.5, "matmul": 15.0, "tree_reduce": 30.0}
NAMES = {
    "vector_add": "vector_add_ratio",
    "fused": "fused_elementwise_ratio",
    "matmul": "matmul_512_ratio",
    "tree_reduce": "tree_reduce_ratio",
}
TWO_CORES, COLD_MS, WARM_MS, OVERHEAD_US = 1.8, 150.0, 5.0, 5.0


def measure(folder: Path, cores: set[int]) -> dict[str, float]:
    env = os.environ | {
        "LD_LIBRARY_PATH": str(SOFTGPU),
        "BUSBAR_SOFTGPU_DIR": str(folder / "device"),
        "BUSBAR_SOFTGPU_CACHE": str(folder / "kernels"),
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-m", "remoting.bench.softgpu_kernels"]
    done = subprocess.run(
        command,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    values: dict[str, float] = json.loads(done.stdout)
    return values


def row(
    name: str, values: list[float], unit: str, target: float, at_least: bool = False
) -> dict[str, object]:
    value = statistics.median(values)
    met = value >= target if at_least else value <= target
    return {
        "name": name,
        "value": round(value, 2),
        "unit": unit,
        "target": target,
        "met": met,
        "spread": [round(min(values), 2), round(max(values), 2)],
    }


def result_rows(
    cold: list[dict[str, float]], both: list[dict[str, float]], one: list[dict[str, float]]
) -> list[dict[str, object]]:
    """Return the rows for runs without cached kernels, on all cores, and on one core if any."""
    results = [
        row(NAMES[k], [v[f"{k}_ms"] / v[f"{k}_numpy_ms"] for v in both], "ratio", t)
        | {"direct": round(statistics.median(v[f"{k}_numpy_ms"] for v in both), 2)}
        for k, t in RATIOS.items()
    ]
    if one:
        pairs = zip(one, both, strict=True)
        results.append(
            row(
                "two_core_speedup",
                [a["matmul_ms"] / b["matmul_ms"] for a, b in pairs],
                "ratio",
                TWO_CORES,
                at_least=True,
            )
        )
    results.append(row("first_launch_cold_ms", [v["first_launch_ms"] for v in cold], "ms", COLD_MS))
    results.append(row("first_launch_warm_ms", [v["first_launch_ms"] for v in both], "ms", WARM_MS))
    results.append(
        row("launch_overhead_us", [v["launch_overhead_us"] for v in both], "us", OVERHEAD_US)
    )
    return results


def run() -> dict[str, Any]:
    cores = os.sched_getaffinity(0)
    both: list[dict[str, float]] = []
    one: list[dict[str, float]] = []
    cold: list[dict[str, float]] = []
    for _ in range(REPETITIONS):
        folder = Path(tempfile.mkdtemp(prefix="busbar-bench-"))
        try:
            cold.append(measure(folder, cores))
            both.append(measure(folder, cores))
            one.append(measure(folder, {min(cores)}))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return {
        "machine": {
            "processor": platform.processor() or platform.machine(),
            "cores": len(cores),
            "driver": "software GPU",
        },
        "results": result_rows(cold, both, one if len(cores) > 1 else []),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="./bench softgpu", description=__doc__)
    parser.add_argument("--json", action="store_true")
    report = run()
    if parser.parse_args().json:
        print(json.dumps(report))
        return
    for r in report["results"]:
        verdict = "met" if r["met"] else "MISSED"
        print(
            f"{r['name']:26} {r['value']:>9} {r['unit']:6} target {r['target']:>6}  {verdict}  "
            f"{r['spread']}"
        )


if __name__ == "__main__":
    main()
