"""Programs with NVIDIA's runtime library on the null driver; kernel results are not tested."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
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


def test_program_with_static_runtime_succeeds(null_node: LocalNode, program: Path) -> None:
    done = run(null_node, program)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        done.stdout
        == "devices 1, NVIDIA H200, counter 7, host function 1, copies equal, failures 0\n"
    )
    assert done.stderr == ""


def test_program_with_static_runtime_succeeds_without_arenas(
    null_node: LocalNode, program: Path
) -> None:
    done = run(null_node, program, BUSBAR_ARENA="0")
    assert done.returncode == 0, done.stdout + done.stderr


STREAM_OBJECTS = """\
stream 0 is the legacy stream: 1
stream 0 is the thread's own stream: 1
streams differ: 1 1 1
the same again: 1
no result -> 1
destroyed -> 400
no context -> 201
"""


def test_libraries_of_nvidia_identify_streams(
    null_node: LocalNode, compiled: Callable[[str], Path]
) -> None:
    """cuBLAS and cuSOLVER fail on a GPU without these functions of a private table."""
    done = run(null_node, compiled("stream_objects"))
    assert done.stdout == STREAM_OBJECTS, done.stderr
    assert done.stderr == ""


def test_failed_self_test_of_driver_is_reported(program: Path) -> None:
    node = LocalNode(NULL_DRIVER, NULL_DRIVER_FAILS_SELF_TEST="1")
    try:
        done = run(node, program)
    finally:
        node.stop()
    assert "cudaErrorSoftwareValidityNotEstablished" in done.stdout
    assert done.stderr.count("does not pass the self-test") == 1


def test_software_gpu_fails_runtime_self_test(node: LocalNode, program: Path) -> None:
    done = run(node, program)
    assert "cudaErrorSoftwareValidityNotEstablished" in done.stdout
    assert "(Numba, PyCUDA, cuda-python, Triton kernels, C)" in done.stderr


def test_null_driver_is_not_packaged() -> None:
    folders = (ROOT / "deploy", ROOT / "nodes", ROOT / "appliance", ROOT / "remoting" / "cli")
    assert [
        p for folder in folders for p in folder.rglob("*.py") if "null_driver" in p.read_text()
    ] == []
    assert not any("null_driver" in name for names in PROGRAMS.values() for name in names)
