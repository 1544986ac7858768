"""Programs of cuda-python, Triton, Taichi, Dr.Jit, Halide and tinygrad on the software GPU."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deploy.supervisor import ROOT
from remoting.cli.run_command import software_gpu_variables
from tests.remoting.node import direct_environment


def programs(module: str) -> list[str]:
    """Return the program names of a module without importing it (and CUDA or Triton)."""
    tree = ast.parse((ROOT / "tests" / "softgpu" / f"{module}.py").read_text())
    listed = next(
        n
        for n in tree.body
        if isinstance(n, ast.Assign)
        and isinstance(n.targets[0], ast.Name)
        and n.targets[0].id == "PROGRAMS"
    )
    assert isinstance(listed.value, ast.DictComp)
    names = listed.value.generators[0].iter
    assert isinstance(names, ast.Tuple)
    return [n.id for n in names.elts if isinstance(n, ast.Name)]


def front_end_programs() -> list[str]:
    """Return the programs whose front end has a wheel for this version of Python."""
    names = programs("front_end_programs")
    return [n for n in names if importlib.util.find_spec(n.split("_")[0])]


def long_but(name: str, names: list[str]) -> list[Any]:
    """Mark all but one name: remoting/test_programs.py runs each on the same software GPU."""
    return [n if n == name else pytest.param(n, marks=pytest.mark.long) for n in names]


def run(module: str, name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    env = (
        os.environ
        | direct_environment(folder)
        | software_gpu_variables()
        | {
            "PYTHONPATH": str(ROOT),
            "TRITON_CACHE_DIR": str(folder / "triton"),
            "TRITON_DEFAULT_FP_FUSION": "1",
            "XDG_CACHE_HOME": str(folder),
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


@pytest.mark.parametrize("name", long_but("assertion", programs("cuda_programs")))
def test_cuda_python_program_passes(name: str, tmp_path: Path) -> None:
    done = run("cuda_programs", name, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    if name == "assertion":
        assert "block: [0,0,0], thread: [0,0,0] Assertion `n < 5` failed." in done.stderr


@pytest.mark.parametrize("name", long_but("vector_add", programs("triton_programs")))
def test_triton_program_passes(name: str, tmp_path: Path) -> None:
    done = run("triton_programs", name, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.long
@pytest.mark.parametrize("name", front_end_programs())
def test_front_end_program_passes(name: str, tmp_path: Path) -> None:
    done = run("front_end_programs", name, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
