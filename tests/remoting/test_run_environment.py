"""What `busbar run` sets for a program whose GPUs are software: compilers stay on PTX."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

from remoting.cli.run_command import environment


def test_compilers_stay_on_ptx_on_a_software_gpu(tmp_path: Path) -> None:
    env = environment(tmp_path / "ticket", software=True)
    assert env["CUPY_COMPILE_WITH_PTX"] == "1"
    (tmp_path / "kernel.ptx").write_text(".version 8.0\n")
    for name in ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"):
        out = tmp_path / name
        subprocess.run(
            [
                env[name],
                "-lineinfo",
                "-v",
                "--gpu-name=sm_120a",
                str(tmp_path / "kernel.ptx"),
                "-o",
                str(out),
            ],
            check=True,
        )
        assert out.read_text() == ".version 8.0\n"
    assert not hasattr(
        ctypes.CDLL(env["LD_PRELOAD"]), "nvJitLinkCreate"
    )  # so that cuda.core takes the driver's linker


def test_a_real_gpu_needs_none_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LD_PRELOAD", "TRITON_PTXAS_PATH"):
        monkeypatch.delenv(name, raising=False)
    env = environment(tmp_path / "ticket", software=False)
    assert "LD_PRELOAD" not in env
    assert "TRITON_PTXAS_PATH" not in env


def test_what_the_user_chose_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/usr/bin/ptxas")
    assert environment(tmp_path / "ticket", software=True)["TRITON_PTXAS_PATH"] == "/usr/bin/ptxas"
