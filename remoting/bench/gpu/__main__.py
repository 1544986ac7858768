"""`./bench gpu`: programs natively and remoted on a machine with an NVIDIA GPU.

Requires a CUDA toolkit, a C++ compiler and a Python with PyTorch, but no network. Each part runs
natively, over shared memory and over TLS. The results are written to docs/benchmarks/gpu as JSON
and as a page. `--software` uses the software GPU to test the suite itself; those results are
written to `--output` and not to the page.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from remoting.bench.gpu import page, partitions, suites
from remoting.bench.gpu.machine import (
    Gpu,
    GpuNode,
    compile_program,
    nvidia_gpu,
    software_gpu,
    versions,
)
from remoting.bench.gpu.rows import HERE, PARTS, SHARES, SUITES, Part, Setting
from remoting.bench.gpu.runs import NATIVE, run_part


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./bench gpu", description=__doc__)
    parser.add_argument(
        "--software", action="store_true", help="use the software GPU, to test the suite"
    )
    parser.add_argument(
        "--python",
        default=sys.executable,
        help="interpreter with PyTorch (and Numba, CuPy); default: this one",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="PART",
        help="run parts whose name starts with PART; also: partitions, suites",
    )
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20, help="steps of each training workload")
    parser.add_argument(
        "--seconds", type=float, default=10, help="duration of the two programs that share the GPU"
    )
    parser.add_argument(
        "--cupy-tests", type=Path, help="folder tests/cupy_tests/cuda_tests of CuPy's source"
    )
    parser.add_argument(
        "--output",
        type=Path,
        help="folder for the JSON file; default: docs/benchmarks/gpu, with an updated page",
    )
    return parser.parse_args()


def is_selected(name: str, only: list[str] | None) -> bool:
    return not only or any(name.startswith(o) for o in only)


def measure(gpu: Gpu, options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    programs = folder / "programs"
    programs.mkdir()
    setting = Setting(
        options.python, lambda source: compile_program(source, programs), options.steps
    )
    node, results = GpuNode(gpu), list[dict[str, Any]]()

    def report(name: str, rows: list[dict[str, Any]]) -> None:
        results.extend(rows)
        text = "; ".join(page.line(r["name"], r).strip("| ") for r in rows)
        print(f"{name}: {text}", file=sys.stderr, flush=True)

    native = gpu.environment(folder / "gpu")

    def modes() -> dict[str, dict[str, str]]:
        """Return the environments with new tickets, which are valid for minutes only."""
        return {
            NATIVE: native,
            "shm": node.remote_environment(),
            "tls": node.remote_environment(BUSBAR_TRANSPORT="tls"),
        }

    try:
        for part in selected_parts(options):
            node.grant()
            report(part.name, run_part(part, setting, modes(), options.repetitions))
        if is_selected("suites", options.only) and not gpu.software:
            report("suites", suites.measure(options.python, modes(), options.cupy_tests))
        if is_selected("partitions", options.only):
            program = compile_program(HERE / "share.c", programs)
            report("partitions", partitions.measure(node, program, options.seconds))
    finally:
        node.stop()
    return results


def selected_parts(options: argparse.Namespace) -> list[Part]:
    return [p for p in PARTS if is_selected(p.name, options.only)]


def main() -> int:
    options = parse_arguments()
    with tempfile.TemporaryDirectory(prefix="busbar-gpu-") as name:
        folder = Path(name)
        gpu = software_gpu(folder / "gpu") if options.software else nvidia_gpu()
        results = measure(gpu, options, folder)
        taken = datetime.datetime.now(datetime.UTC).replace(microsecond=0).isoformat()
        report = {
            "taken": taken,
            "machine": versions(gpu, options.python),
            "repetitions": options.repetitions,
            "steps": options.steps,
            "results": results,
        }
    target = options.output or (None if options.software else page.FOLDER)
    if target:
        target.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^a-z0-9]+", "-", gpu.name.lower()).strip("-")
        (target / f"{name}.json").write_text(json.dumps(report, indent=1) + "\n")
    if target == page.FOLDER:
        page.write()
    complete = {r["name"] for r in results} >= (
        {*SHARES} | {*SUITES[:2]} if not options.only and not gpu.software else set()
    )
    failed = [r["name"] for r in results if "error" in r or r.get("same") is False or r.get("lost")]
    print("\n".join(f"differs from native: {name}" for name in failed) or "all results as native")
    return 1 if failed or not complete else 0


if __name__ == "__main__":
    sys.exit(main())
