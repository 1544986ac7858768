"""The programs of the software GPU tests, through remoting."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.supervisor import ROOT
from remoting.cli.run_command import software_gpu_variables
from tests.remoting.node import LocalNode
from tests.softgpu.test_programs import front_end_programs, programs

GATE = {"vector_add", "softmax"}
"""Programs of Triton that are not `long`."""


def run(
    node: LocalNode, module: str, name: str, folder: Path, **more: str
) -> subprocess.CompletedProcess[str]:
    env = (
        node.remote_environment(**more)
        | software_gpu_variables()
        | {
            "PYTHONPATH": str(ROOT),
            "TRITON_CACHE_DIR": str(folder / "triton"),
            "TRITON_DEFAULT_FP_FUSION": "1",
            "XDG_CACHE_HOME": str(folder),
            "HOME": os.environ.get("HOME", "/"),
        }
    )
    return subprocess.run(
        [sys.executable, "-m", f"tests.softgpu.{module}", name],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=ROOT,
    )


@pytest.mark.parametrize(
    "transport",
    [
        pytest.param("", id="shared memory"),
        pytest.param("tls", id="TLS", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("name", programs("cuda_programs"))
def test_cuda_python_program_passes_remoted(
    node: LocalNode, name: str, tmp_path: Path, transport: str
) -> None:
    done = run(node, "cuda_programs", name, tmp_path, BUSBAR_TRANSPORT=transport)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in GATE else [pytest.mark.long])
        for name in programs("triton_programs")
    ],
)
def test_triton_program_passes_remoted(node: LocalNode, name: str, tmp_path: Path) -> None:
    done = run(node, "triton_programs", name, tmp_path)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]


@pytest.mark.long
@pytest.mark.parametrize("name", front_end_programs())
def test_front_end_program_passes_remoted(node: LocalNode, name: str, tmp_path: Path) -> None:
    done = run(node, "front_end_programs", name, tmp_path)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
