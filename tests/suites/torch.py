"""PyTorch's wheel over the null driver: `./test --long torch [PART…]`. Several GB are installed into build/torch first.

Kernels compute nothing there, so what is tested is the protocol: every call of the wheel, of its private runtimes, of cuBLAS, cuDNN and Triton finds
an answer; also those of the workloads that `./bench gpu` times. Prints one line a part and fails when one does.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

from deploy.supervisor import ROOT
from nodes.launcher_control import Partition
from remoting.bench.gpu.rows import PARTS, Setting
from tests.remoting.node import NULL_DRIVER, NULL_DRIVER_GPUS, LocalNode

PROGRAM = ROOT / "tests" / "remoting" / "programs" / "torch_program.py"
LOCK = ROOT / "requirements-torch.lock"
FOLDER = ROOT / "build" / "torch"
ALLOCATORS = ("expandable_segments:True", "backend:cudaMallocAsync")
PART_SECONDS = 600
MEMORY_BYTES = 8 << 30


def python() -> Path:
    """Installed once for each content of the lock."""
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
    """Those of `./bench gpu`: each with what runs it, one step."""
    setting = Setting(str(python()), lambda source: source, 1)
    return {
        p.name: p.command(setting) for p in PARTS if p.torch and not p.name.startswith("torch ")
    }


def run(node: LocalNode, name: str, command: list[str | Path], allocator: str = "") -> bool:
    more = {"PYTORCH_CUDA_ALLOC_CONF": allocator} if allocator else {}
    began = time.monotonic()
    done = subprocess.run(
        command,
        env=node.remote_environment(**more),
        capture_output=True,
        text=True,
        timeout=PART_SECONDS,
        check=False,
    )
    last = done.stdout.splitlines()[-1:]
    fine = (
        done.returncode == 0
        and bool(last)
        and "digests" in json.loads(last[0])
        and "busbar:" not in done.stderr
    )
    print(
        f"{name:12} {allocator:26} {'passed' if fine else 'FAILED'} {time.monotonic() - began:6.1f} s",
        flush=True,
    )
    if not fine:
        print(done.stdout[-500:] + done.stderr[-3000:], file=sys.stderr)
    return fine


def main() -> int:
    python()
    node = LocalNode(NULL_DRIVER, partitions=[Partition(NULL_DRIVER_GPUS[0], MEMORY_BYTES, 100)])
    try:
        commands = {part: [python(), PROGRAM, part] for part in parts()} | workloads()
        results = [run(node, name, commands[name]) for name in sys.argv[1:] or commands]
        if not sys.argv[1:]:
            results += [run(node, "operations", commands["operations"], a) for a in ALLOCATORS]
    finally:
        node.stop()
    print(f"{sum(results)} of {len(results)} parts passed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
