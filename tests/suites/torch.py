"""PyTorch's wheel on the null driver: `./test --long torch [PART…]`.

Installs several GB into build/torch first. Kernels compute nothing on the null driver, so this
tests the protocol: every call of the wheel, its private runtimes, cuBLAS, cuDNN and Triton
succeeds. It includes the workloads of `./bench gpu`. Prints one line for each part.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from deploy.groups import file_of
from deploy.supervisor import ROOT
from nodes.launcher_control import Partition
from remoting.bench.gpu.rows import PARTS, Setting
from tests.remoting.node import NULL_DRIVER, NULL_DRIVER_GPUS, LocalNode

PROGRAM = ROOT / "tests" / "remoting" / "programs" / "torch_program.py"
LOCK = file_of("torch")
FOLDER = ROOT / "build" / "torch"
ALLOCATORS = ("expandable_segments:True", "backend:cudaMallocAsync")
PART_SECONDS = 600
MEMORY_BYTES = 8 << 30


def python() -> Path:
    """Install the wheels unless they are installed. Return the path of the interpreter."""
    interpreter, mark = FOLDER / "bin" / "python", FOLDER / "installed"
    if not mark.exists() or mark.read_text() != LOCK.read_text():
        subprocess.run([sys.executable, "-m", "venv", "--clear", FOLDER], check=True)
        subprocess.run(
            [
                interpreter,
                "-m",
                "pip",
                "install",
                "-q",
                "--disable-pip-version-check",
                "--require-hashes",
                "-r",
                LOCK,
            ],
            check=True,
        )
        mark.write_text(LOCK.read_text())
    return interpreter


def parts() -> list[str]:
    listed = re.search(r"for f in \(([^)]*)\)", PROGRAM.read_text())
    assert listed
    return [name.strip() for name in listed[1].split(",")]


def workloads() -> dict[str, list[str | Path]]:
    """Return the commands of the workloads of `./bench gpu`, one step each."""
    setting = Setting(str(python()), lambda source: source, 1)
    return {
        p.name: p.command(setting) for p in PARTS if p.torch and not p.name.startswith("torch ")
    }


def run(node: LocalNode, name: str, command: Sequence[str | Path], allocator: str = "") -> bool:
    more = {"PYTORCH_CUDA_ALLOC_CONF": allocator} if allocator else {}
    started = time.monotonic()
    done = subprocess.run(
        command,
        env=node.remote_environment(**more),
        capture_output=True,
        text=True,
        timeout=PART_SECONDS,
        check=False,
    )
    last = done.stdout.splitlines()[-1:]
    passed = (
        done.returncode == 0
        and bool(last)
        and "digests" in json.loads(last[0])
        and "busbar:" not in done.stderr
    )
    duration = time.monotonic() - started
    verdict = "passed" if passed else "FAILED"
    print(f"{name:12} {allocator:26} {verdict} {duration:6.1f} s", flush=True)
    if not passed:
        print(done.stdout[-500:] + done.stderr[-3000:], file=sys.stderr)
    return passed


def main() -> int:
    python()
    node = LocalNode(NULL_DRIVER, partitions=[Partition(NULL_DRIVER_GPUS[0], MEMORY_BYTES, 100)])
    try:
        commands: dict[str, Sequence[str | Path]] = {
            **{part: [python(), PROGRAM, part] for part in parts()},
            **workloads(),
        }
        results = [run(node, name, commands[name]) for name in sys.argv[1:] or commands]
        if not sys.argv[1:]:
            results += [run(node, "operations", commands["operations"], a) for a in ALLOCATORS]
    finally:
        node.stop()
    print(f"{sum(results)} of {len(results)} parts passed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
