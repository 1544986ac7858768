"""Programs on NVIDIA's runtime, over the null driver: the runtime's own protocol, with no GPU. What kernels compute is not tested here."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import nvidia
import pytest

from deploy.bundle import PROGRAMS
from tests.remoting.node import NULL_DRIVER, LocalNode

ROOT = Path(__file__).resolve().parents[2]
TOOLKIT = next(
    p for base in nvidia.__path__ for p in Path(base).iterdir() if (p / "bin" / "nvcc").exists()
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("runtime") / "runtime"
    source = Path(__file__).parent / "programs" / "runtime.cu"
    subprocess.run(
        [
            TOOLKIT / "bin" / "nvcc",
            "-arch=sm_90",
            "-cudart",
            "static",
            f"-L{TOOLKIT / 'lib'}",
            "-o",
            target,
            source,
        ],
        check=True,
    )
    return target


@pytest.fixture(scope="module")
def null_node() -> Iterator[LocalNode]:
    node = LocalNode(NULL_DRIVER)
    yield node
    node.stop()


def run(node: LocalNode, program: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program],
        env=node.remote_environment(**more),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_program_with_the_static_runtime_meets_no_error(
    null_node: LocalNode, program: Path
) -> None:
    done = run(null_node, program)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        done.stdout
        == "devices 1, NVIDIA H200, counter 7, host function 1, copies equal, failures 0\n"
    )
    assert done.stderr == ""


def test_it_runs_without_arenas_too(null_node: LocalNode, program: Path) -> None:
    done = run(null_node, program, BUSBAR_ARENA="0")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_driver_that_fails_the_test_itself_vouches_for_nobody(program: Path) -> None:
    node = LocalNode(NULL_DRIVER, NULL_DRIVER_FAILS_VALIDITY="1")
    try:
        done = run(node, program)
    finally:
        node.stop()
    assert "cudaErrorSoftwareValidityNotEstablished" in done.stdout
    assert done.stderr.count("does not vouch") == 1


def test_the_software_gpu_vouches_for_nobody(node: LocalNode, program: Path) -> None:
    done = run(node, program)
    assert "cudaErrorSoftwareValidityNotEstablished" in done.stdout
    assert "driver-API programs do: Numba, PyCUDA, cuda-python, Triton kernels, C" in done.stderr


def test_the_null_driver_is_in_no_package() -> None:
    folders = (ROOT / "deploy", ROOT / "nodes", ROOT / "appliance", ROOT / "remoting" / "cli")
    assert [
        p for folder in folders for p in folder.rglob("*.py") if "null_driver" in p.read_text()
    ] == []
    assert not any("null_driver" in name for names in PROGRAMS.values() for name in names)
