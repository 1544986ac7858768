"""Code images through a session server: intact ones run, malformed ones are refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nvidia
import pytest

from deploy.supervisor import ROOT
from tests.remoting.image_calls import PTX
from tests.remoting.node import LocalNode, direct_environment
from tests.softgpu.test_images import nvcc
from tests.suites.fuzz_image_seeds import (
    INTACT_ELF,
    MALFORMED_ELF,
    elf,
    intact_fatbins,
    malformed_fatbins,
)

INVALID_IMAGE, NO_BINARY_FOR_GPU, INVALID_VALUE = 200, 209, 1
TEXT_AND_CODE = (
    *("-gencode", "arch=compute_75,code=compute_75"),
    *("-gencode", "arch=compute_80,code=sm_80"),
)


def status(node: LocalNode, action: str, file: Path) -> int:
    done = subprocess.run(
        [sys.executable, "-m", "tests.remoting.image_calls", action, str(file)],
        env=node.remote_environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def image(folder: Path, content: bytes) -> Path:
    file = folder / "image"
    file.write_bytes(content)
    return file


@pytest.mark.parametrize("compression", ["none", "speed", "size"])
def test_fatbin_of_nvcc_runs_remoted(node: LocalNode, compression: str, tmp_path: Path) -> None:
    file = nvcc(tmp_path, *TEXT_AND_CODE, "-Xfatbin", f"-compress-mode={compression}")
    assert status(node, "run", file) == 0


def test_machine_code_of_nvcc_reaches_the_driver(node: LocalNode, tmp_path: Path) -> None:
    file = nvcc(tmp_path, "-gencode", "arch=compute_80,code=sm_80")
    assert status(node, "load", file) == NO_BINARY_FOR_GPU


def test_image_that_the_gpu_cannot_run_says_what_to_ask_for(
    node: LocalNode, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.remoting.image_calls", "load"]
    for environment in (node.remote_environment(), direct_environment(tmp_path / "gpu")):
        done = subprocess.run(
            [*command, str(image(tmp_path, elf()))],
            env=environment | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert int(done.stdout) == NO_BINARY_FOR_GPU
        assert done.stderr.count('compile("ptx")') == done.stderr.count("\n") == 1


def test_device_runtime_of_nvidia_is_linked(node: LocalNode) -> None:
    library = next(p for base in nvidia.__path__ for p in Path(base).glob("*/lib/libcudadevrt.a"))
    assert status(node, "link", library) == 0


@pytest.mark.parametrize("name", ["payload behind the file", "malformed code", "malformed LZ4"])
def test_malformed_fatbin_is_refused(node: LocalNode, name: str, tmp_path: Path) -> None:
    file = image(tmp_path, malformed_fatbins()[name])
    assert status(node, "load", file) == INVALID_IMAGE
    assert status(node, "link", file) == INVALID_IMAGE


@pytest.mark.parametrize("name", INTACT_ELF)
def test_intact_cubin_reaches_the_driver(node: LocalNode, name: str, tmp_path: Path) -> None:
    """Also with debug relocations that name no symbol table, as in code of cuBLAS 13."""
    assert status(node, "load", image(tmp_path, elf(**INTACT_ELF[name]))) == NO_BINARY_FOR_GPU


@pytest.mark.parametrize(
    "name", ["names without a zero", "symbol of a relocation", "debug relocation of no symbol"]
)
def test_malformed_cubin_is_refused(node: LocalNode, name: str, tmp_path: Path) -> None:
    assert status(node, "load", image(tmp_path, elf(**MALFORMED_ELF[name]))) == INVALID_IMAGE
    assert status(node, "load", image(tmp_path, elf())) == NO_BINARY_FOR_GPU


def test_fatbin_without_code_for_the_linker_is_refused(node: LocalNode, tmp_path: Path) -> None:
    file = image(tmp_path, intact_fatbins()["other kinds"])
    assert status(node, "link", file) == NO_BINARY_FOR_GPU


def cached(node: LocalNode) -> set[Path]:
    return set((node.runtime / "images").glob("*/*"))


def test_only_an_image_that_loads_is_cached(node: LocalNode, tmp_path: Path) -> None:
    before, padding = cached(node), b"// " + b"x" * (2 << 20) + b"\n"
    assert status(node, "load", image(tmp_path, PTX + padding + b".visible nonsense;\n")) != 0
    assert cached(node) == before
    for _ in range(2):
        assert status(node, "load", image(tmp_path, PTX + padding)) == 0
        (kept,) = cached(node) - before
        assert kept.stat().st_size >= len(padding)
