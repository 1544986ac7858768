"""The memory of a CUDA context as the agent measures it on a software GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.supervisor import ROOT, SOFTGPU

MIB, GIB = 1 << 20, 1 << 30
HIDDEN = (
    "from nodes import context_memory; context_memory.read_process_memory = lambda handle: {};"
    "context_memory.main()"
)
"""The measurement where NVML hides processes, as in a container."""


@pytest.mark.parametrize(
    ("memory_bytes", "context_bytes", "is_measured"),
    [
        (8 * GIB, 0, True),
        (8 * GIB, 415 * MIB, True),
        (8 * GIB, 2 * GIB, True),
        (8 * GIB, 2 * GIB + MIB, False),
        (80 * GIB, 4 * GIB, True),
        (80 * GIB, 4 * GIB + MIB, False),
    ],
)
def test_growth_of_the_used_memory_counts_as_context_up_to_a_bound(
    tmp_path: Path, memory_bytes: int, context_bytes: int, is_measured: bool
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN, "00000000:01:00.0", "0"],
        cwd=ROOT,
        env=os.environ
        | {
            "LD_LIBRARY_PATH": str(SOFTGPU),
            "BUSBAR_SOFTGPU_DIR": str(tmp_path),
            "BUSBAR_SOFTGPU_DEVICES": "1",
            "BUSBAR_SOFTGPU_MEMORY_BYTES": str(memory_bytes),
            "BUSBAR_SOFTGPU_CONTEXT_BYTES": str(context_bytes),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if is_measured:
        assert (done.returncode, done.stdout) == (0, f"{context_bytes}\n"), done.stderr
    else:
        assert done.returncode == 1 and "changed meanwhile" in done.stderr
