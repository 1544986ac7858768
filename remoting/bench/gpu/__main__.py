"""`./bench gpu`: needs a CUDA toolkit, a C++ compiler and a Python with PyTorch on the machine with the GPU, and no network.

Every part is run natively and remoted, over shared memory and over TLS. The results go to docs/benchmarks/gpu, as JSON and as a page. With `--software` the
software GPU stands in, so that the suite itself can be tried; those results go where `--output` says and never to the page.
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


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./bench gpu", description=__doc__)
    parser.add_argument(
        "--software", action="store_true", help="on the software GPU, to try the suite"
    )
    parser.add_argument(
        "--python",
        default=sys.executable,
        help="a Python with PyTorch (and Numba, CuPy); default: the one that runs this",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="PART",
        help="parts whose name begins so; also: partitions, suites",
    )
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20, help="of each training workload")
    parser.add_argument(
        "--seconds", type=float, default=10, help="of the two programs that share the GPU"
    )
    parser.add_argument(
        "--cupy-tests", type=Path, help="tests/cupy_tests/cuda_tests of CuPy's source"
    )
    parser.add_argument(
        "--output",
        type=Path,
        help="folder for the JSON file; default: docs/benchmarks/gpu, and the page is made anew",
    )
    return parser.parse_args()


def chosen(name: str, only: list[str] | None) -> bool:
    return not only or any(name.startswith(o) for o in only)


def measure(gpu: Gpu, options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    programs = folder / "programs"
    programs.mkdir()
    setting = Setting(
        options.python, lambda source: compile_program(source, programs), options.steps
    )
    node, results = GpuNode(gpu), list[dict[str, Any]]()

    def tell(name: str, rows: list[dict[str, Any]]) -> None:
        results.extend(rows)
        print(
            f"{name}: " + "; ".join(page.line(r["name"], r).strip("| ") for r in rows),
            file=sys.stderr,
            flush=True,
        )

    native = gpu.environment(folder / "gpu")

    def modes() -> dict[str, dict[str, str]]:  # a ticket lives for minutes: each part gets its own
        return {
            NATIVE: native,
            "shm": node.remote_environment(),
            "tls": node.remote_environment(BUSBAR_TRANSPORT="tls"),
        }

    try:
        for part in wanted_parts(options):
            node.grant()
            tell(part.name, run_part(part, setting, modes(), options.repetitions))
        if chosen("suites", options.only) and not gpu.software:
            tell("suites", suites.measure(options.python, modes(), options.cupy_tests))
        if chosen("partitions", options.only):
            tell(
                "partitions",
                partitions.measure(
                    node, compile_program(HERE / "share.c", programs), options.seconds
                ),
            )
    finally:
        node.stop()
    return results


def wanted_parts(options: argparse.Namespace) -> list[Part]:
    return [p for p in PARTS if chosen(p.name, options.only)]


def main() -> int:
    options = arguments()
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
        (target / (re.sub(r"[^a-z0-9]+", "-", gpu.name.lower()).strip("-") + ".json")).write_text(
            json.dumps(report, indent=1) + "\n"
        )
    if target == page.FOLDER:
        page.write()
    complete = {r["name"] for r in results} >= (
        {*SHARES} | {*SUITES[:2]} if not options.only and not gpu.software else set()
    )
    wrong = [r["name"] for r in results if "error" in r or r.get("same") is False or r.get("lost")]
    print("\n".join(f"not as native: {name}" for name in wrong) or "remoted as native")
    return 1 if wrong or not complete else 0


if __name__ == "__main__":
    sys.exit(main())
